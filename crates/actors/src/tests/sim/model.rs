//! A model that answers, calls tools, takes its time, breaks off, fails in every way that there is, or never comes back.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::message::ToolCall;
use cairn_types::model::{
    ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, ModelInfo, Purpose, Usage,
};
use cairn_types::ports::{ChatModel, ServerWindow, Unanswered};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};

use super::chance::{of, per_mille};
use super::scene::Scene;
use super::words;

pub(super) struct SimModel {
    info: ModelInfo,
    scene: Arc<Scene>,
}

/// What is said; `None`: nothing more comes, until its adapter gives up.
type Said = Option<Result<ModelEvent, ModelError>>;

/// As long as an adapter waits for more words.
const SILENCE: Duration = Duration::from_secs(900);

impl SimModel {
    pub(super) fn new(scene: Arc<Scene>, id: &str) -> Arc<Self> {
        let info = ModelInfo {
            id: id.to_owned(),
            context_window: None,
            max_output_tokens: None,
            images: false,
            tools: true,
        };
        Arc::new(Self { info, scene })
    }

    /// What it answers, and after which pause.
    fn answer(&self, request: &ChatRequest) -> (Duration, Vec<Said>) {
        let scene = &self.scene;
        let is_reply = matches!(request.purpose, Purpose::Reply { .. });
        if scene.is_out(|outages| outages.model) {
            return (Duration::from_millis(10), vec![Some(Err(fault(false)))]);
        }
        if scene.faulty(scene.mood.model_faults) {
            return self.trouble();
        }
        if !is_reply {
            let pause = if scene.mood.lazy_runs && !scene.is_calm() { 3_600 } else { 0 };
            return (Duration::from_secs(pause), summary(request));
        }
        if let Some(calls) = self.calls(request) {
            return (Duration::ZERO, calls);
        }
        let n = if per_mille(60) { 400 } else { fastrand::usize(3..60) };
        (Duration::ZERO, said(format!("re: {}", words(n)), Finish::Stop))
    }

    fn trouble(&self) -> (Duration, Vec<Said>) {
        let begun = Some(Ok(ModelEvent::Text("well, ".to_owned())));
        let pause = Duration::from_secs(fastrand::u64(0..200));
        let said = match fastrand::u8(..12) {
            0 => vec![begun, Some(Err(fault(true)))],
            1 => vec![begun, None],
            2 => vec![None],
            3 => said(String::new(), Finish::Stop),
            4 => said("half a".to_owned(), Finish::Length),
            // It ends before its end.
            5 => vec![begun],
            _ => vec![Some(Err(fault(true)))],
        };
        (pause, said)
    }

    /// Calls of tools, where there are some and no answer is due.
    fn calls(&self, request: &ChatRequest) -> Option<Vec<Said>> {
        if self.scene.is_calm() || request.last_call || request.tools.is_empty() || !per_mille(350) {
            return None;
        }
        let calls = (0..fastrand::usize(1..4)).map(|_| {
            let n = self.scene.checks.lock().next_call();
            let (name, arguments): (&str, Value) = match fastrand::u8(..8) {
                0 => ("history_search", json!({ "query": words(2) })),
                1 => ("memory_save", json!({ "kind": "fact", "text": format!("they said {n}") })),
                2 => ("no_such_tool", json!({})),
                3 | 4 => ("alter", json!({ "n": n })),
                _ => ("look", json!({ "n": n })),
            };
            Some(Ok(ModelEvent::ToolCall(ToolCall { id: format!("c{n}"), name: name.to_owned(), arguments })))
        });
        let mut said: Vec<Said> = calls.collect();
        if fastrand::bool() {
            said.insert(0, Some(Ok(ModelEvent::Text("I'll look".to_owned()))));
        }
        said.push(done(Finish::ToolCalls));
        Some(said)
    }
}

fn done(finish: Finish) -> Said {
    // No usage: the estimates stay as they are, and what fits can be told.
    let usage: Option<Usage> = None;
    Some(Ok(ModelEvent::Done { finish, usage, quotes: false }))
}

