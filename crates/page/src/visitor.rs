//! Who looks at the page.

use axum::http::header::{COOKIE, HeaderMap};
use cairn_api::records::Scope;
use cairn_server::api::page_access::Access;

/// Somebody who is logged in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visitor {
    pub(super) scope: Scope,
}

impl Visitor {
    pub(super) fn may_operate(self) -> bool {
        self.scope == Scope::Operate
    }
}

/// Who sends a request with that cookie; `None`: nobody who is logged in.
pub(super) fn visitor(access: &Access, headers: &HeaderMap) -> Option<Visitor> {
    let scope = token(access, headers).and_then(|token| access.scope(token))?;
    Some(Visitor { scope })
}

/// The token of the session's cookie.
pub(super) fn token<'h>(access: &Access, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == access.cookie()).map(|(_, token)| token)
}
