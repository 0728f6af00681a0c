//! `cairn summary`: what stands for the older part of a conversation, and what it leaves out.

use clap::Subcommand;

use crate::args::{ChannelArg, Global};
use crate::client::encode;
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use crate::paint::paint;
use cairn_api::records::{SummaryLine, SummaryView};
use cairn_api::show::summaries;
use cairn_api::text::{grouped, one_line, plain};
use cairn_types::ids::ChannelId;

/// What a summary leaves out that is listed; `--json` has all.
const LEFT_OUT_SHOWN: usize = 40;

#[derive(Debug, Subcommand)]
pub enum SummaryCommand {
    /// List the summaries of a channel, including merged and replaced ones
    #[command(after_help = "Examples:\n  cairn summary list main\n  cairn summary list main --json")]
    List {
        #[command(flatten)]
        channel: ChannelArg,
    },
    /// Show a summary: its text, its sources, and details of the sources that it leaves out
    #[command(after_help = "\
Example:
  cairn summary show main s3

Below the text it lists identifiers, numbers and names that are in the entries
but not in the summary. They are recognised by their form, so some are missed.
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
            out::record(global.json, &lines, |lines| listed(&channel, lines))
        }
        SummaryCommand::Show { channel, id } => {
            let channel = connector.channel(&channel.channel, None)?;
            let path = channel_path(&channel, &format!("summaries/{}", encode(id.trim())));
            let view: SummaryView = connector.get(&path).await?;
            out::record(global.json, &view, shown)
        }
    }
}

fn listed(channel: &ChannelId, lines: &[SummaryLine]) -> String {
    if lines.is_empty() {
        return "no summaries yet: the window was never compacted\n".to_owned();
    }
    paint(&summaries(channel, lines.iter()), out::room())
}

fn shown(view: &SummaryView) -> String {
    let mut lines = vec![out::of(view), plain(view.text.trim_end())];
    if !view.identifiers.is_empty() {
        lines.push(format!("Exact identifiers: {}", one_line(&view.identifiers.join(", "))));
    }
    lines.push(String::new());
    lines.extend(left_out(view));
    lines.join("\n") + "\n"
}

/// What was found in the source and is not in the summary.
fn left_out(view: &SummaryView) -> Vec<String> {
    let n = view.left_out.len();
    match (view.entries, n) {
        (0, _) => return vec!["left out: not known, since no entry has its text any more".to_owned()],
        (_, 0) => return vec!["left out: no identifier, number or name of its source".to_owned()],
        _ => {}
    }
    let mut lines = vec![format!("left out: {} identifiers, numbers and names", grouped(n as u64))];
    let mut table = Table::new(&["kind", "entry", "in", "what"], &[1, 2]);
    for one in view.left_out.iter().take(LEFT_OUT_SHOWN) {
        table.row(vec![one.kind.clone(), one.seq.to_string(), grouped(one.entries), one_line(&one.text)]);
    }
    lines.push(table.render(out::width()).trim_end().to_owned());
    if n > LEFT_OUT_SHOWN {
        lines.push(format!("and {} more; --json has all", grouped((n - LEFT_OUT_SHOWN) as u64)));
    }
    lines
}
