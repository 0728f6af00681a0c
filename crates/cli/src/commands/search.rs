//! `cairn search`: in a channel or in all of them.

use cairn_types::ports::{Hit, HitKind};
use cairn_types::text::words::topic_words;
use clap::Args;
use clap::builder::PossibleValuesParser;
use console::{Style, style};

use crate::args::{Global, SaidArgs};
use crate::client::with_params;
use crate::commands::history::ASSISTANT;
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::{args, out};
use cairn_api::lists::{NEXT, UNINDEXED};
use cairn_api::text::{columns, counted, cut, minute, one_line, plain};

#[derive(Debug, Args)]
#[command(
    override_usage = "cairn search [OPTIONS] [C] <QUERY>",
    after_help = "\
Examples:
  cairn search 'harbour crossing'            in all channels
  cairn search main 'harbour crossing'       in one
  cairn search main Lisbon --kind memory --limit 5 --json
  cairn search Lisbon --user ann --since 3d

Words may be in any order, and none is required; the best results are first.
Results marked * contain some of the words. Results marked ~ contain none:
they were found by the messages around them, such as an answer to a question."
)]
pub struct SearchArgs {
    /// The words to search for; before them, the channel if only one is searched: a bare local name, or
    /// agent/platform/chat[/thread]
    #[arg(value_name = "[C] QUERY", required = true)]
    asked: Vec<String>,
    /// Maximum number of results, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
          value_parser = args::limit())]
    limit: u64,
    /// Only items after this place, which a truncated list prints
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    /// Only results of this kind
    #[arg(long, value_name = "K", value_parser = PossibleValuesParser::new(["entry", "summary", "memory"]))]
    kind: Option<String>,
    #[command(flatten)]
    said: SaidArgs,
}

pub async fn search(global: Global, args: SearchArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let (channel, query) = channel_and_query(args.asked)?;
    let channel = channel.map(|name| connector.channel(&name, None)).transpose()?;
    if query.trim().is_empty() {
        return Err(Failure::usage("the query is empty", "give the words to search for"));
    }
    let path =
        channel.as_ref().map_or_else(|| "/v1/search".to_owned(), |channel| channel_path(channel, "search"));
    let has_words = !topic_words(&query).is_empty();
    let mut params = vec![
        ("q", Some(query)),
        ("limit", Some(args.limit.to_string())),
        ("kind", args.kind),
        ("after", args.after),
    ];
    params.extend(args.said.params());
    let connection = connector.reading().await?;
    let path = with_params(&path, &params);
    let found = connection.client.get_with_headers::<Vec<Hit>, 2>(&path, [UNINDEXED, NEXT]).await;
    let (hits, [unindexed, next]) = connection.finish(found.map_err(Failure::from)).await?;
    if let Some(n) = unindexed {
        out::note(&format!("note: incomplete: the index is being built and lacks {n} journal records"));
    }
    out::record(global.json, &hits, |hits| {
        if hits.is_empty() {
            let why = if has_words { "" } else { ": words as common as these are not indexed" };
            return format!("nothing found{why}\n");
        }
        let width = out::width();
        hits.iter().map(|hit| shown_hit(hit, channel.is_none(), width)).collect()
    })?;
    if let (false, Some(next)) = (global.json, next) {
        let n = counted(hits.len() as u64, "result", "results");
        out::note(&format!("{n}; --limit shows more; next page: --after {next}"));
    }
    Ok(())
}

/// The channel may be left out, and options may stand between the two.
fn channel_and_query(mut asked: Vec<String>) -> Result<(Option<String>, String), Failure> {
    let query = asked.pop().unwrap_or_default();
    let channel = asked.pop();
    if asked.is_empty() {
        return Ok((channel, query));
    }
    let hint = "put the words in quotes: cairn search main 'harbour crossing'";
    Err(Failure::usage("too many arguments: only a channel and a query", hint))
}

