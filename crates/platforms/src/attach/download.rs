//! Fetches files from known hosts, with a limit on the bytes that are read.

use std::time::Duration;

use cairn_types::wire::body::{self, BodyError};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

/// Longest time for one file.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a file was not fetched. The text never contains the address, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    #[error("its host is not one of the platform's")]
    Foreign,
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("the server answered {0}")]
    Status(u16),
    /// The connection failed or timed out.
    #[error("{0}")]
    Transport(String),
}

/// Fetches from the given hosts only; redirects are not followed elsewhere.
#[derive(Debug, Clone)]
pub struct Downloads {
    client: Client,
    hosts: Vec<Url>,
    time_limit: Duration,
}

impl Downloads {
    /// Allows these hosts; scheme, host and port must match, the path is ignored. With `direct` no proxy from the
    /// environment is used.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(hosts: Vec<Url>, direct: bool) -> Result<Self, DownloadError> {
        let mut builder = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        if direct {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(without_address)?;
        Ok(Self { client, hosts, time_limit: TIME_LIMIT })
    }

    /// Sets the time limit for each file.
    #[must_use]
    pub fn within(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Fetches a file of at most `most` bytes; reading stops at the limit.
    ///
    /// # Errors
    /// The host is not allowed, the file is too long, the server refuses, or the connection fails.
    pub async fn fetch(&self, address: &str, most: usize) -> Result<Vec<u8>, DownloadError> {
        let url = Url::parse(address).map_err(|_| DownloadError::Foreign)?;
        if !self.hosts.iter().any(|host| same_host(host, &url)) {
            return Err(DownloadError::Foreign);
        }
        let sent = self.client.get(url).timeout(self.time_limit).send().await;
        let response = sent.map_err(without_address)?;
        if response.status() != 200 {
            return Err(DownloadError::Status(response.status().as_u16()));
        }
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(DownloadError::TooLong(most));
        }
        body::read_whole(response.bytes_stream(), most).await.map_err(|short| match short {
            BodyError::TooLarge => DownloadError::TooLong(most),
            BodyError::Broken(error) => without_address(error),
        })
    }
}

fn same_host(allowed: &Url, url: &Url) -> bool {
    allowed.scheme() == url.scheme()
        && allowed.host_str() == url.host_str()
        && allowed.port_or_known_default() == url.port_or_known_default()
        && url.username().is_empty()
        && url.password().is_none()
}

fn without_address(error: reqwest::Error) -> DownloadError {
    let what = match &error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "there is no connection to its host",
        error if error.is_builder() => "no client can be made",
        _ => "the connection broke",
    };
    DownloadError::Transport(what.to_owned())
}
