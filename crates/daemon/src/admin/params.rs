//! Parameters of calls: read from path, query and body, with errors in the shape of all others.

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use cairn_platforms::local::{ApiError, read_body, read_object};
use serde::de::DeserializeOwned;

/// Items of a list unless asked otherwise.
pub(super) const LIMIT_DEFAULT: usize = 100;

pub(super) const LIMIT_MAX: usize = 10_000;

/// Largest body of a command, in bytes.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

pub(super) type Segment = Result<Path<String>, PathRejection>;

pub(super) type Params<T> = Result<Query<T>, QueryRejection>;

/// The path's parameter, or why it cannot be read.
pub(super) fn segment(segment: Segment) -> Result<String, ApiError> {
    segment.map(|Path(text)| text).map_err(|error| ApiError::malformed(error.body_text()))
}

/// The query's parameters, or why they cannot be read.
pub(super) fn params<T>(params: Params<T>) -> Result<T, ApiError> {
    params.map(|Query(params)| params).map_err(|error| ApiError::malformed(error.body_text()))
}

/// How many items: the default when absent, the most there may be when more is asked for.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    match asked {
        Some(0) => Err(ApiError::malformed("`limit` is 0; it goes from 1 to 10000")),
        Some(asked) => Ok(asked.min(LIMIT_MAX)),
        None => Ok(LIMIT_DEFAULT),
    }
}

/// A JSON body; an empty one counts as `{}`.
pub(super) async fn body<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = read_body(body, BODY_MAX_BYTES).await?.ok_or_else(|| ApiError::too_large(BODY_MAX_BYTES))?;
    let bytes = if bytes.is_empty() { b"{}".as_slice() } else { &bytes };
    read_object(bytes).map_err(|why| ApiError::malformed(format!("the body cannot be read: {why}")))
}
