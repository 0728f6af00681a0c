//! Sums of what model calls used and cost.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cairn_api::error::ApiError;
use cairn_core::registry::day_of;
use cairn_core::spend::{SpendBy, SpendLine, summed_up};
use jiff::ToSpan as _;
use jiff::civil::Date;
use serde::Deserialize;

use crate::api::shared::{Params, Shared};

/// Default number of days.
const DAYS: i64 = 30;

#[derive(Debug, Deserialize)]
pub struct SpendParams {
    pub from: Option<String>,
    pub to: Option<String>,
    pub by: Option<String>,
}

/// `GET /v1/spend`: sums over days (UTC), grouped by `by`.
pub async fn spend(
    State(admin): State<Shared>,
    Params(query): Params<SpendParams>,
) -> Result<Json<Vec<SpendLine>>, ApiError> {
    let to = query.to.as_deref().map(day).transpose()?.unwrap_or_else(|| day_of(admin.clock.now()));
    let first = || to.checked_sub((DAYS - 1).days()).unwrap_or(to);
    let from = query.from.as_deref().map(day).transpose()?.unwrap_or_else(first);
    let by = by(query.by.as_deref().unwrap_or(SpendBy::Day.name()))?;
    let prices = admin.agent_registry.loaded().config.prices();
    let rows = admin.store.spent(from, to).await?;
    Ok(Json(summed_up(rows, &by, &prices)))
}

fn day(text: &str) -> Result<Date, ApiError> {
    text.parse().map_err(|_| bad("bad_day", format!("`{text}` is not a day"), "write one as in 2026-11-23"))
}

fn by(text: &str) -> Result<Vec<SpendBy>, ApiError> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let one = |name: &str| {
        SpendBy::of_name(name).ok_or_else(|| {
            let known = SpendBy::ALL.map(SpendBy::name).join(", ");
            bad("bad_by", format!("cannot group by `{name}`"), format!("possible values: {known}"))
        })
    };
    names.map(one).collect()
}

fn bad(code: &str, message: String, hint: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, code, message, hint)
}
