//! Logging in by the link of `cairn ui`, and out.

use crate::links::LOGIN;
use std::sync::Arc;

use axum::Form;
use axum::extract::State;
use axum::http::header::{HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::bare;
use crate::visitor::token;
use cairn_server::api::page_access::{Access, SESSION_LASTS};

/// Where a login leads that was not on the way to anywhere.
const HOME: &str = "/";

/// `GET /login`: the script of the page takes the code from the link's fragment and sends the form; without scripts it is
/// pasted.
pub(super) async fn form() -> Markup {
    asking(HOME, None)
}

/// The form of the login for a view that somebody wants who is not logged in.
pub(super) fn asked(wanted: Option<&Uri>) -> Response {
    let wanted = wanted.and_then(Uri::path_and_query).map_or(HOME, |path| path.as_str());
    (StatusCode::UNAUTHORIZED, asking(wanted, None)).into_response()
}

fn asking(next: &str, trouble: Option<&str>) -> Markup {
    bare(
        "Log in",
        html! {
            h1 { "Log in" }
            @if let Some(trouble) = trouble { p.trouble role="alert" { (trouble) } }
            p { "Run " code { "cairn ui" } " on the daemon's machine and open the link that it prints, or paste it here." }
            form #login method="post" action=(LOGIN) {
                label for="code" { "Link or code" }
                input #code name="code" type="text" required autocomplete="off" autocapitalize="off" spellcheck="false";
                input type="hidden" name="next" value=(next);
                button { "Log in" }
            }
            p.note { "A link works once. If you came here from another site and are logged in, "
                a href=(next) { "open the page again" } "." }
        },
    )
}

#[derive(Deserialize)]
pub(super) struct Given {
    code: String,
    #[serde(default)]
    next: String,
}

/// `POST /login`.
pub(super) async fn enter(
    State(access): State<Arc<Access>>,
    headers: HeaderMap,
    Form(given): Form<Given>,
) -> Result<Response, PageError> {
    // The whole link may have been pasted.
    let code = given.code.rsplit('#').next().unwrap_or_default().trim();
    let (keeper, given_code) = (Arc::clone(&access), code.to_owned());
    let entered = tokio::task::spawn_blocking(move || keeper.enter(&given_code));
    let entered = entered.await.map_err(|error| ApiError::internal(&error))?;
    let Some((token, scope)) = entered.map_err(ApiError::from)? else {
        tracing::warn!("a login to the page was refused: the code is unknown, used or too old");
        let trouble = "This link was used already, has expired, or is from before a restart of the daemon. `cairn ui` prints a new one.";
        return Ok((StatusCode::FORBIDDEN, asking(local(&given.next), Some(trouble))).into_response());
    };
    tracing::info!(scope = scope.name(), "a browser logged in to the page");
    let secure = headers
        .get(ORIGIN)
        .and_then(|origin| origin.to_str().ok())
        .is_some_and(|origin| access.is_proxied(origin));
    let secure = if secure { "; Secure" } else { "" };
    let (name, lasts) = (access.cookie(), SESSION_LASTS.as_secs());
    let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}");
    let leads = [(SET_COOKIE, cookie), (LOCATION, local(&given.next).to_owned())];
    Ok((StatusCode::SEE_OTHER, leads).into_response())
}

/// A path of the page itself, whatever a form says.
pub(super) fn local(next: &str) -> &str {
    let is_path = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if is_path && next != LOGIN { next } else { HOME }
}

/// `POST /logout`.
pub(super) async fn leave(State(access): State<Arc<Access>>, headers: HeaderMap) -> Response {
    if let Some(token) = token(&access, &headers).map(str::to_owned) {
        let keeper = Arc::clone(&access);
        if let Err(error) = tokio::task::spawn_blocking(move || keeper.leave(&token)).await {
            tracing::error!(%error, "logging out of the page panicked");
        }
    }
    let gone = format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", access.cookie());
    (StatusCode::SEE_OTHER, [(SET_COOKIE, gone), (LOCATION, LOGIN.to_owned())]).into_response()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/channels/main%2Flocal%2Fops?before=7", "/channels/main%2Flocal%2Fops?before=7")]
    #[case("//evil.example/", "/")]
    #[case("/\\evil.example/", "/")]
    #[case("https://evil.example/", "/")]
    #[case("/a\r\nSet-Cookie: b=c", "/")]
    #[case("/login", "/")]
    #[case("", "/")]
    fn a_login_leads_to_the_page_alone(#[case] next: &str, #[case] leads: &str) {
        assert_eq!(local(next), leads);
    }
}
