//! The webhook: Telegram sends each update in a request, in order per chat, and repeats it until it is answered with
//! 200.
//!
//! A request is answered when its update is durable; until then Telegram repeats it. teloxide's webhooks are not used:
//! they answer 200 before anything is stored, and pass updates on through an unbounded queue.
//!
//! Updates that wait at the start are polled first (`poll`), so that a chat's missed messages come together. The secret
//! in each request is derived from the token, so every node with the token knows it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use cairn_types::ports::{AdapterFailure, LinkState};
use cairn_types::text::checksum::checksum;
use parking_lot::Mutex;
use reqwest::Url;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq as _;
use teloxide::payloads::{DeleteWebhook, GetWebhookInfo, SetWebhook};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::api::CallError;
use super::offset_tracker::WINDOW;
use super::poll::{ALLOWED_UPDATES, CALL_TIMEOUT, Poller, Troubles, ask};
use super::{BadSettings, Telegram, TelegramSettings, wire};

/// The header with the secret.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// Largest update that is read, in bytes; usual ones have some kilobytes.
const UPDATE_MAX_BYTES: usize = 1 << 20;

/// Longest time until an update is durable. Telegram waits longer; after this it is told to repeat the update.
const DONE_WITHIN: Duration = Duration::from_secs(15);

/// The `Retry-After` for an update that was not taken in, in seconds. Without it Telegram waits ever longer.
const REPEAT_AFTER_SECS: u16 = 3;

/// A delivery error that is older, in seconds, is not reported.
const FRESH_SECS: i64 = 120;

/// The query that is added to the webhook's address, to distinguish cairn's webhooks from those of other services.
const MARK: &str = "cairn";

/// An update, and the sender that confirms it.
struct Delivery {
    update: Box<RawValue>,
    taken: oneshot::Sender<()>,
}

/// The webhook of a bot.
pub(super) struct Webhook {
    /// The address that Telegram is told.
    url: Url,
    secret: String,
    look_every: Duration,
    /// The way to the poller while the bot runs.
    inlet: Mutex<Option<mpsc::Sender<Delivery>>>,
}

/// Why an update was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotTaken {
    /// The secret is missing or wrong.
    Stranger,
    TooLarge,
    Unreadable,
    /// The bot does not run, or dropped the update.
    NotReady,
    /// It was not durable in time.
    Late,
}

impl NotTaken {
    fn status(self) -> StatusCode {
        match self {
            Self::Stranger => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::NotReady | Self::Late => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
            Self::NotReady => "not_ready",
            Self::Late => "late",
        }
    }
}

impl Webhook {
    /// The webhook in the settings, if any.
    pub(super) fn of(settings: &TelegramSettings) -> Result<Option<Self>, BadSettings> {
        let Some(text) = &settings.webhook_url else { return Ok(None) };
        let mut url = Url::parse(text).map_err(|error| BadSettings::Webhook(error.to_string()))?;
        if url.scheme() != "https" || url.query().is_some() || url.fragment().is_some() {
            return Err(BadSettings::Webhook(text.clone()));
        }
        url.set_query(Some(MARK));
        let token = settings.token.expose_secret();
        let secret = checksum(format!("cairn: the secret of a webhook\n{token}").as_bytes());
        Ok(Some(Self { url, secret, look_every: settings.look_every, inlet: Mutex::default() }))
    }

    /// Whether `getWebhookInfo` describes this webhook; the address may be spelled differently.
    pub(super) fn is_that_of(&self, info: &Value) -> bool {
        let place = |url: &Url| {
            let (host, port) = (url.host_str().map(str::to_owned), url.port_or_known_default());
            (host, port, url.path().to_owned(), url.query() == Some(MARK))
        };
        let told = info["url"].as_str().and_then(|url| Url::parse(url).ok());
        told.is_some_and(|told| place(&told) == place(&self.url))
    }

    fn is_from_telegram(&self, headers: &HeaderMap) -> bool {
        headers.get(SECRET_HEADER).is_some_and(|told| told.as_bytes().ct_eq(self.secret.as_bytes()).into())
    }

