//! `cairn replay`: a file of messages, sent one after another, and what became of them.

mod done;
mod input;
mod progress;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use cairn_core::ids::ChannelId;
use cairn_core::ports::Reply;
use cairn_core::tier::Tier;
use cairn_platforms::local::MessageRequest;
use clap::Args;
use serde_json::json;

use super::client::{CallError, Client};
use super::connect::{Surroundings, channel_path};
use super::failure::Failure;
use super::global::Global;
use super::{exit, out};
use crate::records::GaugeRecord;
use progress::Progress;
use report::Tally;

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a JSON object:
  {\"user\": \"ann\", \"text\": \"hello\", \"at\": \"2026-11-20T10:00:00Z\", \"id\": \"m1\"}
`at` and `id` may be left out. A second run skips what has been answered.

Examples:
  cairn replay talk.jsonl --channel talk
  gunzip -c talk.jsonl.gz | cairn replay - --json")]
pub(crate) struct ReplayArgs {
    /// The file; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent to talk to [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// The channel to talk in
    #[arg(long, value_name = "C", default_value = "main")]
    channel: String,
    /// Do not wait for compaction runs, neither between messages nor at the end
    #[arg(long)]
    no_wait: bool,
}

/// A replay under way.
struct Replay {
    client: Client,
    channel: ChannelId,
    wait: bool,
}

/// `cairn replay`.
pub(crate) async fn replay(global: Global, args: ReplayArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel, args.agent.as_deref())?;
    let limits = &surroundings.loaded.config.limits;
    let messages = input::read(&args.file, limits.max_message_bytes)?;
    let session = surroundings.changing().await?;
    let replay = Replay { client: session.client.clone(), channel, wait: !args.no_wait };
    let report = session.carry_out(Box::pin(replay.run(&messages))).await?;
    if global.json {
        out::json(&report)?;
    } else {
        out::raw(report.drawn().as_bytes())?;
    }
    if report.failed > 0 { Err(Failure::Silent(exit::FAILED)) } else { Ok(()) }
}

impl Replay {
    async fn run(&self, messages: &[MessageRequest]) -> Result<report::ReplayRecord, Failure> {
        let started = Instant::now();
        let answered = done::answered(&self.client, &self.channel).await?;
        let mut tally = Tally::new(messages.len() as u64, self.gauge(None).await?);
        let progress = Progress::new(messages.len() as u64);
        for message in messages {
            let id = message.id.as_deref().unwrap_or_default();
            if answered.contains(id) {
                tally.skipped += 1;
                progress.step(&tally);
                continue;
            }
            match self.send(message).await {
                Ok(_reply) => tally.turns += 1,
                Err(CallError::Api { status, body, .. }) if status != StatusCode::SERVICE_UNAVAILABLE => {
                    tally.failed += 1;
                    progress.note(&format!("error: message {id}: {}", body.error.message));
                    progress.note(&format!("hint: {}", body.error.hint));
                }
                Err(error) => return Err(error.into()),
            }
            let below = self.wait.then_some(Tier::Aggressive);
            tally.observe(self.gauge(below).await?);
            progress.step(&tally);
        }
        if self.wait {
            // Nothing is below calm: this returns when no run is under way or due.
            tally.observe(self.gauge(Some(Tier::Calm)).await?);
        }
        progress.finish();
        let memories = report::n_memories(&self.client, &self.channel).await?;
        Ok(tally.report(memories, started.elapsed().as_secs_f64()))
    }

    /// Sends a message and waits for its answer. Limits of the daemon are waited out.
    async fn send(&self, message: &MessageRequest) -> Result<Reply, CallError> {
        let path = channel_path(&self.channel, "messages");
        loop {
            match self.client.post(&path, message).await {
                Err(CallError::Api {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    retry_after_secs: Some(secs),
                    ..
                }) => tokio::time::sleep(Duration::from_secs(secs.clamp(1, 60))).await,
                result => return result,
            }
        }
    }

    /// How full the window is, once it is calm enough. `None` for a channel in which nothing was said yet.
    async fn gauge(&self, below: Option<Tier>) -> Result<Option<GaugeRecord>, Failure> {
        let body = json!({ "below": below });
        match self.client.post(&channel_path(&self.channel, "wait"), &body).await {
            Ok(gauge) => Ok(Some(gauge)),
            Err(CallError::Api { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
