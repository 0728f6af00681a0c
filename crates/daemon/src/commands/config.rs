//! `cairn config`: checks or shows the configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use crate::wiring::Tools;
use cairn_api::records::ServerRecord;
use cairn_cli::args::Global;
use cairn_cli::connect::Connector;
use cairn_cli::failure::Failure;
use cairn_cli::{out, owner};
use cairn_config::{Config, Loaded, ProcessEnvironment};
use cairn_server::parts::tools::KnownTools;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a config file; errors are reported with their lines, exit code 2
    #[command(after_help = "\
Examples:
  cairn config check
  cairn config check /etc/cairn/config.toml

Warns about settings that work but are probably mistakes, such as entries of
`classes` and `always_allow` that name no tool. A server's tools are known
once you approve it.")]
    Check {
        /// The file [default: the one that the daemon reads]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print a JSON schema of the config file, for completion and checks in editors
    #[command(after_help = "\
Example:
  cairn config schema > config.schema.json

Editors with taplo (such as Even Better TOML) read it from the first line of
the config file:
  #:schema ./config.schema.json")]
    Schema,
    /// Show the effective configuration with all defaults, without secrets
    #[command(
        after_help = "Examples:\n  cairn config show\n  cairn config show --sources\n  cairn config show --json"
    )]
    Show {
        /// Show where each value comes from: a line of the file, [defaults], or the built-in default
        #[arg(long)]
        sources: bool,
    },
}

pub(crate) async fn config(global: Global, tools: &Tools, command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => {
            let file = file.or_else(|| global.config.clone());
            check(&global, tools, load(&file)?).await
        }
        ConfigCommand::Schema => out::json(&cairn_config::schema()),
        ConfigCommand::Show { sources } => {
            let loaded = load(&global.config)?;
            match (global.json, sources) {
                (true, false) => out::json(&loaded.to_json()),
                (true, true) => out::json(&loaded.sources_to_json()),
                (false, false) => out::raw(loaded.show().as_bytes()),
                (false, true) => out::raw(loaded.show_sources().as_bytes()),
            }
        }
    }
}

async fn check(global: &Global, tools: &Tools, mut loaded: Loaded) -> Result<(), Failure> {
    loaded.check_tokens()?;
    loaded.database()?;
    let bad_model = |error: crate::wiring::BadRanking| {
        Failure::failed(error.to_string(), "use another model, or remove the key")
    };
    crate::wiring::embedder(&loaded).map_err(bad_model)?;
    crate::wiring::reranker(&loaded).map_err(bad_model)?;
    let (unmatched, not_checked) = unmatched_tools(global, tools, &loaded).await?;
    loaded.warnings.extend(unmatched);
    if global.json {
        let file = loaded.file.as_ref().map(|file| file.display().to_string());
        return out::json(&json!({ "ok": true, "file": file, "warnings": loaded.warnings }));
    }
    for warning in &loaded.warnings {
        out::note(&format!("warning: {warning}"));
    }
    not_checked.iter().for_each(|note| out::note(note));
    let name = loaded.file.map_or_else(|| "built-in defaults".to_owned(), |f| f.display().to_string());
    out::line(&format!("{name}: fine"))
}

/// Warnings about entries of `classes` and `always_allow` that name no tool, and a note about what could not be
/// checked: the tools of servers are known only from their approvals, which are in the state.
async fn unmatched_tools(
    global: &Global,
    tools: &Tools,
    loaded: &Loaded,
) -> Result<(BTreeSet<String>, Option<String>), Failure> {
    let config = &loaded.config;
    let known = |servers: &[ServerRecord]| {
        let record = |id: &str| servers.iter().find(|of| of.status.server == id && of.status.approved);
        let approved = |id: &str| Some(record(id)?.tools.iter().cloned().collect());
        KnownTools::new(config, tools.all(), approved).map_err(|error| Failure::failed(error.to_string(), ""))
    };
    let by_file = known(&[])?;
    if !by_file.is_open(&config.agents) {
        return Ok((by_file.unmatched(&config.agents), None));
    }
    let (servers, not_checked) = match approved_servers(global, loaded).await {
        Ok(servers) => (servers, None),
        Err(Failure::Said { message, .. }) => {
            let what = "entries of `classes` and `always_allow` that name server tools were not checked";
            (Vec::new(), Some(format!("note: {what}: {message}")))
        }
        Err(failure) => return Err(failure),
    };
    Ok((known(&servers)?.unmatched(&config.agents), not_checked))
}

/// The tool servers with their approved tools, from a running daemon or from the state.
async fn approved_servers(global: &Global, loaded: &Loaded) -> Result<Vec<ServerRecord>, Failure> {
    let connector = Connector::of(loaded.clone(), global)?;
    let state = &connector.state;
    if connector.running().await?.is_none() {
        if !cairn_store::is_there(&state.path) {
            return Ok(Vec::new());
        }
        // Opening the state would create files that its owner cannot read.
        if let Some(owner) = owner::other_owner(&state.path) {
            return Err(Failure::failed(
                format!("no daemon runs, and the state belongs to the user {owner}"),
                "",
            ));
        }
    }
    connector.get("/v1/mcp").await
}

fn load(file: &Option<PathBuf>) -> Result<Loaded, Failure> {
    Ok(Config::load(file.as_deref(), &ProcessEnvironment)?)
}