    /// Takes in the update of a request. Returns when its content is durable.
    async fn take(&self, mut request: Request) -> Result<(), NotTaken> {
        if !self.is_from_telegram(request.headers()) {
            return Err(NotTaken::Stranger);
        }
        DefaultBodyLimit::max(UPDATE_MAX_BYTES).apply(&mut request);
        let body = Bytes::from_request(request, &()).await.map_err(|error: BytesRejection| {
            match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => NotTaken::TooLarge,
                _ => NotTaken::Unreadable,
            }
        })?;
        let body = String::from_utf8_lossy(&body);
        let update = serde_json::from_str(&body).map_err(|_| NotTaken::Unreadable)?;
        let inlet = self.inlet.lock().clone().ok_or(NotTaken::NotReady)?;
        let (taken, done) = oneshot::channel();
        inlet.send(Delivery { update, taken }).await.map_err(|_| NotTaken::NotReady)?;
        done.await.map_err(|_| NotTaken::NotReady)
    }
}

/// The HTTP routes of a webhook.
pub(super) fn router(webhook: &Arc<Webhook>) -> Router {
    Router::new().route(webhook.url.path(), post(deliver)).with_state(Arc::clone(webhook))
}

async fn deliver(State(webhook): State<Arc<Webhook>>, request: Request) -> Response {
    let taken = tokio::time::timeout(DONE_WITHIN, webhook.take(request)).await;
    let Err(refused) = taken.unwrap_or(Err(NotTaken::Late)) else { return StatusCode::OK.into_response() };
    let why = refused.name();
    metrics::counter!("cairn_telegram_webhook_refused_total", "why" => why).increment(1);
    match refused {
        NotTaken::Stranger => {
            tracing::debug!("the webhook was called without telegram's secret; refused");
        }
        NotTaken::TooLarge | NotTaken::Unreadable => {
            tracing::warn!(why, "an update from Telegram cannot be read; refused");
        }
        NotTaken::NotReady | NotTaken::Late => {
            tracing::debug!(why, "an update of telegram was not taken in; telegram repeats it");
        }
    }
    (refused.status(), [(RETRY_AFTER, REPEAT_AFTER_SECS)]).into_response()
}

/// Who set the bot's current webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebhookOwner {
    Nobodys,
    Cairns,
    Anothers,
}

impl WebhookOwner {
    /// From the answer of `getWebhookInfo`.
    pub(super) fn of(info: &Value) -> Self {
        let url = info["url"].as_str().unwrap_or_default();
        match Url::parse(url) {
            _ if url.is_empty() => Self::Nobodys,
            Ok(url) if url.query() == Some(MARK) => Self::Cairns,
            Ok(_) | Err(_) => Self::Anothers,
        }
    }
}

/// Telegram's text for a recent delivery error, if updates are waiting. `within`: its greatest age in seconds, at
/// `now`.
pub(super) fn trouble(info: &Value, now: i64, within: i64) -> Option<&str> {
    let waits = info["pending_update_count"].as_u64().is_some_and(|n| n > 0);
    let is_late = info["last_error_date"].as_i64().is_some_and(|at| now.saturating_sub(at) <= within);
    (waits && is_late).then(|| info["last_error_message"].as_str().unwrap_or("no reason given"))
}

/// Makes polling possible: deletes a webhook that cairn set.
pub(super) async fn clear(telegram: &Telegram, troubles: &mut Troubles) -> Result<(), AdapterFailure> {
    match WebhookOwner::of(&ask(telegram, &GetWebhookInfo::new(), troubles).await?) {
        WebhookOwner::Nobodys => Ok(()),
        WebhookOwner::Anothers => Err(of_another()),
        WebhookOwner::Cairns => {
            ask(telegram, &DeleteWebhook::new(), troubles).await?;
            tracing::info!("Cairn's webhook was deleted; updates are polled from now on");
            Ok(())
        }
    }
}

pub(super) fn of_another() -> AdapterFailure {
    AdapterFailure {
        reason: "a webhook is set for this bot, so it cannot be asked for updates".to_owned(),
        hint: "switch off the service that set the webhook, then call the Bot API's deleteWebhook with this token, or \
               use another bot"
            .to_owned(),
        lasting: true,
    }
}

/// Registers the webhook with Telegram.
async fn register(
    telegram: &Telegram,
    webhook: &Webhook,
    troubles: &mut Troubles,
) -> Result<(), AdapterFailure> {
    let mut payload = SetWebhook::new(webhook.url.clone());
    payload.max_connections = u8::try_from(WINDOW).ok();
    payload.allowed_updates = Some(ALLOWED_UPDATES.to_vec());
    payload.secret_token = Some(webhook.secret.clone());
    loop {
        let error = match telegram.api.call(&payload, CALL_TIMEOUT).await {
            Ok(_) => {
                troubles.over();
                telegram.link.set(LinkState::Connected, None);
                let host = webhook.url.host_str().unwrap_or_default();
                tracing::info!(host, "Telegram sends updates to the webhook");
                return Ok(());
            }
            Err(CallError::Api { code: 400, description, .. }) => {
                return Err(AdapterFailure {
                    reason: format!("Telegram does not take the webhook ({description})"),
                    hint: "correct `webhook_url`: https, a name that everybody can resolve, port 443, 80, 88 or 8443"
                        .to_owned(),
                    lasting: true,
                });
            }
            Err(error) => error,
        };
        troubles.wait(&error, telegram).await?;
    }
}

