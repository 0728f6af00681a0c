//! What model calls took and cost, by day, person, channel and so on.

use axum::extract::{Query, State};
use cairn_core::spend::{SpendBy, SpendLine, SpendPurpose, SpendSum, amount};
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::channel_link;
use crate::pieces::{command, currency, table, text};
use crate::visitor::Visitor;
use cairn_api::text::{counted, grouped};
use cairn_server::api::spend::{SpendParams, spend};
use cairn_server::api::{Params, Shared};

const HERE: &str = "/spend";

/// Lines that are shown; the command has all.
const LINES: usize = 500;

#[derive(Deserialize)]
pub(super) struct SpendQuery {
    by: Option<String>,
    then: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// `GET /spend`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<SpendQuery>,
) -> Result<Markup, PageError> {
    let of_name = |name: &Option<String>| name.as_deref().and_then(SpendBy::of_name);
    let first = of_name(&query.by).unwrap_or(SpendBy::Day);
    let second = of_name(&query.then).filter(|second| *second != first);
    let by: Vec<SpendBy> = [Some(first), second].into_iter().flatten().collect();
    let names = by.iter().map(|by| by.name()).collect::<Vec<_>>().join(",");
    let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let (from, to) = (given(&query.from), given(&query.to));
    let params = SpendParams { from: from.clone(), to: to.clone(), by: Some(names.clone()) };
    let currency = currency(&admin);
    let mut lines = spend(State(admin), Params(params)).await?.0;
    // The newest day comes first; of all else, what costs the most.
    if first == SpendBy::Day {
        lines.reverse();
    } else {
        lines.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    }
    let body = html! {
        (filter(first, second, from.as_deref(), to.as_deref()))
        @if lines.is_empty() { p { "Nothing was spent on these days." } } @else { (sums(&lines, &by, &currency)) }
        p.note {
            "Days are in UTC; the default is the last 30. Costs use today's prices; a dash means that the model has no price. \
             Tokens of an answer to several people are divided among them. Sums are kept for 400 days."
        }
    };
    let mut args = vec!["spend", "--by", &names];
    args.extend(from.iter().flat_map(|day| ["--from", day]));
    args.extend(to.iter().flat_map(|day| ["--to", day]));
    let frame = Frame { title: "Spend", section: Section::Spend, visitor, command: command(&args) };
    Ok(layout(&frame, &body))
}

/// What lines are sorted by: cost, or tokens where none has a price.
fn weight(line: &SpendLine) -> f64 {
    let usage = line.sum.usage;
    line.cost.unwrap_or(0.0) + (usage.input_tokens + usage.output_tokens) as f64 * 1e-12
}

fn filter(first: SpendBy, second: Option<SpendBy>, from: Option<&str>, to: Option<&str>) -> Markup {
    html! {
        form.filter method="get" action=(HERE) {
            p {
                label for="by" { "By" }
                select #by name="by" { @for by in SpendBy::ALL { option value=(by.name()) selected[by == first] { (by.name()) } } }
            }
            p {
                label for="then" { "Then by" }
                select #then name="then" {
                    option value="" { "nothing" }
                    @for by in SpendBy::ALL { option value=(by.name()) selected[Some(by) == second] { (by.name()) } }
                }
            }
            p { label for="from" { "From" } input #from name="from" type="date" value=(from.unwrap_or_default()); }
            p { label for="to" { "To" } input #to name="to" type="date" value=(to.unwrap_or_default()); }
            p { button { "Show" } }
        }
    }
}

fn sums(lines: &[SpendLine], by: &[SpendBy], currency: &str) -> Markup {
    let figures = [
        ("calls", "number"),
        ("estimated", "number wide"),
        ("input", "number"),
        ("cached", "number wide"),
        ("output", "number"),
        ("cost", "number"),
    ];
    let columns: Vec<_> = by.iter().map(|by| (by.name(), "")).chain(figures).collect();
    let row = |line: &SpendLine| {
        let mut row: Vec<Markup> = by.iter().map(|by| named(line, *by)).collect();
        row.extend(told(line.sum, line.cost, currency));
        row
    };
    let mut all = SpendSum::default();
    lines.iter().for_each(|line| all += line.sum);
    let priced: Vec<f64> = lines.iter().filter_map(|line| line.cost).collect();
    let cost = (!priced.is_empty()).then(|| priced.iter().sum());
    let mut total = vec![html! { b { "all" } }];
    total.extend(by.iter().skip(1).map(|_| html! {}));
    total.extend(told(all, cost, currency));
    let rows: Vec<_> = [total].into_iter().chain(lines.iter().take(LINES).map(row)).collect();
    html! {
        (table("Spend", &columns, &rows))
        @if lines.len() > LINES { p.note { (counted((lines.len() - LINES) as u64, "further line is", "further lines are")) " not shown." } }
    }
}

fn told(sum: SpendSum, cost: Option<f64>, currency: &str) -> [Markup; 6] {
    let usage = sum.usage;
    let figures =
        [sum.calls, sum.estimated, usage.input_tokens, usage.cached_tokens, usage.output_tokens].map(grouped);
    let [calls, estimated, input, cached, output] = figures.map(text);
    [
        calls,
        estimated,
        input,
        cached,
        output,
        text(cost.map_or_else(|| "-".to_owned(), |cost| amount(cost, currency))),
    ]
}

fn named(line: &SpendLine, by: SpendBy) -> Markup {
    let name = match by {
        SpendBy::Day => line.day.map(|day| day.to_string()),
        SpendBy::Agent => line.agent.as_ref().map(ToString::to_string),
        SpendBy::Channel => match &line.channel {
            Some(channel) => return channel_link(channel),
            None => None,
        },
        SpendBy::Person => line.person.clone(),
        SpendBy::Purpose => line.purpose.map(SpendPurpose::name).map(str::to_owned),
        SpendBy::Model => line.model.clone(),
    };
    text(name.filter(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned()))
}
