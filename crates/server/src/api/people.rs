//! Pairings: list, approve, revoke. Bans. Who is private.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_types::command::ban_length;
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, OutboxId};
use cairn_types::people::pairing::Pairing;
use cairn_types::ports::{SendError, SendPart};
use cairn_types::texts::{Key, Languages};

use crate::api::shared::{Admin, Body, Segment, Shared};
use cairn_api::records::{BanRecord, BanRequest, PairingRecord, PrivateRecord, PrivateRequest};
use cairn_config::is_person;

const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// `GET /v1/pairings`: requests first.
pub async fn list(State(admin): State<Shared>) -> Json<Vec<PairingRecord>> {
    Json(admin.people.pairings().into_iter().map(PairingRecord::of).collect())
}

/// `POST /v1/pairings/{code}/approve`: approves the person, and notifies them if possible.
pub async fn approve(
    State(admin): State<Shared>,
    Segment(code): Segment,
) -> Result<Json<PairingRecord>, ApiError> {
    admin.runtime()?;
    let pairing = admin.people.approve(&code).await?.ok_or_else(|| {
        ApiError::not_found(
            "no_such_code",
            format!("no request has the code {code}"),
            "`cairn pair list` shows requests and revoked people; a code expires after a day",
        )
    })?;
    let told = welcome(&admin, &pairing).await;
    Ok(Json(PairingRecord { told: Some(told), ..PairingRecord::of(pairing) }))
}

/// `DELETE /v1/pairings/{user}`: revokes an approval, or refuses a request.
pub async fn revoke(
    State(admin): State<Shared>,
    Segment(user): Segment,
) -> Result<Json<PairingRecord>, ApiError> {
    admin.runtime()?;
    let pairing = admin.people.revoke(&user).await?.ok_or_else(|| {
        ApiError::not_found(
            "no_such_user",
            format!("{user} is neither paired nor waiting"),
            "`cairn pair list` lists them, each as PLATFORM/USER",
        )
    })?;
    Ok(Json(PairingRecord::of(pairing)))
}

/// `GET /v1/bans`: the current bans.
pub async fn bans(State(admin): State<Shared>) -> Json<Vec<BanRecord>> {
    let bans = admin.people.bans();
    Json(bans.into_iter().map(|(user, ban)| BanRecord::of(user, ban)).collect())
}

/// `POST /v1/bans`.
pub async fn ban(
    State(admin): State<Shared>,
    Body(BanRequest { user, reason, lasts }): Body<BanRequest>,
) -> Result<Json<BanRecord>, ApiError> {
    admin.runtime()?;
    if !is_person(&user) {
        return Err(no_person(&user));
    }
    let lasts = lasts.as_deref().map(ban_length).transpose().map_err(ApiError::malformed)?;
    let ban = admin.people.ban(user.clone(), lasts, reason, "local/operator".to_owned()).await?;
    Ok(Json(BanRecord::of(user, ban)))
}

/// `DELETE /v1/bans/{user}`.
pub async fn unban(State(admin): State<Shared>, Segment(user): Segment) -> Result<Json<BanRecord>, ApiError> {
    admin.runtime()?;
    let ban = admin.people.unban(&user).await?.ok_or_else(|| {
        ApiError::not_found("no_such_ban", format!("{user} is not banned"), "`cairn ban` lists who is")
    })?;
    Ok(Json(BanRecord::of(user, ban)))
}

/// `GET /v1/private`: the people and the chats from which nothing is learnt.
pub async fn private(State(admin): State<Shared>) -> Json<Vec<PrivateRecord>> {
    Json(admin.people.private())
}

/// `POST /v1/private`: sets it for a person or a chat, and lists who is private then.
pub async fn set_private(
    State(admin): State<Shared>,
    Body(request): Body<PrivateRequest>,
) -> Result<Json<Vec<PrivateRecord>>, ApiError> {
    admin.runtime()?;
    let (user, chat) = match (request.user, request.chat) {
        (Some(user), None) if is_person(&user) || is_local(&user) => (user, None),
        (Some(user), None) => return Err(no_person(&user)),
        (None, Some(chat)) => match chat
            .split_once('/')
            .filter(|(platform, chat)| !(platform.is_empty() || chat.is_empty()))
        {
            // The event says whose platform the chat is on by who set it.
            Some((platform, chat)) => (format!("{platform}/operator"), Some(chat.to_owned())),
            None => return Err(ApiError::malformed("`chat` is PLATFORM/CHAT, such as telegram/-1001234")),
        },
        _ => return Err(ApiError::malformed("name either `user` or `chat`")),
    };
    admin.people.set_private(user, chat, request.on).await?;
    Ok(Json(admin.people.private()))
}

/// Whether it names somebody of local channels, such as `local/ada`.
fn is_local(user: &str) -> bool {
    user.strip_prefix(LOCAL_PLATFORM)
        .and_then(|name| name.strip_prefix('/'))
        .is_some_and(|name| !name.is_empty())
}

fn no_person(user: &str) -> ApiError {
    let user = user.escape_debug();
    ApiError::malformed(format!(
        "`{user}` is not a person; write PLATFORM/USER with the person's id there, such as telegram/123456789"
    ))
}

/// Tells a person that they were approved. Returns whether that worked.
async fn welcome(admin: &Admin, pairing: &Pairing) -> bool {
    let platform = pairing.user.id.split('/').next().unwrap_or_default();
    let Some(adapter) = admin.adapters.iter().find(|adapter| adapter.name() == platform) else {
        return false;
    };
    let agent = agent_of(admin, platform);
    let Ok(channel) = ChannelId::new(&agent, platform, &pairing.chat, None) else {
        return false;
    };
    let loaded = admin.agent_registry.loaded();
    let texts =
        loaded.config.agent(agent.as_str()).map_or_else(Languages::default, |agent| agent.languages.clone());
    let welcome = if pairing.is_group() { Key::WelcomeGroup } else { Key::Welcome };
    let part = SendPart {
        // Networks ignore a delivery with a known id, so each approval has its own.
        delivery: OutboxId::from(format!(
            "pairing-{}-{}",
            pairing.code,
            pairing.approved_at.map_or(0, |at| at.as_millisecond())
        )),
        part: 0,
        channel,
        reply_to: None,
        words: texts.own.say(welcome),
        approval: None,
        files: Vec::new(),
    };
    // The pairing code may have been sent just now, and networks limit the rate of messages.
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
    tracing::warn!(platform, user = %pairing.user.id, error, "could not tell a person that they are approved");
    false
}

/// The agent for private chats on a platform.
fn agent_of(admin: &Admin, platform: &str) -> AgentId {
    let loaded = admin.agent_registry.loaded();
    let config = &loaded.config;
    let named = config.bot(platform).and_then(|bot| bot.network.agent.as_deref().map(AgentId::from));
    named.unwrap_or_else(|| config.default_agent())
}
