//! Search in all channels and memories, or in one channel.

use axum::extract::{Query, State};
use cairn_types::ports::{Hit, HitKind};
use cairn_types::text::words::topic_words;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, encoded, entry_path, memory_path, summary_path, turn_path};
use crate::marks::at_places;
use crate::pieces::{command, text, time};
use crate::visitor::Visitor;
use cairn_api::error::ApiError;
use cairn_api::text::{counted, one_line};
use cairn_server::api::search::{Found, SearchParams, everywhere, in_channel};
use cairn_server::api::{Channel, Params, Shared};
use cairn_types::ids::{MemoryId, SummaryId};

/// Hits on a page.
const LINES: usize = 50;

/// Characters of a hit's text, and how many of them may come before the first word that was found.
const SHOWN: usize = 400;
const BEFORE: usize = 100;

const HERE: &str = "/search";

const KINDS: [(&str, HitKind, &str); 3] = [
    ("entry", HitKind::Entry, "messages"),
    ("summary", HitKind::Summary, "summaries"),
    ("memory", HitKind::Memory, "memories"),
];

#[derive(Default, Deserialize)]
pub(super) struct SearchQuery {
    q: Option<String>,
    channel: Option<String>,
    kind: Option<String>,
    user: Option<String>,
    since: Option<String>,
    until: Option<String>,
    after: Option<String>,
}

impl SearchQuery {
    /// What is asked for, by name.
    fn given(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("q", &self.q),
            ("channel", &self.channel),
            ("kind", &self.kind),
            ("user", &self.user),
            ("since", &self.since),
            ("until", &self.until),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?.trim())))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.given().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn params(&self) -> Result<SearchParams, ApiError> {
        let own = |name: &str| self.value(name).map(str::to_owned);
        let of_name = |name: &str| KINDS.iter().find(|(known, ..)| *known == name).map(|(_, kind, _)| *kind);
        let kind = self.value("kind").map(|name| {
            of_name(name).ok_or_else(|| ApiError::malformed("`kind` is entry, summary or memory"))
        });
        Ok(SearchParams {
            q: own("q"),
            kind: kind.transpose()?,
            since: own("since"),
            until: own("until"),
            user: own("user"),
            limit: Some(LINES),
            after: self.after.clone().filter(|after| !after.is_empty()),
        })
    }

    fn command(&self) -> String {
        let words = self.value("q").unwrap_or("WORDS").to_owned();
        let mut args = vec!["search".to_owned()];
        args.extend(self.value("channel").map(str::to_owned));
        args.push(words);
        for (name, value) in self.given().iter().filter(|(name, _)| !["q", "channel"].contains(name)) {
            args.extend([format!("--{name}"), (*value).to_owned()]);
        }
        command(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// `GET /search`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<SearchQuery>,
) -> Result<Markup, PageError> {
    let found = match query.value("q") {
        None => None,
        Some(_) => Some(match query.value("channel") {
            Some(name) => {
                let channel = Channel(admin.resolve(name)?, ());
                in_channel(State(admin), channel, Params(query.params()?)).await?
            }
            None => everywhere(State(admin), Params(query.params()?)).await?,
        }),
    };
    let body = html! {
        (filter(&query))
        @match &found {
            Some(found) => (hits(&query, found)),
            None => p.note { "Words may be in any order, and none is required; the best results are first." },
        }
    };
    let frame = Frame { title: "Search", section: Section::Search, visitor, command: query.command() };
    Ok(layout(&frame, &body))
}

fn filter(query: &SearchQuery) -> Markup {
    let field = |name: &'static str, label: &'static str, like: &'static str| {
        html! {
            p {
                label for=(name) { (label) }
                input id=(name) name=(name) value=(query.value(name).unwrap_or_default()) placeholder=(like);
            }
        }
    };
    html! {
        form.filter method="get" action=(HERE) role="search" {
            p { label for="q" { "Words" } input #q name="q" type="search" required value=(query.value("q").unwrap_or_default()); }
            p {
                label for="kind" { "In" }
                select #kind name="kind" {
                    option value="" { "everything" }
                    @for (name, _, shown) in KINDS { option value=(name) selected[query.value("kind") == Some(name)] { (shown) } }
                }
            }
            (field("channel", "Channel", "all"))
            (field("user", "Said by", "anybody"))
            (field("since", "Since", "3d, 2026-11-20"))
            (field("until", "Until", "today"))
            p { button { "Search" } }
        }
    }
}

