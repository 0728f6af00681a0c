//! Discord's REST API: requests as serenity builds them, sent by our own client.
//!
//! serenity's own client ignores its proxy setting while its rate limiter is on, and its rate limiter waits inside the
//! call. Here the token is sent only to `api_url`, redirects are not followed, and a rate limit is returned as an
//! error: the caller decides whether to wait, so that one channel never blocks another.

mod calls;
mod error;
mod limits;
mod refused;

use std::time::{Duration, Instant};

use cairn_types::wire::backoff::Backoff;
use cairn_types::wire::body::{self, BodyError};
use futures::FutureExt as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serenity::http::{LightMethod, Request, Route};
use tokio::sync::Notify;

use self::error::Fault;
use self::limits::{Key, Limits};
use crate::fence::Fence;
use crate::multipart::Multipart;

pub(crate) use self::calls::{PAGE, Page};
pub(crate) use self::error::{ALREADY_ANSWERED, NO_HISTORY_FOR_REPLY, RestError, UNKNOWN_INTERACTION};
pub use self::refused::Refusals;
pub(crate) use self::refused::{REFUSED_MAX, STOP_AT};

/// Longest time to establish a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Longest time for a whole request.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);

/// Longest time for a request with files.
const UPLOAD_LIMIT: Duration = Duration::from_secs(120);

/// Largest answer that is read, in bytes. 100 messages take far less.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Statuses of requests that Discord's API never got. 503: the server takes no requests now (RFC 9110, 15.6.4). 521 and 523:
/// Cloudflare, which stands before the API, got no connection to it ("Cloudflare 5xx errors" in its documentation). 500, 502
/// and 504 are not among them: Discord says of 502 that no gateway was there for the request, but a proxy also answers so
/// when the connection to the API breaks after the request went over it.
const NOT_TAKEN: [u16; 3] = [503, 521, 523];

/// Pause after a 429 that names no time.
const LIMIT_UNSAID: Duration = Duration::from_secs(5);

const LIMIT_MAX: Duration = Duration::from_secs(3600);

/// Attempts of [`Rest::patiently`], and the pauses between them.
const TRIES: u32 = 6;
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(16);

/// The REST client of one bot.
pub(crate) struct Rest {
    platform: &'static str,
    client: Client,
    token: SecretString,
    api: String,
    limits: Limits,
    fence: Fence,
    rejected: Notify,
}

impl Rest {
    /// `token` has the `Bot ` prefix; `api` is scheme and host; `own`: the API is not Discord's.
    ///
    /// # Errors
    /// The HTTP client cannot be built (its certificates cannot be loaded).
    pub(crate) fn new(
        platform: &'static str,
        token: SecretString,
        api: &Url,
        own: bool,
        shared: (Refusals, Fence),
    ) -> Result<Self, reqwest::Error> {
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .timeout(REQUEST_LIMIT);
        if own {
            // A proxy from the environment would see the token if the server is reached without TLS.
            builder = builder.no_proxy();
        }
        let api = api.as_str().trim_end_matches('/').to_owned();
        let (refusals, fence) = shared;
        let limits = Limits::new(refusals);
        let (client, rejected) = (builder.build()?, Notify::new());
        Ok(Self { platform, client, token, api, limits, fence, rejected })
    }

    /// Refused requests of the last ten minutes, over all bots of the daemon.
    pub(crate) fn n_refused(&self) -> u64 {
        self.limits.n_refused(Instant::now())
    }

    /// Drops an earlier refusal of the token that nobody waited for.
    pub(crate) fn forget_rejection(&self) {
        // Takes the stored permit, if there is one.
        let _ = self.rejected.notified().now_or_never();
    }

    /// Waits until Discord refuses the token.
    pub(crate) async fn token_rejected(&self) {
        self.rejected.notified().await;
    }

    /// Repeats a call through rate limits and short failures. For calls that may safely be repeated.
    ///
    /// # Errors
    /// It is refused, or still fails after some attempts.
    pub(crate) async fn patiently<T, F>(&self, call: impl Fn() -> F) -> Result<T, RestError>
    where
        F: Future<Output = Result<T, RestError>>,
    {
        self.again_while(call, RestError::is_passing).await
    }

