//! A server that is asked in JSON, with bounds on its time and its answer.

use std::time::Duration;

use cairn_types::ports::NoRank;
use cairn_types::wire::body::{self, BodyError};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach a model's server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Up to and without the path of the call.
    pub base_url: String,
    pub key: Option<SecretString>,
    pub model: String,
    /// Longest wait for one answer.
    pub time_limit: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    client: Client,
    url: Url,
    pub(crate) settings: ServerSettings,
}

impl Server {
    /// # Errors
    /// The address is none, or the HTTP client cannot be built.
    pub(crate) fn new(settings: ServerSettings, call: &str) -> Result<Self, NoRank> {
        let url = format!("{}/{call}", settings.base_url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| NoRank::Address)?;
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let client = client.build().map_err(|_| NoRank::Address)?;
        Ok(Self { client, url, settings })
    }

    /// The server's answer, of at most `max` bytes.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, asked: &Value, max: usize) -> Result<T, NoRank> {
        let mut request = self.client.post(self.url.clone()).timeout(self.settings.time_limit).json(asked);
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = request.send().await.map_err(|error| transport(&error))?;
        if !response.status().is_success() {
            return Err(NoRank::Status(response.status().as_u16()));
        }
        let bytes = body::read_whole(response.bytes_stream(), max).await;
        let bytes = bytes.map_err(|short| match short {
            BodyError::TooLarge => NoRank::Garbled,
            BodyError::Broken(error) => transport(&error),
        })?;
        serde_json::from_slice(&bytes).map_err(|_| NoRank::Garbled)
    }
}

fn transport(error: &reqwest::Error) -> NoRank {
    NoRank::Transport(match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "there is no connection to the server",
        _ => "the connection broke",
    })
}

/// The beginning of a text, of at most so many bytes.
pub(crate) fn beginning(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