/// A hit on one line; `names_channel`: others may be of other channels.
fn shown_hit(hit: &Hit, names_channel: bool, width: usize) -> String {
    let what = match hit.kind {
        HitKind::Entry => {
            hit.author.as_ref().map_or_else(|| ASSISTANT.to_owned(), |author| one_line(&author.name))
        }
        HitKind::Summary => format!("summary {}", hit.id),
        HitKind::Memory => format!("memory {}", hit.id),
    };
    let seq = hit.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let place = hit.channel.as_ref().filter(|_| names_channel).map(|channel| format!("  {channel}"));
    let mark = if hit.near { '~' } else { '*' };
    let head = format!(
        "{mark} {seq:>6}  {:6.2}  {}{}  {what}: ",
        hit.score,
        minute(hit.at),
        place.unwrap_or_default()
    );
    let room = width.saturating_sub(columns(&head)).max(20);
    let pieces = excerpt(&hit.text, &hit.marks, room).into_iter().map(|(is_marked, piece)| {
        let shown = if is_marked { Style::new().bold().yellow() } else { Style::new() };
        shown.apply_to(piece).to_string()
    });
    let text: String = pieces.collect();
    if hit.near { format!("{}\n", style(format!("{head}{text}")).dim()) } else { format!("{head}{text}\n") }
}

/// What stands before the first word that was found, where the beginning of a text has to go for it.
const BEFORE: usize = 3;

/// So much of a text as there is room for, on one line, around the first word that was searched for: in pieces, each with
/// whether it is one of these words.
fn excerpt(text: &str, marks: &[(usize, usize)], room: usize) -> Vec<(bool, String)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for (from, to) in marks {
        let (Some(before), Some(word)) = (text.get(at..*from), text.get(*from..*to)) else { break };
        pieces.extend([(false, flat(before)), (true, flat(word))]);
        at = *to;
    }
    pieces.push((false, flat(text.get(at..).unwrap_or_default())));
    if let [(_, first), (_, word), ..] = pieces.as_mut_slice()
        && columns(first) + columns(word) > room
    {
        let words: Vec<&str> = first.split_inclusive(' ').collect();
        *first = format!("…{}", words[words.len().saturating_sub(BEFORE)..].concat());
        if columns(first) + columns(word) > room {
            *first = "…".to_owned();
        }
    }
    let mut left = room;
    let mut shown = Vec::new();
    for (is_marked, piece) in pieces {
        let cut = cut(&piece, left);
        left = left.saturating_sub(columns(&piece));
        let is_whole = cut == piece;
        if !cut.is_empty() {
            shown.push((is_marked, cut));
        }
        if !is_whole {
            break;
        }
    }
    shown
}

/// Words of one line, as [`one_line`], with the gaps at both ends.
fn flat(text: &str) -> String {
    let gap = |is_there: bool| if is_there { " " } else { "" };
    let line = one_line(text);
    if line.is_empty() {
        return gap(!text.is_empty()).to_owned();
    }
    let (before, behind) = (text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace));
    plain(&format!("{}{line}{}", gap(before), gap(behind)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TEXT: &str = "We took  the\nold ferry to the harbour at noon, and the ferry back.";

    /// The bytes of the words of a text that are such.
    fn marks(word: &str) -> Vec<(usize, usize)> {
        TEXT.match_indices(word).map(|(at, found)| (at, at + found.len())).collect()
    }

    #[rstest]
    #[case::nothing_marked("", 100, "We took the old ferry to the harbour at noon, and the ferry back.")]
    #[case::all_fits("ferry", 100, "We took the old [ferry] to the harbour at noon, and the [ferry] back.")]
    #[case::cut_behind("ferry", 30, "We took the old [ferry] to the …")]
    #[case::cut_before("noon", 24, "…the harbour at [noon], a…")]
    #[case::no_room_before("noon", 8, "…[noon], …")]
    #[case::too_narrow_for_the_word("harbour", 5, "…[har…]")]
    fn an_excerpt_shows_what_was_found(#[case] word: &str, #[case] room: usize, #[case] expected: &str) {
        let marks = if word.is_empty() { Vec::new() } else { marks(word) };
        let pieces = excerpt(TEXT, &marks, room);
        let shown: String = pieces
            .iter()
            .map(|(is_marked, piece)| if *is_marked { format!("[{piece}]") } else { piece.clone() })
            .collect();
        assert_eq!(shown, expected);
        let width: usize = pieces.iter().map(|(_, piece)| columns(piece)).sum();
        assert!(width <= room, "{width} columns");
    }

    #[test]
    fn marks_that_do_not_fit_the_text_do_no_harm() {
        assert_eq!(excerpt("né", &[(0, 2)], 20), [(false, "né".to_owned())], "in the midst of a character");
        assert_eq!(excerpt("a", &[(5, 9)], 20), [(false, "a".to_owned())]);
        assert_eq!(excerpt("a\u{1b}[2J", &[(0, 1)], 40)[1].1, "\\u{1b}[2J", "what is hidden is escaped");
    }
}