/// The words in pieces.
fn said(words: String, finish: Finish) -> Vec<Said> {
    let middle = words.len() / 2;
    let pieces = [words[..middle].to_owned(), words[middle..].to_owned()];
    let text = pieces.into_iter().filter(|piece| !piece.is_empty());
    text.map(|piece| Some(Ok(ModelEvent::Text(piece)))).chain([done(finish)]).collect()
}

/// A summary of what it was asked for, with a memory; now and then one that cannot be used.
fn summary(request: &ChatRequest) -> Vec<Said> {
    let (first, count) = match &request.purpose {
        Purpose::Reply { .. } => return Vec::new(),
        Purpose::Summarise { entries, .. } => (entries.first().map_or(0, |entry| entry.seq.0), entries.len()),
        Purpose::Merge { sources, .. } => (0, sources.len()),
    };
    let answered = request.messages.iter().any(|message| matches!(message, ChatMessage::Tool { .. }));
    if matches!(request.purpose, Purpose::Summarise { .. }) && !answered && per_mille(600) {
        let text = format!("they said {first} in {count} messages");
        let arguments = json!({ "kind": "fact", "text": text });
        let call = ToolCall { id: "c0".to_owned(), name: "memory_save".to_owned(), arguments };
        return vec![Some(Ok(ModelEvent::ToolCall(call))), done(Finish::ToolCalls)];
    }
    let text = match fastrand::u8(..20) {
        0 => String::new(),
        1 => words(1_200),
        _ => format!(
            "## Critical context\nThey spoke of {count} things from {first} on: a walk by the lake, the weather, bread."
        ),
    };
    said(text, Finish::Stop)
}

fn fault(any: bool) -> ModelError {
    let wait = *of(&[None, Some(Duration::from_secs(5)), Some(Duration::from_secs(400))]);
    let passing = [
        ModelError::Overloaded { message: "busy".to_owned(), retry_after: wait },
        ModelError::RateLimited { message: "slowly".to_owned(), retry_after: wait },
        ModelError::Timeout(Duration::from_secs(9)),
        ModelError::Transport("no route".to_owned()),
    ];
    let lasting = [
        ModelError::Auth("who are you?".to_owned()),
        ModelError::refused("no"),
        ModelError::Protocol("what?".to_owned()),
        ModelError::ContextOverflow { message: "too much".to_owned(), limit: None },
    ];
    let kinds = if any && per_mille(350) { &lasting } else { &passing };
    of(kinds).clone()
}

impl ChatModel for SimModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>> {
        Box::pin(async { Ok(ServerWindow::Unlisted) })
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.scene.checks.lock().asked(&self.scene, &request);
        let (pause, said) = self.answer(&request);
        // A refusal without a reason is taken for one of size where no request as large was taken.
        let of_size = |error: &ModelError| {
            matches!(error, ModelError::ContextOverflow { .. } | ModelError::BadRequest { .. })
        };
        if let Some(Some(Err(error))) = said.last()
            && of_size(error)
        {
            self.scene.checks.lock().overflowed(&request.channel);
        }
        let (scene, id) = (Arc::clone(&self.scene), self.info.id.clone());
        let what = if matches!(request.purpose, Purpose::Reply { .. }) { "a reply" } else { "a summary" };
        let (shown, channel) = (shown(&said), request.channel);
        let begun = stream::once(async move {
            scene.step(move || format!("{id} is asked for {what} in {channel}: {shown}")).await;
            tokio::time::sleep(pause).await;
            scene
        });
        begun
            .flat_map(move |scene| {
                let said = stream::iter(said.clone());
                said.then(move |said| {
                    let scene = Arc::clone(&scene);
                    async move {
                        scene.step(|| "a piece".to_owned()).await;
                        match said {
                            Some(said) => said,
                            None => {
                                tokio::time::sleep(SILENCE).await;
                                Err(ModelError::Timeout(SILENCE))
                            }
                        }
                    }
                })
            })
            .boxed()
    }
}

fn shown(said: &[Said]) -> &'static str {
    match said.last() {
        Some(Some(Ok(ModelEvent::Done { finish: Finish::ToolCalls, .. }))) => "calls",
        Some(Some(Ok(ModelEvent::Done { .. }))) => "words",
        Some(Some(Err(error))) => error.code(),
        Some(Some(Ok(_))) => "an early end",
        Some(None) | None => "it hangs",
    }
}