/// Checks the webhook regularly and reports its state. Returns when it is no longer this bot's.
async fn watch(telegram: &Telegram, webhook: &Webhook) -> AdapterFailure {
    let mut troubles = Troubles::default();
    let mut was_well = true;
    loop {
        tokio::time::sleep(webhook.look_every).await;
        let asked = Instant::now();
        let info = match ask(telegram, &GetWebhookInfo::new(), &mut troubles).await {
            Ok(info) => info,
            Err(failure) => return failure,
        };
        telegram.link.latency(asked.elapsed());
        if !webhook.is_that_of(&info) {
            return AdapterFailure {
                reason: "the webhook of this bot is not the one that cairn has set".to_owned(),
                hint: "stop the other program that uses this token, or give each a bot of its own".to_owned(),
                lasting: true,
            };
        }
        match trouble(&info, telegram.now().as_second(), FRESH_SECS) {
            None => {
                was_well = true;
                telegram.link.set(LinkState::Connected, None);
            }
            Some(said) => {
                let failure = AdapterFailure {
                    reason: format!("Telegram cannot deliver updates to the webhook: {said}"),
                    hint: "does `webhook_url` lead to `webhook_listen`, by a certificate that Telegram takes? it goes on \
                           trying"
                        .to_owned(),
                    lasting: false,
                };
                if std::mem::take(&mut was_well) {
                    tracing::warn!(
                        reason = failure.reason,
                        hint = failure.hint,
                        "Telegram cannot deliver updates; they wait"
                    );
                }
                telegram.link.set(LinkState::Reconnecting, Some(&failure));
            }
        }
    }
}

/// The requests that wait for each update, by its number.
type Waiting = HashMap<i64, Vec<oneshot::Sender<()>>>;

/// Adds a waiting request. When an update takes long, Telegram closes its request and sends another.
fn wait_for(waiting: &mut Vec<oneshot::Sender<()>>, taken: oneshot::Sender<()>) {
    waiting.retain(|earlier| !earlier.is_closed());
    waiting.push(taken);
}

