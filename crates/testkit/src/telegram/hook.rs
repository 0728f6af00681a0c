//! The webhook: set, deleted and told of by the bot; updates go out by it, those of a chat one after the other, each until
//! it is answered with 2xx.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::methods::Ctx;
use super::wire::{Params, Refusal};
use super::world::{State, Waiting};
use super::{FakeTelegram, Shared, now};

/// The ports that the real server takes.
const PORTS: [u16; 4] = [443, 80, 88, 8443];

/// An update that was refused comes again after this; the real server takes seconds.
const REPEAT_AFTER: Duration = Duration::from_millis(20);

/// A webhook that a bot set.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    pub(super) url: String,
    secret: Option<String>,
    max_connections: usize,
    /// When a delivery failed last, and how.
    error: Option<(i64, String)>,
}

impl Hook {
    /// One that another service set.
    pub(super) fn of_another() -> Self {
        let url = "https://example.org/hook".to_owned();
        Self { url, secret: None, max_connections: 40, error: None }
    }
}

impl FakeTelegram {
    /// A host that people know leads to this address, as by a balancer that takes TLS off.
    pub fn lead(&self, host: &str, address: SocketAddr) {
        self.shared.update(|state| state.hosts.insert(host.to_owned(), address));
    }

    /// The address of the webhook that stands.
    pub fn webhook(&self) -> Option<String> {
        self.shared.state.lock().webhook.as_ref().map(|hook| hook.url.clone())
    }

    /// The secret that the bot gave with the webhook.
    pub fn webhook_secret(&self) -> Option<String> {
        self.shared.state.lock().webhook.as_ref()?.secret.clone()
    }

    /// A webhook of another service is set: polls end with 409 until the bot deletes it.
    pub fn set_webhook(&self) {
        self.shared.update(|state| state.webhook = Some(Hook::of_another()));
    }
}

pub(super) fn set(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let text = params.text("url").unwrap_or_default();
    if text.is_empty() {
        return Ok(delete(ctx, params));
    }
    let bad = |why: &str| Err(Refusal::bad(format!("bad webhook: {why}")));
    let Ok(url) = Url::parse(&text) else { return bad("invalid URL") };
    if url.scheme() != "https" {
        return bad("An HTTPS URL must be provided for webhook");
    }
    if !PORTS.contains(&url.port_or_known_default().unwrap_or_default()) {
        return bad("Webhook can be set up only on ports 80, 88, 443 or 8443");
    }
    if !ctx.state.hosts.contains_key(url.host_str().unwrap_or_default()) {
        return bad("Failed to resolve host: Name or service not known");
    }
    let secret = params.text("secret_token");
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if secret.as_ref().is_some_and(|secret| secret.len() > 256 || !secret.chars().all(fits)) {
        return Err(Refusal::bad("secret token contains unallowed characters"));
    }
    if let Some(Value::Array(kinds)) = params.json("allowed_updates") {
        ctx.state.allowed = Some(kinds.iter().filter_map(|kind| Some(kind.as_str()?.to_owned())).collect());
    }
    let max_connections =
        params.integer("max_connections").map_or(40, |n| n.clamp(1, 100)).unsigned_abs() as usize;
    ctx.state.webhook = Some(Hook { url: text, secret, max_connections, error: None });
    Ok(true.into())
}

pub(super) fn delete(ctx: &mut Ctx<'_>, params: &Params) -> Value {
    ctx.state.webhook = None;
    if params.text("drop_pending_updates").as_deref() == Some("true") {
        ctx.state.queue.clear();
    }
    true.into()
}

pub(super) fn info(ctx: &Ctx<'_>) -> Value {
    let hook = ctx.state.webhook.as_ref();
    let url = hook.map(|hook| hook.url.as_str()).unwrap_or_default();
    let pending = ctx.state.queue.len();
    let mut info = json!({ "url": url, "has_custom_certificate": false, "pending_update_count": pending });
    if let Some(hook) = hook {
        info["max_connections"] = hook.max_connections.into();
    }
    if let Some((at, said)) = hook.and_then(|hook| hook.error.clone()) {
        info["last_error_date"] = at.into();
        info["last_error_message"] = said.into();
    }
    info
}

/// The chat that an update is of, by which it waits for others.
fn queue_of(update: &Value) -> i64 {
    let said = update.as_object().into_iter().flatten().find(|(key, _)| *key != "update_id");
    let chat = said.and_then(|(_, said)| said.pointer("/chat/id").or_else(|| said.pointer("/from/id")));
    chat.and_then(Value::as_i64).unwrap_or_default()
}

/// What may be sent now, and where: of each queue the first, where none of it is under way or rests.
fn ready(state: &State, busy: &BTreeSet<i64>) -> Vec<(i64, Waiting, Hook, SocketAddr)> {
    let Some(hook) = state.webhook.as_ref().filter(|_| state.holds == 0) else { return Vec::new() };
    let host = Url::parse(&hook.url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let Some(address) = host.and_then(|host| state.hosts.get(&host)) else { return Vec::new() };
    let mut seen = busy.clone();
    let heads = state.queue.iter().filter(|waiting| seen.insert(queue_of(&waiting.json)));
    let heads: Vec<_> =
        heads.map(|waiting| (queue_of(&waiting.json), waiting.clone(), hook.clone(), *address)).collect();
    heads.into_iter().take(hook.max_connections.saturating_sub(busy.len())).collect()
}

/// Sends what waits while a webhook stands; all that is under way ends with it.
pub(super) async fn deliver(shared: Arc<Shared>) -> Infallible {
    let http = Client::builder().no_proxy().build().unwrap_or_default();
    let mut changed = shared.state.changes();
    let (mut tasks, mut busy) = (JoinSet::new(), BTreeSet::new());
    let mut resting = BTreeMap::<i64, Instant>::new();
    loop {
        let now_on = Instant::now();
        resting.retain(|_, until| *until > now_on);
        let held: BTreeSet<i64> = busy.iter().chain(resting.keys()).copied().collect();
        for (queue, waiting, hook, address) in ready(&shared.state.lock(), &held) {
            busy.insert(queue);
            let http = http.clone();
            tasks.spawn(async move { (queue, waiting.id, send(&http, &waiting.json, &hook, address).await) });
        }
        let next = resting.values().min().copied();
        tokio::select! {
            // The sender lives as long as the state.
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(next.unwrap_or(now_on)), if next.is_some() => {}
            Some(Ok((queue, id, outcome))) = tasks.join_next(), if !tasks.is_empty() => {
                busy.remove(&queue);
                if outcome.is_err() {
                    resting.insert(queue, Instant::now() + REPEAT_AFTER);
                }
                shared.update(|state| answered(state, id, outcome));
            }
        }
    }
}

fn answered(state: &mut State, id: i64, outcome: Result<(), String>) {
    state.deliveries += 1;
    match (outcome, &mut state.webhook) {
        (Ok(()), _) => state.queue.retain(|waiting| waiting.id != id),
        (Err(said), Some(hook)) => hook.error = Some((now(), said)),
        (Err(_), None) => {}
    }
}

async fn send(http: &Client, update: &Value, hook: &Hook, address: SocketAddr) -> Result<(), String> {
    let rest = Url::parse(&hook.url).map_err(|error| error.to_string())?;
    let query = rest.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = http.post(format!("http://{address}{}{query}", rest.path())).json(update);
    if let Some(secret) = &hook.secret {
        request = request.header("X-Telegram-Bot-Api-Secret-Token", secret);
    }
    let answer = request.send().await.map_err(|_| "Connection refused".to_owned())?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("Wrong response from the webhook: {status}")),
    }
}
