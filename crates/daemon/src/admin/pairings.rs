//! Pairings: who waits for an operator's word, who has it; approved and revoked.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use cairn_core::ids::{AgentId, ChannelId, OutboxId};
use cairn_core::message::Author;
use cairn_core::pairing_store::Pairing;
use cairn_core::ports::{SendError, SendPart};
use cairn_platforms::local::ApiError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::params::{Segment, segment};
use super::{Admin, Shared};
use crate::config::NetworkKind;

/// What somebody is told who was let in.
const WELCOME: &str = "You are let in: you can talk to me now.";

const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// Somebody who is paired, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingRecord {
    /// `PLATFORM/USER`.
    pub user: String,
    pub name: String,
    /// `waiting`, `paired`.
    pub state: String,
    pub code: String,
    /// The chat in which they were told the code.
    pub chat: String,
    pub asked_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// They were told in the chat that they are let in; only in the answer of the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<bool>,
}

impl PairingRecord {
    fn of(pairing: Pairing) -> Self {
        let Pairing { user: Author { id, name }, chat, code, asked_at, approved_at, told_at: _ } = pairing;
        let state = if approved_at.is_some() { "paired" } else { "waiting" };
        Self { user: id, name, state: state.to_owned(), code, chat, asked_at, approved_at, told: None }
    }
}

/// `GET /v1/pairings`: those who wait first.
pub(super) async fn list(State(admin): State<Shared>) -> Json<Vec<PairingRecord>> {
    Json(admin.pairing_store.pairings().into_iter().map(PairingRecord::of).collect())
}

/// `POST /v1/pairings/{code}/approve`: lets the person in, and tells them so where it can.
pub(super) async fn approve(
    State(admin): State<Shared>,
    code: Segment,
) -> Result<Json<PairingRecord>, ApiError> {
    let code = segment(code)?;
    // Only a running house may write: a store opened for reading is left as it is.
    admin.runtime()?;
    let pairing = admin.pairing_store.approve(&code).await?.ok_or_else(|| {
        ApiError::not_found(
            "no_such_code",
            format!("nobody waits with the code {code}"),
            "`cairn pair list` shows who waits; a code is void after a day",
        )
    })?;
    let told = welcome(&admin, &pairing).await;
    Ok(Json(PairingRecord { told: Some(told), ..PairingRecord::of(pairing) }))
}

/// `DELETE /v1/pairings/{user}`: takes the permission back, or refuses it.
pub(super) async fn revoke(
    State(admin): State<Shared>,
    user: Segment,
) -> Result<Json<PairingRecord>, ApiError> {
    let user = segment(user)?;
    admin.runtime()?;
    let pairing = admin.pairing_store.revoke(&user).await?.ok_or_else(|| {
        ApiError::not_found(
            "no_such_user",
            format!("{user} is neither paired nor waiting"),
            "`cairn pair list` shows who is, each as PLATFORM/USER",
        )
    })?;
    Ok(Json(PairingRecord::of(pairing)))
}

/// Tells a person that they are let in, as far as their network can be reached.
async fn welcome(admin: &Admin, pairing: &Pairing) -> bool {
    let platform = pairing.user.id.split('/').next().unwrap_or_default();
    let Some(adapter) = admin.adapters.iter().find(|adapter| adapter.name() == platform) else {
        return false;
    };
    let Ok(channel) = ChannelId::new(&agent_of(admin, platform), platform, &pairing.chat, None) else {
        return false;
    };
    let part = SendPart {
        delivery: OutboxId::from(format!("pairing-{}", pairing.code)),
        part: 0,
        channel,
        reply_to: None,
        words: WELCOME.to_owned(),
        approval: None,
    };
    // The code may have been told just now, and networks take only so many messages.
    let patiently = async {
        loop {
            match adapter.send(part.clone()).await {
                Err(SendError::Later { after: Some(after), .. }) => tokio::time::sleep(after).await,
                outcome => break outcome,
            }
        }
    };
    let error = match tokio::time::timeout(WELCOME_TIMEOUT, patiently).await {
        Ok(Ok(_message)) => return true,
        Ok(Err(error)) => error.code(),
        Err(_elapsed) => "timeout",
    };
    tracing::warn!(platform, user = %pairing.user.id, error, "could not tell a person that they are let in");
    false
}

/// The agent that talks privately on a platform.
fn agent_of(admin: &Admin, platform: &str) -> AgentId {
    let kind = NetworkKind::ALL.into_iter().find(|kind| kind.name() == platform);
    let loaded = admin.agent_registry.loaded();
    let config = &loaded.config;
    let named = kind.and_then(|kind| config.network(kind)?.agent.as_deref().map(AgentId::from));
    named.unwrap_or_else(|| config.default_agent())
}
