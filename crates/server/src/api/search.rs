//! Search in one channel or in all. The index answers; no channel is woken or restored.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_api::lists::UNINDEXED;
use cairn_store::SearchPlace;
use cairn_types::ids::ChannelId;
use cairn_types::memory::Scope;
use cairn_types::people::said::SaidFilter;
use cairn_types::ports::{Hit, HitKind, Query};
use serde::Deserialize;

use crate::api::shared::{Admin, Channel, Page, Params, Shared, limit, no_such_channel, no_such_place};

#[derive(Debug, Default, Deserialize)]
pub struct SearchParams {
    pub q: Option<String>,
    pub kind: Option<HitKind>,
    pub since: Option<String>,
    pub until: Option<String>,
    pub user: Option<String>,
    pub limit: Option<usize>,
    pub after: Option<String>,
}

/// A page of hits, best match first.
pub struct Found {
    pub page: Page<Hit>,
    /// Records of the journal that are not in the index yet.
    pub unindexed: u64,
}

impl IntoResponse for Found {
    fn into_response(self) -> Response {
        match self.unindexed {
            0 => self.page.into_response(),
            n => ([(UNINDEXED, n.to_string())], self.page).into_response(),
        }
    }
}

/// `GET /v1/channels/{C}/search`: best match first.
pub async fn in_channel(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    Params(asked): Params<SearchParams>,
) -> Result<Found, ApiError> {
    // An unknown channel is an error, not an empty result.
    if !admin.store.has_channel(&channel).await? {
        return Err(no_such_channel(&channel));
    }
    admin.search(Some(channel), asked).await
}

/// `GET /v1/search`: in all channels and memories, best match first.
pub async fn everywhere(
    State(admin): State<Shared>,
    Params(asked): Params<SearchParams>,
) -> Result<Found, ApiError> {
    admin.search(None, asked).await
}

impl Admin {
    async fn search(&self, channel: Option<ChannelId>, asked: SearchParams) -> Result<Found, ApiError> {
        let text = asked.q.unwrap_or_default();
        if text.trim().is_empty() {
            return Err(ApiError::malformed("`q` is empty; give the words to search for"));
        }
        let after = |after: String| after.parse::<SearchPlace>().map_err(|()| no_such_place(&after));
        let after = asked.after.map(after).transpose()?;
        let scopes = channel.iter().flat_map(|channel| [Scope::Agent, Scope::learnt_in(channel, None)]);
        let query = Query {
            scopes: scopes.collect(),
            channel,
            text,
            kind: asked.kind,
            said: SaidFilter {
                since: self.when(asked.since.as_deref())?.map(|when| when.from),
                until: self.when(asked.until.as_deref())?.map(|when| when.to),
                user: asked.user,
            },
            limit: limit(asked.limit)?,
            settled: true,
        };
        let found = self.store.found(query, after).await?;
        let page = Page { items: found.hits, next: found.next.map(|place| place.to_string()) };
        Ok(Found { page, unindexed: found.unindexed })
    }
}
