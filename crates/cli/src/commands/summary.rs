//! `cairn summary`: what stands for the older part of a conversation, and what it leaves out.

use clap::Subcommand;

use crate::args::{ChannelArg, Global};
use crate::client::encode;
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::records::{SummaryLine, SummaryState, SummaryView};
use cairn_api::text::{counted, day, grouped, minute, one_line, plain};

/// What a summary leaves out that is listed; `--json` has all.
const LEFT_OUT_SHOWN: usize = 40;

#[derive(Debug, Subcommand)]
pub enum SummaryCommand {
    /// List the summaries of a channel, merged and replaced ones too
    #[command(after_help = "Examples:\n  cairn summary list main\n  cairn summary list main --json")]
    List {
        #[command(flatten)]
        channel: ChannelArg,
    },
    /// Show a summary: its text, what it was made of, and what its source says that it does not
    #[command(after_help = "\
Example:
  cairn summary show main s3

Below the text stand the identifiers, numbers and names that are found in the
entries and not in the summary: by their shape, so that some are passed over.
`cairn history` shows the entries themselves.")]
    Show {
        #[command(flatten)]
        channel: ChannelArg,
        /// The summary, such as s3
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub async fn summary(global: Global, command: SummaryCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        SummaryCommand::List { channel } => {
            let channel = connector.channel(&channel.channel, None)?;
            let lines: Vec<SummaryLine> = connector.get(&channel_path(&channel, "summaries")).await?;
            out::record(global.json, &lines, |lines| listed(lines))
        }
        SummaryCommand::Show { channel, id } => {
            let channel = connector.channel(&channel.channel, None)?;
            let path = channel_path(&channel, &format!("summaries/{}", encode(id.trim())));
            let view: SummaryView = connector.get(&path).await?;
            out::record(global.json, &view, shown)
        }
    }
}

fn listed(lines: &[SummaryLine]) -> String {
    if lines.is_empty() {
        return "no summaries yet: the window was never compacted\n".to_owned();
    }
    let mut table =
        Table::new(&["id", "level", "entries", "from", "to", "tokens", "by", "made", "state"], &[1, 5]);
    for line in lines {
        table.row(vec![
            line.id.to_string(),
            line.level.to_string(),
            format!("{}-{}", line.from_seq, line.to_seq),
            day(line.from_at),
            day(line.to_at),
            grouped(u64::from(line.tokens)),
            one_line(&line.made_by),
            minute(line.made_at),
            state(line),
        ]);
    }
    table.render(out::width())
}

fn state(line: &SummaryLine) -> String {
    let state = match &line.state {
        SummaryState::Window => "in the window".to_owned(),
        SummaryState::Merged(into) => format!("merged into {into}"),
        SummaryState::Replaced(by) => format!("replaced by {by}"),
        SummaryState::Archived => "of an earlier session".to_owned(),
    };
    if line.provisional { format!("{state}, provisional") } else { state }
}

fn shown(view: &SummaryView) -> String {
    let line = &view.line;
    let mut lines = vec![
        format!(
            "{} of {}: level {}, entries {}-{}, {} to {}",
            line.id,
            view.channel,
            line.level,
            line.from_seq,
            line.to_seq,
            day(line.from_at),
            day(line.to_at)
        ),
        format!(
            "{}, {} tokens, by {}, {} (run {}, {})",
            state(line),
            grouped(u64::from(line.tokens)),
            one_line(&line.made_by),
            minute(line.made_at),
            view.run,
            view.trigger.name()
        ),
    ];
    if line.provisional {
        lines.push("provisional: no model could make it; one will make it again".to_owned());
    }
    for source in &view.sources {
        lines.push(format!(
            "  made of {}: level {}, entries {}-{}, by {}",
            source.id,
            source.level,
            source.from_seq,
            source.to_seq,
            one_line(&source.made_by)
        ));
    }
    lines.extend([String::new(), plain(view.text.trim_end())]);
    if !view.identifiers.is_empty() {
        lines.push(format!("Exact identifiers: {}", one_line(&view.identifiers.join(", "))));
    }
    lines.push(String::new());
    lines.extend(left_out(view));
    lines.join("\n") + "\n"
}

fn left_out(view: &SummaryView) -> Vec<String> {
    let of = match (view.entries, view.wordless) {
        (0, _) => {
            return vec![
                "the words of all its entries are gone: there is nothing to compare it with".to_owned(),
            ];
        }
        (entries, 0) => counted(entries, "entry", "entries"),
        (entries, wordless) => format!(
            "{} ({} without words: deleted or expired)",
            counted(entries, "entry", "entries"),
            grouped(wordless)
        ),
    };
    if view.left_out.is_empty() {
        return vec![format!(
            "compared with its {of}: no identifier, number or name that was found in them is missing"
        )];
    }
    let n = grouped(view.left_out.len() as u64);
    let mut lines = vec![format!("compared with its {of}: {n} identifiers, numbers and names are not in it")];
    let mut table = Table::new(&["kind", "entry", "in", "what"], &[1, 2]);
    for one in view.left_out.iter().take(LEFT_OUT_SHOWN) {
        table.row(vec![one.kind.clone(), one.seq.to_string(), grouped(one.entries), one_line(&one.text)]);
    }
    lines.push(table.render(out::width()).trim_end().to_owned());
    if view.left_out.len() > LEFT_OUT_SHOWN {
        lines.push(format!(
            "and {} more; --json has all",
            grouped((view.left_out.len() - LEFT_OUT_SHOWN) as u64)
        ));
    }
    lines
}
