//! Errors of the database and of connections to it, as the store's.

use std::error::Error as _;
use std::fmt::Display;

use cairn_types::ports::StoreError;

/// What the database or the connection to it said, as the store's error.
pub(crate) fn refused(action: &str, error: &tokio_postgres::Error) -> StoreError {
    if let Some(error) = error.as_db_error() {
        return failed(action, format!("{} ({})", error.message(), error.code().code()));
    }
    match error.source() {
        Some(source) => failed(action, source),
        None => failed(action, error),
    }
}

pub(crate) fn failed(action: &str, why: impl Display) -> StoreError {
    StoreError::Database { message: format!("cannot {action}: {why}") }
}
