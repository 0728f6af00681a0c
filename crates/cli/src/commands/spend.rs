//! `cairn spend`: what calls of models took and cost.

use cairn_core::spend::{SpendBy, SpendLine, SpendPurpose, amount};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::civil::Date;

use crate::args::Global;
use crate::client::with_params;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::text::{grouped, one_line};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn spend                             by day, the last 30 days
  cairn spend --by agent,purpose
  cairn spend --by person --from 2026-11-01 --to 2026-11-30
  cairn spend --by day,channel --json

Token counts are those that the model servers report. If a server reports
none, or an answer was stopped or interrupted, they are estimated: the column
`estimated` counts these calls. Cost is at current prices; a dash means that
the model has no price. The tokens of an answer to several people are divided
among them. Figures are kept for 400 days.")]
pub struct SpendArgs {
    /// Group by this; several with commas
    #[arg(long, value_name = "BY", value_delimiter = ',', default_value = "day",
          value_parser = PossibleValuesParser::new(SpendBy::ALL.map(SpendBy::name)))]
    by: Vec<String>,
    /// First day (UTC) [default: 29 days before the last]
    #[arg(long, value_name = "DAY")]
    from: Option<Date>,
    /// Last day (UTC) [default: today]
    #[arg(long, value_name = "DAY")]
    to: Option<Date>,
}

pub async fn spend(global: Global, args: SpendArgs) -> Result<(), Failure> {
    let params = [
        ("from", args.from.map(|day| day.to_string())),
        ("to", args.to.map(|day| day.to_string())),
        ("by", Some(args.by.join(","))),
    ];
    let path = with_params("/v1/spend", &params);
    let connector = Connector::load(&global).await?;
    let lines: Vec<SpendLine> = connector.get(&path).await?;
    let currency = &connector.loaded.config.limits.currency;
    let by: Vec<SpendBy> = args.by.iter().filter_map(|name| SpendBy::of_name(name)).collect();
    out::record(global.json, &lines, |lines| table(lines, &by, currency))
}

fn table(lines: &[SpendLine], by: &[SpendBy], currency: &str) -> String {
    if lines.is_empty() {
        return "nothing was spent on these days\n".to_owned();
    }
    let names = by.iter().map(|by| by.name());
    let heading: Vec<&str> =
        names.chain(["calls", "estimated", "input", "cached", "output", "cost"]).collect();
    let mut table = Table::new(&heading, &[]);
    for line in lines {
        let usage = line.sum.usage;
        let figures = [
            line.sum.calls,
            line.sum.estimated,
            usage.input_tokens,
            usage.cached_tokens,
            usage.output_tokens,
        ];
        let mut row: Vec<String> = by.iter().map(|by| shown(line, *by)).collect();
        row.extend(figures.map(grouped));
        row.push(line.cost.map_or_else(|| "-".to_owned(), |cost| one_line(&amount(cost, currency))));
        table.row(row);
    }
    table.render(out::room())
}

fn shown(line: &SpendLine, by: SpendBy) -> String {
    let text = match by {
        SpendBy::Day => line.day.map(|day| day.to_string()),
        SpendBy::Agent => line.agent.as_ref().map(ToString::to_string),
        SpendBy::Channel => line.channel.as_ref().map(ToString::to_string),
        SpendBy::Person => line.person.clone(),
        SpendBy::Purpose => line.purpose.map(SpendPurpose::name).map(str::to_owned),
        SpendBy::Model => line.model.clone(),
    };
    text.filter(|text| !text.is_empty()).map_or_else(|| "-".to_owned(), |text| one_line(&text))
}
