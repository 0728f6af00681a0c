//! Opens a state in this process, for one command.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use cairn_cli::failure::Failure;
use cairn_cli::inside::{Inside, Opened};
use cairn_config::{Live, Loaded, StateDir, check_socket};
use cairn_server::http::socket::SocketMode;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::wiring::{self, Daemon, Reader, StartError, Tools};

/// Opens states, with the tools linked into this binary.
#[derive(Debug)]
pub(crate) struct OpenedHere(pub(crate) Tools);

impl Inside for OpenedHere {
    fn is_there(&self, dir: &Path) -> bool {
        cairn_store::is_there(dir)
    }

    fn reading<'a>(
        &'a self,
        loaded: &'a Arc<Loaded>,
        state: &'a StateDir,
    ) -> BoxFuture<'a, Result<Opened, Failure>> {
        async move {
            let reader = Reader::open(loaded, state, &self.0).await?;
            Ok(Opened { router: reader.router(), close: Box::new(|| reader.close().boxed()) })
        }
        .boxed()
    }

    fn changing<'a>(
        &'a self,
        loaded: &'a Arc<Loaded>,
        state: &'a StateDir,
    ) -> BoxFuture<'a, Result<Opened, Failure>> {
        async move {
            let socket = state.path.join("cairn.sock");
            check_socket(&socket)?;
            let live = Live::new(Arc::clone(loaded));
            let daemon = Daemon::start(&live, state, (socket, SocketMode::Owner), &self.0, None).await?;
            let router = daemon.router();
            let close = async move {
                let grace = daemon.grace();
                let _ended = daemon.stop(grace).await;
            };
            Ok(Opened { router, close: Box::new(|| close.boxed()) })
        }
        .boxed()
    }

    fn nothing(&self, loaded: &Arc<Loaded>, state: &StateDir) -> Result<Router, Failure> {
        Ok(wiring::nothing(loaded, state, &self.0)?)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        match error {
            StartError::Config(error) => error.into(),
            StartError::Store(error) => Self::of_store(error),
            StartError::Model(_) => Self::usage(message, "correct the model in the config file"),
            StartError::Network(_) => {
                Self::usage(message, "correct [discord], [telegram] or [[bridges]] in the config file")
            }
            StartError::Webhook(_) => {
                Self::failed(message, "set `webhook_listen` to a free port at an address of this machine")
            }
            StartError::Bridge(_) => Self::failed(
                message,
                "set `listen` of [[bridges]] to a free port at an address of this machine",
            ),
            StartError::OpenAi(_) => Self::failed(
                message,
                "set `listen` of [openai_api] to a free port at an address of this machine",
            ),
            StartError::Tool(_) => Self::usage(message, ""),
            StartError::Socket(_) | StartError::Runtime(_) => {
                Self::failed(message, "remove what is in the way, or give another --state")
            }
        }
    }
}
