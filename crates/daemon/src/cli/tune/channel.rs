//! A channel's history as a script, read from the daemon or the store.

use cairn_core::agent::WindowSize;
use cairn_core::ids::TurnId;
use cairn_core::message::Role;
use cairn_core::tune::{Script, ScriptTurn, Step};

use super::Source;
use crate::cli::client::with_params;
use crate::cli::connect::{Session, Surroundings, channel_path};
use crate::cli::exit;
use crate::cli::failure::Failure;
use crate::records::{ContextRecord, EntryRecord};

const PAGE: u64 = 2_000;

pub(super) async fn read(
    surroundings: &Surroundings,
    name: &str,
    agent: Option<&str>,
) -> Result<Source, Failure> {
    let channel = surroundings.channel(name, agent)?;
    let session = surroundings.reading().await?;
    let context = session.client.get::<ContextRecord>(&channel_path(&channel, "context")).await;
    let context = context.map_err(Failure::from);
    let read = match context {
        Ok(context) => entries(&session, &channel).await.map(|entries| (context, entries)),
        Err(failure) => Err(failure),
    };
    let (context, entries) = session.finish(read).await.map_err(|failure| or_a_file(failure, name))?;
    let window = WindowSize {
        window_tokens: context.window_tokens,
        output_reserve_tokens: context.output_reserve_tokens,
        source: context.window_source,
    };
    let agent = channel.agent();
    let (script, model, window) = (script(&entries), Some(context.model), Some(window));
    Ok(Source { script, agent, model, window, runs: context.outcomes })
}

/// Who meant a file should hear of it.
fn or_a_file(failure: Failure, name: &str) -> Failure {
    match failure {
        Failure::Said { code: exit::NOT_FOUND, message, hint } => Failure::Said {
            code: exit::NOT_FOUND,
            message,
            hint: format!("there is no file `{name}` either; {hint}"),
        },
        other => other,
    }
}

async fn entries(
    session: &Session,
    channel: &cairn_core::ids::ChannelId,
) -> Result<Vec<EntryRecord>, Failure> {
    let mut entries = Vec::new();
    let mut from = 1_u64;
    loop {
        let params = [("from", Some(from.to_string())), ("limit", Some(PAGE.to_string()))];
        let path = with_params(&channel_path(channel, "history"), &params);
        let page: Result<Vec<EntryRecord>, _> = session.client.get(&path).await;
        let page = match page.map_err(Failure::from) {
            // Past the last entry.
            Err(Failure::Said { code: exit::NOT_FOUND, .. }) if from > 1 => break,
            page => page?,
        };
        let Some(last) = page.iter().filter_map(|entry| entry.seq).max() else { break };
        let n = page.len() as u64;
        entries.extend(page.into_iter().filter(|entry| entry.seq.is_some()));
        from = last.0 + 1;
        if n < PAGE {
            break;
        }
    }
    Ok(entries)
}

fn script(entries: &[EntryRecord]) -> Script {
    let mut turns: Vec<(TurnId, ScriptTurn)> = Vec::new();
    for entry in entries {
        let tokens = u32::try_from(entry.tokens).unwrap_or(u32::MAX);
        let is_new = turns.last().is_none_or(|(id, _)| *id != entry.turn);
        if is_new {
            let turn = ScriptTurn { at: entry.at, generation: entry.generation.0, steps: Vec::new() };
            turns.push((entry.turn.clone(), turn));
        }
        let Some((_, turn)) = turns.last_mut() else { continue };
        match entry.role {
            Role::User => turn.steps.push(Step::Message { tokens }),
            Role::Assistant if !entry.tool_calls.is_empty() => {
                turn.steps.push(Step::Call { tokens, results: Vec::new() });
            }
            Role::Assistant => turn.steps.push(Step::Answer { tokens }),
            Role::Tool => {
                if let Some(Step::Call { results, .. }) = turn.steps.last_mut() {
                    results.push(tokens);
                }
            }
        }
    }
    Script::new(turns.into_iter().map(|(_, turn)| turn).collect())
}