    /// Repeats a call through rate limits and connection failures. For calls that must not be repeated once they may
    /// have arrived.
    ///
    /// # Errors
    /// It is refused, may have arrived, or still fails after some attempts.
    pub(crate) async fn carefully<T, F>(&self, call: impl Fn() -> F) -> Result<T, RestError>
    where
        F: Future<Output = Result<T, RestError>>,
    {
        self.again_while(call, RestError::is_unsent).await
    }

    async fn again_while<T, F>(
        &self,
        call: impl Fn() -> F,
        again: fn(&RestError) -> bool,
    ) -> Result<T, RestError>
    where
        F: Future<Output = Result<T, RestError>>,
    {
        let (mut tried, mut pauses) = (0, Backoff::new(RETRY_FIRST, RETRY_LONGEST));
        loop {
            tried += 1;
            match call().await {
                Err(error) if again(&error) && tried < TRIES => {
                    let pause = error.after().unwrap_or_else(|| pauses.next_pause());
                    tokio::time::sleep(pause).await;
                }
                done => return done,
            }
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        route: Route<'_>,
        params: Option<Vec<(&'static str, String)>>,
    ) -> Result<T, RestError> {
        let request = Request::new(route, LightMethod::Get).params(params);
        self.read(request).await
    }

    async fn write<T: DeserializeOwned>(
        &self,
        route: Route<'_>,
        method: LightMethod,
        body: &impl Serialize,
    ) -> Result<T, RestError> {
        self.read(with_body(route, method, body)?).await
    }

    /// Posts a form.
    async fn write_form<T: DeserializeOwned>(
        &self,
        route: Route<'_>,
        form: Multipart,
    ) -> Result<T, RestError> {
        let (content_type, body) = form.finish().await;
        let request = Request::new(route, LightMethod::Post).body(Some(body));
        read_as(&self.execute_as(request, Some(&content_type)).await?)
    }

    async fn read<T: DeserializeOwned>(&self, request: Request<'_>) -> Result<T, RestError> {
        read_as(&self.execute(request).await?)
    }

    /// Sends a request and reads the whole answer.
    async fn execute(&self, request: Request<'_>) -> Result<Vec<u8>, RestError> {
        self.execute_as(request, None).await
    }

    /// As [`Rest::execute`]; `form`: the type of a body that is not JSON but a form with files.
    async fn execute_as(&self, request: Request<'_>, form: Option<&str>) -> Result<Vec<u8>, RestError> {
        let key: Key = (request.route_ref().ratelimiting_bucket(), *request.method_ref());
        let by_bot = is_by_bot(request.route_ref());
        self.fence.check().map_err(RestError::Unreachable)?;
        self.limits.acquire(key, by_bot, Instant::now()).map_err(|after| RestError::Limited { after })?;
        // The error may quote the address, so it is dropped.
        let unbuilt = || RestError::Unreachable("the request cannot be built; check api_url".to_owned());
        let request = request
            .build(&self.client, self.token.expose_secret(), Some(&self.api))
            .map_err(|_| unbuilt())?;
        let mut request = request.build().map_err(|_| unbuilt())?;
        if let Some(form) = form {
            let form = HeaderValue::from_str(form).map_err(|_| unbuilt())?;
            request.headers_mut().insert(CONTENT_TYPE, form);
            *request.timeout_mut() = Some(UPLOAD_LIMIT);
        }
        let response = self.client.execute(request).await.map_err(|error| of_transport(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        self.limits.learn(key, &headers, Instant::now());
        let body = bounded(response).await;
        if status.is_success() {
            return body;
        }
        Err(self.of_status(key, by_bot, status, &headers, &body.unwrap_or_default()))
    }

    fn of_status(
        &self,
        key: Key,
        by_bot: bool,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> RestError {
        let fault: Option<Fault> = serde_json::from_slice(body).ok();
        // A limit shared with other bots does not count against this one.
        let is_shared = headers.get("x-ratelimit-scope").is_some_and(|scope| scope == "shared");
        if matches!(status.as_u16(), 401 | 403) || (status.as_u16() == 429 && !is_shared) {
            metrics::counter!("cairn_discord_refused_total").increment(1);
            if self.limits.refused(key, Instant::now()) {
                tracing::error!(
                    platform = self.platform,
                    "Discord refused {REFUSED_MAX} requests within ten minutes; refused requests now wait, because \
                     Discord blocks an address after 10,000"
                );
            }
        }
        match status {
            // For an interaction, the interaction's own token has expired.
            StatusCode::UNAUTHORIZED if by_bot => {
                self.rejected.notify_one();
                RestError::Unauthorized
            }
            StatusCode::TOO_MANY_REQUESTS => {
                // Without a body by Discord the answer comes from a proxy before it, which limits everything.
                let global = headers.contains_key("x-ratelimit-global")
                    || fault.as_ref().is_none_or(|fault| fault.global);
                let after = pause_of(headers, fault.as_ref());
                self.limits.close(key, after, global, Instant::now());
                metrics::counter!("cairn_discord_limited_total").increment(1);
                RestError::Limited { after }
            }
            status if NOT_TAKEN.contains(&status.as_u16()) => RestError::Unreachable(format!(
                "Discord takes no requests at the moment (status {})",
                status.as_u16()
            )),
            status if status.is_server_error() => {
                RestError::Unknown(format!("Discord has a fault of its own (status {})", status.as_u16()))
            }
            status if status.is_redirection() => RestError::Unreachable(format!(
                "the API sends on to another address (status {}), which is not followed; check api_url",
                status.as_u16()
            )),
            StatusCode::REQUEST_TIMEOUT => RestError::Unknown("the request took too long".to_owned()),
            status => {
                let Fault { code, message, .. } = fault.unwrap_or_default();
                RestError::Refused { status: status.as_u16(), code, message }
            }
        }
    }
}

/// Whether the request is authorised by the bot's token, not by a token in its path.
fn is_by_bot(route: &Route<'_>) -> bool {
    !matches!(
        route,
        Route::InteractionResponse { .. }
            | Route::WebhookOriginalInteractionResponse { .. }
            | Route::WebhookWithToken { .. }
    )
}

fn read_as<T: DeserializeOwned>(body: &[u8]) -> Result<T, RestError> {
    serde_json::from_slice(body)
        .map_err(|_| RestError::Unknown("Discord answered with something that is not its API's".to_owned()))
}

fn as_json(body: &impl Serialize) -> Result<serde_json::Value, RestError> {
    serde_json::to_value(body).map_err(|error| unwritten(&error))
}

fn unwritten(error: &serde_json::Error) -> RestError {
    let message = format!("the request cannot be written as JSON: {error}");
    RestError::Refused { status: 0, code: 0, message }
}

fn with_body<'a>(
    route: Route<'a>,
    method: LightMethod,
    body: &impl Serialize,
) -> Result<Request<'a>, RestError> {
    let body = serde_json::to_vec(body).map_err(|error| unwritten(&error))?;
    Ok(Request::new(route, method).body(Some(body)))
}

/// The wait time of a 429.
fn pause_of(headers: &HeaderMap, fault: Option<&Fault>) -> Duration {
    let header = || headers.get("retry-after")?.to_str().ok()?.parse::<f64>().ok();
    fault
        .and_then(|fault| fault.retry_after)
        .or_else(header)
        .and_then(|secs| Duration::try_from_secs_f64(secs).ok())
        .map_or(LIMIT_UNSAID, |pause| pause.min(LIMIT_MAX))
}

/// The error for a failed connection. Its text contains no address.
fn of_transport(error: &reqwest::Error) -> RestError {
    if error.is_connect() {
        let why = if error.is_timeout() { "no connection in time" } else { "no connection" };
        RestError::Unreachable(why.to_owned())
    } else if error.is_timeout() {
        RestError::Unknown("no answer in time".to_owned())
    } else {
        RestError::Unknown("the connection broke before the answer".to_owned())
    }
}

async fn bounded(response: Response) -> Result<Vec<u8>, RestError> {
    body::read_whole(response.bytes_stream(), ANSWER_MAX).await.map_err(|short| match short {
        BodyError::TooLarge => RestError::Unknown("an answer is too long to be Discord's".to_owned()),
        BodyError::Broken(error) => of_transport(&error),
    })
}
