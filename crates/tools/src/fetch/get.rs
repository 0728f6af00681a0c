//! A web request: redirects are followed here, each name is looked up once, and connections are made only to addresses
//! that passed the check.

use std::error::Error as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cairn_types::wire::body::{self, BodyError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};

use super::address;
use super::error::FetchError;
use super::target::{Hosts, judge};
use super::text::ContentType;

/// The `Accept` header: text, preferably HTML.
const ACCEPTED: &str = "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.1";

/// Longest cause in an error, in characters.
const CAUSE_CHARS: usize = 200;

/// Access to the network; replaced only in tests.
#[derive(Clone)]
pub(super) struct Net {
    pub(super) lookup: Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>,
    /// Whether an address may be connected to.
    pub(super) is_public: fn(IpAddr) -> bool,
}

impl Net {
    /// The system's network, limited to public addresses.
    pub(super) fn system() -> Self {
        let lookup = |name: String| {
            async move {
                let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            }
            .boxed()
        };
        Self { lookup: Arc::new(lookup), is_public: address::is_public }
    }
}

impl Resolve for Net {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { lookup, is_public } = self.clone();
        async move {
            let name = name.as_str().to_owned();
            let found = lookup(name.clone()).await;
            let found = found.ok().filter(|found| !found.is_empty());
            let found = found.ok_or_else(|| FetchError::Lookup(name.clone()))?;
            // A name with both public and private addresses is a way to reach the private ones.
            if !found.iter().all(|address| is_public(*address)) {
                return Err(FetchError::Private(name).into());
            }
            // The client replaces port 0 by the request's port.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        }
        .boxed()
    }
}

#[derive(Debug)]
pub(super) struct Page {
    /// The address of the page after all redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) content_type: ContentType,
    pub(super) body: Vec<u8>,
    pub(super) cut: bool,
}

#[derive(Clone)]
pub(super) struct Getter {
    client: Client,
    net: Net,
    hosts: Arc<Hosts>,
    max_redirects: usize,
}

impl Getter {
    pub(super) fn new(
        net: Net,
        hosts: Arc<Hosts>,
        max_redirects: usize,
        user_agent: &str,
        timeout: Duration,
    ) -> Result<Self, String> {
        let client = Client::builder()
            .dns_resolver(Arc::new(net.clone()))
            .redirect(Policy::none())
            .referer(false)
            .no_proxy()
            // A connection serves one request only: the next request is checked again.
            .pool_max_idle_per_host(0)
            // The caller limits the total time.
            .connect_timeout(timeout)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .user_agent(
                HeaderValue::from_str(user_agent).map_err(|_| "`user_agent` is no header".to_owned())?,
            );
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(Self { client, net, hosts, max_redirects })
    }

    /// Lets this getter ask the host of an address, too, at the usual ports.
    pub(super) fn allow(&mut self, url: &Url) {
        if let Some(host) = url.host() {
            self.hosts = Arc::new(self.hosts.with(&host.to_string()));
        }
    }

    /// Fetches a page, at most `max_bytes` of its body.
    pub(super) async fn get(&self, url: Url, max_bytes: usize) -> Result<Page, FetchError> {
        let mut url = url;
        let mut followed = 0;
        loop {
            let response = self.ask(&url).await.map_err(|error| match followed {
                0 => error,
                _ if error.outcome() == "refused" => FetchError::Redirect(Box::new(error)),
                _ => error,
            })?;
            let Some(next) = redirected(&response, &url)? else {
                return read(url, response, max_bytes).await;
            };
            if followed == self.max_redirects {
                return Err(FetchError::Redirects(self.max_redirects));
            }
            followed += 1;
            url = next;
        }
    }

    async fn ask(&self, url: &Url) -> Result<Response, FetchError> {
        judge(url, &self.hosts, self.net.is_public)?;
        let request =
            self.client.get(url.clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(|error| failure(url, &error))?;
        // Cannot happen: connections are only made to checked addresses. A second check, in case that breaks.
        if response.remote_addr().is_some_and(|peer| !(self.net.is_public)(peer.ip())) {
            return Err(FetchError::Private(host(url)));
        }
        Ok(response)
    }
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// The target of a redirect; `None`: it is not one.
fn redirected(response: &Response, url: &Url) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes());
    let next = url.join(&location).map_err(|error| FetchError::Url(format!("it redirects to {error}")))?;
    Ok(Some(next))
}

async fn read(url: Url, response: Response, max_bytes: usize) -> Result<Page, FetchError> {
    let headers = response.headers();
    let encoded = headers.get(CONTENT_ENCODING).is_some_and(|coding| {
        !matches!(
            coding.to_str().map(|coding| coding.trim().to_ascii_lowercase()).as_deref(),
            Ok("identity" | "")
        )
    });
    if encoded {
        return Err(FetchError::Compressed(host(&url)));
    }
    let header =
        headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let content_type = ContentType::of(header.as_deref())?;
    let status = response.status();
    let (body, short) = body::read(response.bytes_stream(), max_bytes).await;
    match short {
        Some(BodyError::Broken(error)) => Err(failure(&url, &error)),
        short => Ok(Page { url, status, content_type, body, cut: short.is_some() }),
    }
}

/// The error of a failed request; our own errors are inside the client's.
fn failure(url: &Url, error: &reqwest::Error) -> FetchError {
    let mut source = error.source();
    let mut cause = None;
    while let Some(error) = source {
        if let Some(ours) = error.downcast_ref::<FetchError>() {
            return ours.clone();
        }
        cause = Some(error);
        source = error.source();
    }
    let cause = match cause {
        _ if error.is_timeout() => "it took too long".to_owned(),
        Some(cause) => cause.to_string().chars().take(CAUSE_CHARS).collect(),
        None => "the request failed".to_owned(),
    };
    FetchError::Failed { host: host(url), cause }
}
