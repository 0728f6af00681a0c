//! One client's conversation with a server: what it has said, and what is under way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::step::{Out, Step, run};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    New,
    /// It has sent `initialize`.
    Greeted,
    /// It has sent `notifications/initialized`.
    Ready,
}

#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    version: String,
    ids: HashSet<String>,
    running: HashMap<String, AbortHandle>,
    asked: HashMap<u64, oneshot::Sender<()>>,
    n_asked: u64,
    stream: Option<mpsc::Sender<Out>>,
}

impl Session {
    pub(super) fn stage(&self) -> Stage {
        self.state.lock().stage
    }

    /// The version of the protocol that was agreed upon; empty before that.
    pub(super) fn version(&self) -> String {
        self.state.lock().version.clone()
    }

    /// `initialize` has come.
    pub(super) fn greet(&self, version: &str) {
        let mut state = self.state.lock();
        state.stage = Stage::Greeted;
        version.clone_into(&mut state.version);
    }

    /// `notifications/initialized` has come.
    pub(super) fn begin(&self) {
        self.state.lock().stage = Stage::Ready;
    }

    /// Takes a request's id; false when it had been used.
    pub(super) fn take_id(&self, id: &Value) -> bool {
        self.state.lock().ids.insert(id.to_string())
    }

    /// Starts an answer; it goes on when whoever reads it goes.
    pub(super) fn start(self: &Arc<Self>, id: &Value, steps: Vec<Step>, out: mpsc::Sender<Out>) {
        let key = id.to_string();
        let mut state = self.state.lock();
        let session = self.clone();
        let work = tokio::spawn({
            let key = key.clone();
            async move {
                run(steps, session.clone(), out).await;
                session.state.lock().running.remove(&key);
            }
        });
        state.running.insert(key, work.abort_handle());
    }

    /// Stops an answer; false when there is none under way.
    pub(super) fn cancel(&self, id: &Value) -> bool {
        let running = self.state.lock().running.remove(&id.to_string());
        running.map(|work| work.abort()).is_some()
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.stream = None;
        state.asked.clear();
        for (_, work) in state.running.drain() {
            work.abort();
        }
    }

    /// An id for a question to the client, and what rings when it is answered.
    pub(super) fn ask(&self) -> (u64, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        let mut state = self.state.lock();
        state.n_asked += 1;
        let id = state.n_asked;
        state.asked.insert(id, tell);
        (id, told)
    }

    /// The client has answered; false when that was not asked.
    pub(super) fn told(&self, id: &Value) -> bool {
        let asked = id.as_u64().and_then(|id| self.state.lock().asked.remove(&id));
        // Whoever asked may have been cancelled meanwhile.
        asked.map(|tell| tell.send(())).is_some()
    }

    /// Takes the `GET` stream; false when there is one.
    pub(super) fn open_stream(&self, out: mpsc::Sender<Out>) -> bool {
        let mut state = self.state.lock();
        let open = state.stream.as_ref().is_none_or(mpsc::Sender::is_closed);
        if open {
            state.stream = Some(out);
        }
        open
    }

    /// The `GET` stream.
    pub(super) fn stream(&self) -> Option<mpsc::Sender<Out>> {
        self.state.lock().stream.clone().filter(|stream| !stream.is_closed())
    }
}
