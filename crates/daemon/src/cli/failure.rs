//! Why a command failed: what is printed, and the exit code.

use axum::http::StatusCode;
use cairn_core::ports::StoreError;
use cairn_platforms::local::{ApiError, ErrorDetail};

use super::exit;

#[derive(Debug)]
pub(crate) enum Failure {
    Said {
        code: u8,
        message: String,
        hint: String,
    },
    /// All has been said already; the exit code alone.
    Silent(u8),
    /// Whoever read our output has left; no fault of anybody.
    OutputClosed,
}

impl Failure {
    /// A failure with an exit code of its own.
    pub(crate) fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { code, message: message.into(), hint: hint.into() }
    }

    /// Exit code 1.
    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(exit::FAILED, message, hint)
    }

    /// Exit code 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(exit::USAGE, message, hint)
    }

    /// An error answer of the API.
    pub(crate) fn of_api(status: StatusCode, detail: ErrorDetail) -> Self {
        let code = match (status, detail.code.as_str()) {
            (_, "damaged") => exit::DAMAGED,
            (_, "in_use") => exit::IN_USE,
            (StatusCode::NOT_FOUND, _) => exit::NOT_FOUND,
            (StatusCode::BAD_REQUEST, _) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self::Said { code, message: detail.message, hint: detail.hint }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::of_api(error.status, error.detail)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::failed(format!("cannot write the output: {error}"), "check where stdout leads")
    }
}
