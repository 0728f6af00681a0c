//! `cairn ui`: a link to the page.

use clap::Args;
use serde_json::json;

use crate::args::Global;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use cairn_api::records::PageLink;
use cairn_api::text::minute;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn ui
  cairn ui --read-only            to look, but change nothing

The daemon serves the page if [admin] has `page = true`, by default at
http://127.0.0.1:9464. The link works once, within ten minutes. The browser
that opens it stays logged in for twelve hours, also over a restart of the
daemon, or until it logs out. From another machine, run
`ssh -L 9464:127.0.0.1:9464 HOST`, then open the link there.")]
pub struct UiArgs {
    /// The browser can see everything but change nothing
    #[arg(long)]
    read_only: bool,
}

pub async fn ui(global: Global, args: UiArgs) -> Result<(), Failure> {
    let Some(client) = Connector::without_config(&global)?.running().await? else {
        return Err(Failure::failed(
            "no daemon runs here",
            "`cairn run` starts one; use --state for another state folder",
        ));
    };
    let link: PageLink = client.post("/v1/page/links", &json!({ "read_only": args.read_only })).await?;
    out::record(global.json, &link, |link| {
        format!(
            "{}\n\nIt works once, until {} UTC, with the scope {}.\nWithout scripts: open {} and paste it there.\n",
            link.url,
            minute(link.until),
            link.scope.name(),
            link.page
        )
    })
}
