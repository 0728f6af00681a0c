//! Converts errors of the database and its connections into store errors.

use std::error::Error as _;
use std::fmt::Display;

use cairn_types::ports::StoreError;

/// The store error for an error of the database or its connection.
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
