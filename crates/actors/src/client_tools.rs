//! Tools that a client runs itself: offered in the turn that answers it, called through the client, answered by its next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_types::ids::MessageId;
use cairn_types::message::{Provenance, ToolCall};
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::{ToolOutcome, ToolOutput};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::tools::CallResult;

/// Longest that a call waits for its client.
const CLIENT_LIMIT: Duration = Duration::from_secs(300);

/// A call that waits for its result.
struct Waiting {
    /// Taken by the client's answer.
    result: Option<oneshot::Sender<String>>,
    /// Taken by the call, which may begin after the answer has come.
    awaited: Option<oneshot::Receiver<String>>,
}

/// The tools of the client that asked a message.
pub(crate) struct ClientTools {
    /// The message whose turn may call them.
    pub(crate) message: MessageId,
    defs: Vec<ToolDef>,
    /// Calls that the client was asked for, by their ids.
    waiting: Mutex<BTreeMap<String, Waiting>>,
}

impl ClientTools {
    pub(crate) fn new(message: MessageId, defs: Vec<ToolDef>) -> Self {
        Self { message, defs, waiting: Mutex::default() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ToolDef> {
        self.defs.iter().find(|def| def.name == name)
    }

    /// The settings with these tools behind the agent's own, which have precedence. A model without tools gets none.
    pub(crate) fn added_to(&self, settings: Arc<AgentSettings>) -> Arc<AgentSettings> {
        if settings.tools.is_empty() || self.defs.is_empty() {
            return settings;
        }
        let is_new = |def: &&ToolDef| settings.tools.iter().all(|own| own.name != def.name);
        let tools = settings.tools.iter().chain(self.defs.iter().filter(is_new)).cloned().collect();
        Arc::new(AgentSettings { tools, ..AgentSettings::clone(&settings) })
    }

    /// The client is asked for these calls.
    pub(crate) fn expect(&self, calls: &[ToolCall]) {
        let mut waiting = self.waiting.lock();
        for call in calls {
            let (result, awaited) = oneshot::channel();
            waiting.insert(call.id.clone(), Waiting { result: Some(result), awaited: Some(awaited) });
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.lock().values().any(|waiting| waiting.result.is_some())
    }

    /// Hands in what the client's tools returned, by the ids of the calls. All that wait end: those without a result fail. False:
    /// none of them waits.
    pub(crate) fn answer(&self, results: &[(String, String)]) -> bool {
        let mut waiting = self.waiting.lock();
        let waits = |id: &String| waiting.get(id).is_some_and(|call| call.result.is_some());
        if !results.iter().any(|(id, _)| waits(id)) {
            return false;
        }
        for (id, result) in results {
            if let Some(sender) = waiting.get_mut(id).and_then(|call| call.result.take()) {
                // The call may have given up.
                let _ = sender.send(result.clone());
            }
        }
        waiting.values_mut().for_each(|call| call.result = None);
        true
    }

    /// Waits for the result of a call that the client was asked for.
    pub(crate) async fn call(&self, call: &ToolCall) -> CallResult {
        let awaited = self.waiting.lock().get_mut(&call.id).and_then(|waiting| waiting.awaited.take());
        let result = match awaited {
            Some(awaited) => tokio::time::timeout(CLIENT_LIMIT, awaited).await,
            None => return failed(ToolOutcome::Failed, "the client was not asked for it".to_owned()),
        };
        self.waiting.lock().remove(&call.id);
        match result {
            Ok(Ok(text)) => CallResult {
                output: ToolOutput::text(text),
                outcome: ToolOutcome::Done,
                error: None,
                provenance: Provenance::of_tools(),
                events: Vec::new(),
            },
            Ok(Err(_dropped)) => failed(ToolOutcome::Failed, "the client gave no result of it".to_owned()),
            Err(_elapsed) => {
                let secs = CLIENT_LIMIT.as_secs();
                failed(ToolOutcome::TimedOut, format!("the client gave no result of it within {secs} s"))
            }
        }
    }
}

fn failed(outcome: ToolOutcome, error: String) -> CallResult {
    CallResult::failed(outcome, error, Provenance::of_tools())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "lamp".to_owned(), arguments: json!({}) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_gets_its_result_from_the_next_request_of_its_client() {
        let tools = ClientTools::new("m1".into(), Vec::new());
        let calls = ["c1", "c2", "c3"].map(call);
        assert_eq!(tools.call(&calls[0]).await.outcome, ToolOutcome::Failed, "nobody was asked");
        tools.expect(&calls);
        let result = |id: &str| (id.to_owned(), format!("result of {id}"));
        assert!(!tools.answer(&[result("c9")]), "that is of another turn");
        let all = async { tokio::join!(tools.call(&calls[0]), tools.call(&calls[1]), tools.call(&calls[2])) };
        let given = async {
            tokio::task::yield_now().await;
            tools.answer(&[result("c2"), result("c1")])
        };
        let ((first, second, third), given) = tokio::join!(all, given);
        assert!(given && !tools.is_awaited());
        assert_eq!(
            (first.output.words(), second.output.words()),
            ("result of c1".into(), "result of c2".into())
        );
        assert!(third.error.unwrap().contains("no result"));
        // All are answered at once, before the last of them has begun.
        tools.expect(&calls);
        assert!(tools.answer(&[result("c1"), result("c3")]) && !tools.is_awaited());
        assert_eq!(tools.call(&calls[2]).await.output.words(), "result of c3");
        assert!(tools.call(&calls[1]).await.error.unwrap().contains("no result"));
        tools.expect(&calls[..1]);
        assert_eq!(tools.call(&calls[0]).await.outcome, ToolOutcome::TimedOut);
        assert!(!tools.is_awaited());
    }
}