impl Poller<'_> {
    /// Takes in updates from the webhook until a lasting failure.
    pub(super) async fn serve(&mut self, webhook: &Webhook) -> AdapterFailure {
        let (inlet, deliveries) = mpsc::channel(WINDOW);
        *webhook.inlet.lock() = Some(inlet);
        let telegram = self.telegram;
        if let Err(failure) = register(telegram, webhook, &mut self.troubles).await {
            return failure;
        }
        tokio::select! {
            failure = watch(telegram, webhook) => failure,
            never = self.take_deliveries(deliveries) => match never {},
        }
    }

    async fn take_deliveries(&mut self, mut deliveries: mpsc::Receiver<Delivery>) -> Infallible {
        let mut waiting = Waiting::new();
        loop {
            let room = WINDOW.saturating_sub(self.offset_tracker.under_way());
            let mut batch = Vec::new();
            tokio::select! {
                Some(update) = self.done.recv() => {
                    self.offset_tracker.finish(update);
                    for taken in waiting.remove(&update).unwrap_or_default() {
                        // The request may be closed; Telegram repeats the update, which is known then.
                        let _ = taken.send(());
                    }
                }
                _ = deliveries.recv_many(&mut batch, room), if room > 0 => {
                    self.take_batch(batch, &mut waiting).await;
                }
            }
            let under_way = self.offset_tracker.under_way();
            self.handler.path.set_crowded(under_way >= WINDOW);
            self.telegram.link.set_queue(under_way as u64);
        }
    }

    async fn take_batch(&mut self, batch: Vec<Delivery>, waiting: &mut Waiting) {
        let (updates, waits): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|Delivery { update, taken }| {
                let id = wire::number(&update);
                (update, (id, taken))
            })
            .unzip();
        self.enqueue(updates).await;
        for (id, taken) in waits {
            match id {
                Some(id) if self.offset_tracker.is_open(id) => {
                    wait_for(waiting.entry(id).or_default(), taken)
                }
                // It could not be queued: without an answer Telegram repeats it.
                Some(id) if self.offset_tracker.is_new(id) => drop(taken),
                // It was done before, or cannot be used.
                Some(_) | None => drop(taken.send(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;
    use rstest::rstest;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;

    #[rstest]
    #[case::none(json!({ "url": "" }), WebhookOwner::Nobodys)]
    #[case::no_answer(json!({}), WebhookOwner::Nobodys)]
    #[case::of_cairn(json!({ "url": "https://bot.example.org/hook?cairn" }), WebhookOwner::Cairns)]
    #[case::of_another(json!({ "url": "https://bot.example.org/hook" }), WebhookOwner::Anothers)]
    #[case::of_another_with_a_query(json!({ "url": "https://bot.example.org/?cairn=1" }), WebhookOwner::Anothers)]
    #[case::unreadable(json!({ "url": "?cairn" }), WebhookOwner::Anothers)]
    fn a_webhook_of_cairn_is_known_by_its_query(#[case] info: Value, #[case] owner: WebhookOwner) {
        assert_eq!(WebhookOwner::of(&info), owner);
    }

    #[rstest]
    #[case::fresh(json!({ "pending_update_count": 2, "last_error_date": 900, "last_error_message": "no" }), Some("no"))]
    #[case::long_ago(json!({ "pending_update_count": 2, "last_error_date": 800, "last_error_message": "no" }), None)]
    #[case::over(json!({ "pending_update_count": 0, "last_error_date": 900, "last_error_message": "no" }), None)]
    #[case::never(json!({ "pending_update_count": 2 }), None)]
    fn only_an_error_of_late_is_a_trouble_while_updates_wait(
        #[case] info: Value,
        #[case] said: Option<&str>,
    ) {
        assert_eq!(trouble(&info, 1_000, 120), said);
    }

    #[test]
    fn an_update_that_is_repeated_again_and_again_is_waited_for_once() {
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let (taken, _hung_up) = oneshot::channel();
            wait_for(&mut waiting, taken);
        }
        assert_eq!(waiting.len(), 1);
    }

    fn webhook(inlet: Option<mpsc::Sender<Delivery>>) -> Webhook {
        Webhook {
            url: Url::parse("https://bot.example.org/hook?cairn").unwrap(),
            secret: "quokka".to_owned(),
            look_every: Duration::from_secs(60),
            inlet: Mutex::new(inlet),
        }
    }

    #[rstest]
    #[case::the_same("https://bot.example.org/hook?cairn", true)]
    #[case::with_its_port("https://bot.example.org:443/hook?cairn", true)]
    #[case::another_port("https://bot.example.org:8443/hook?cairn", false)]
    #[case::another_path("https://bot.example.org/?cairn", false)]
    fn a_webhook_is_known_by_its_whole_address(#[case] url: &str, #[case] is_its: bool) {
        assert_eq!(webhook(None).is_that_of(&json!({ "url": url })), is_its);
    }

    #[rstest]
    #[case::too_large(Body::from(vec![b' '; UPDATE_MAX_BYTES + 1]), NotTaken::TooLarge)]
    #[case::cut_off(Body::from_stream(stream::iter([Err::<String, _>("cut off")])), NotTaken::Unreadable)]
    #[case::no_json(Body::from("{"), NotTaken::Unreadable)]
    #[tokio::test]
    async fn a_body_that_cannot_be_read_is_refused_for_what_it_is(#[case] body: Body, #[case] why: NotTaken) {
        let request = Request::post("/hook").header(SECRET_HEADER, "quokka").body(body).unwrap();
        assert_eq!(webhook(None).take(request).await, Err(why));
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_that_is_not_durable_in_time_is_to_be_repeated_soon() {
        let (inlet, mut deliveries) = mpsc::channel(1);
        let webhook = Arc::new(webhook(Some(inlet)));
        let request = Request::post("/hook").header(SECRET_HEADER, "quokka").body(Body::from("{}")).unwrap();
        let began = Instant::now();
        let answer = router(&webhook).oneshot(request).await.unwrap();
        assert_eq!((answer.status(), began.elapsed()), (StatusCode::SERVICE_UNAVAILABLE, DONE_WITHIN));
        assert_eq!(answer.headers()[RETRY_AFTER], "3");
        assert!(deliveries.recv().await.unwrap().taken.is_closed(), "nobody waits for it any more");
    }
}