fn hits(query: &SearchQuery, found: &Found) -> Markup {
    let kept: Vec<String> =
        query.given().iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let here = format!("{HERE}?{}", kept.join("&"));
    let begins = query.after.as_ref().is_none_or(String::is_empty);
    let is_common = query.value("q").is_some_and(|words| topic_words(words).is_empty());
    html! {
        @if found.unindexed > 0 {
            p.trouble { "Incomplete: the index is being built and lacks " (counted(found.unindexed, "record", "records")) "." }
        }
        @if found.page.items.is_empty() {
            p { "Nothing" @if !begins { " further" } " was found" @if is_common { ": these words are too common to search for" } "." }
        }
        div.hits { @for hit in &found.page.items { (shown(hit, query.value("channel").is_none())) } }
        nav.pages aria-label="Pages" {
            @if !begins { a href=(here) { "First page" } }
            @if let Some(next) = &found.page.next { a rel="next" href={ (here) "&after=" (encoded(next)) } { "Next page" } }
        }
    }
}

fn shown(hit: &Hit, names_channel: bool) -> Markup {
    let (who, leads) = match hit.kind {
        HitKind::Entry => {
            let who = hit.author.as_ref().map_or("the model", |author| &author.name);
            let place = hit.channel.as_ref().zip(hit.seq).map(|(channel, seq)| entry_path(channel, seq));
            (one_line(who), place)
        }
        HitKind::Summary => {
            let id = SummaryId::from(hit.id.as_str());
            let place = hit.channel.as_ref().map(|channel| summary_path(channel, id.as_str()));
            (format!("Summary {}", one_line(&hit.id)), place)
        }
        HitKind::Memory => {
            let id = MemoryId::from(hit.id.as_str());
            (format!("Memory {}", one_line(&hit.id)), Some(memory_path(&id)))
        }
    };
    html! {
        article.hit.near[hit.near] {
            p.head {
                @match leads { Some(leads) => b { a href=(leads) { (who) } }, None => b { (who) } }
                " · " (time(hit.at))
                @if let Some(channel) = hit.channel.as_ref().filter(|_| names_channel) { " · " (channel_link(channel)) }
                @if let (Some(channel), Some(turn)) = (&hit.channel, &hit.turn) { " · " a href=(turn_path(channel, turn)) { "turn " (text(turn)) } }
                @if hit.near { " · found by its context" }
            }
            div.said dir="auto" { (excerpt(hit)) }
        }
    }
}

/// So much of a text as is shown, around the first word that was found.
fn excerpt(hit: &Hit) -> Markup {
    let text = hit.text.as_str();
    let first =
        hit.marks.first().map(|(from, _)| *from).filter(|from| text.is_char_boundary(*from)).unwrap_or(0);
    let whole = text.chars().count() <= SHOWN;
    let from = match whole {
        true => 0,
        false => text[..first].char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at),
    };
    let to = text[from..].char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| from + at);
    let marks: Vec<(usize, usize)> = hit
        .marks
        .iter()
        .filter(|(begin, end)| *begin >= from && *end <= to)
        .map(|(begin, end)| (begin - from, end - from))
        .collect();
    html! {
        @if from > 0 { "…" }
        (at_places(&text[from..to], &marks))
        @if to < text.len() { "…" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(text: &str, marks: &[(usize, usize)]) -> Hit {
        let hit = serde_json::json!({
            "seq": 1, "score": 1.0, "at": "2026-03-05T09:00:00Z", "author": null, "text": text,
            "kind": "entry", "id": "1", "marks": marks,
        });
        serde_json::from_value(hit).unwrap()
    }

    #[test]
    fn a_long_text_is_shown_around_the_first_word_that_was_found() {
        let text = format!("{}the <ferry> {}", "é ".repeat(400), "and so on ".repeat(100));
        let at = text.find("<ferry>").unwrap();
        let shown = excerpt(&hit(&text, &[(at, at + 7)])).into_string();
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.contains("the <mark>&lt;ferry&gt;</mark> and"), "{shown}");
        let short = excerpt(&hit("the ferry", &[(4, 9), (5, 90), (1, 2)])).into_string();
        assert_eq!(short, "the <mark>ferry</mark>", "marks that do not fit do no harm");
        assert_eq!(excerpt(&hit("né", &[(2, 3)])).into_string(), "né");
    }
}
