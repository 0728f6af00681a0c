//! The accepted host names of the admin address. They protect against DNS rebinding, where a website resolves its own
//! name to this machine.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;

/// The accepted host names of an address.
#[derive(Debug, Clone)]
pub struct Names {
    /// Accepted with any port.
    pub hosts: Vec<String>,
    /// Accepted besides `hosts`, including the port. `None`: any IP address, and any name without a dot.
    pub only: Option<Vec<String>>,
}

/// Refuses requests for other host names.
pub fn only_at(names: Names, router: Router) -> Router {
    let names = Arc::new(names);
    router.layer(from_fn(move |request: Request, next: Next| {
        let refused = refused(request.uri(), request.headers(), &names);
        async move {
            match refused {
                None => next.run(request).await,
                Some(error) => refusal(&error),
            }
        }
    }))
}

fn refusal(name: &str) -> Response {
    tracing::debug!("the admin address was asked under a name that is not in `hosts`");
    ApiError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "wrong_host",
        format!("`{name}` is not a name of this address"),
        "ask by the address itself, or add the name to `hosts` of [admin] and restart",
    )
    .into_response()
}

/// The host name that is not accepted, if any. Requests without a host name do not come from browsers and pass.
fn refused(uri: &Uri, headers: &HeaderMap, names: &Names) -> Option<String> {
    let mut named = headers.get_all(HOST).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let by_uri = uri.authority().map(|authority| authority.as_str().into());
    by_uri.into_iter().chain(named.by_ref()).find(|name| !names.has(name)).map(|name| name.into_owned())
}

impl Names {
    fn has(&self, named: &str) -> bool {
        let Ok(authority) = named.parse::<Authority>() else { return false };
        let name = authority.host().trim_end_matches('.');
        let ours = match &self.only {
            Some(only) => only.iter().any(|ours| ours.eq_ignore_ascii_case(named)),
            None => {
                let bare = name.trim_start_matches('[').trim_end_matches(']');
                // The owner of a domain cannot make a name without a dot resolve to this machine.
                bare.parse::<IpAddr>().is_ok() || (!name.is_empty() && !name.contains('.'))
            }
        };
        ours || self.hosts.iter().any(|host| host.trim_end_matches('.').eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:9464", true)]
    #[case("127.0.0.1", true)]
    #[case("[::1]:9464", true)]
    #[case("192.0.2.7:80", true)]
    #[case("localhost:9464", true)]
    #[case("LOCALHOST", true)]
    #[case("cairn:9464", true)]
    #[case("bot.example.net:9464", true)]
    #[case("BOT.example.net.", true)]
    #[case("evil.example", false)]
    #[case("bot.example.net.evil.example", false)]
    #[case("127.0.0.1.evil.example:9464", false)]
    #[case("localhost.evil.example", false)]
    #[case("", false)]
    #[case(".", false)]
    #[case("a b", false)]
    fn only_names_that_no_stranger_can_have_are_ours(#[case] named: &str, #[case] ours: bool) {
        let names = Names { hosts: vec!["bot.example.net".to_owned()], only: None };
        assert_eq!(names.has(named), ours);
    }

    #[rstest]
    #[case("127.0.0.1:9464", true)]
    #[case("LOCALHOST:9464", true)]
    #[case("bot.example.net:443", true)]
    #[case("127.0.0.1", false)]
    #[case("127.0.0.1:80", false)]
    #[case("localhost:8080", false)]
    #[case("192.0.2.7:9464", false)]
    #[case("cairn:9464", false)]
    #[case("u@127.0.0.1:9464", false)]
    #[case("evil.example:9464", false)]
    #[case("", false)]
    fn of_exact_names_no_other_is_ours(#[case] named: &str, #[case] ours: bool) {
        let only = Some(vec!["127.0.0.1:9464".to_owned(), "localhost:9464".to_owned()]);
        assert_eq!(Names { hosts: vec!["bot.example.net".to_owned()], only }.has(named), ours);
    }

    #[test]
    fn the_name_of_the_url_and_every_header_count() {
        let asked = |uri: &str, names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            names.iter().for_each(|name| {
                headers.append(HOST, axum::http::HeaderValue::from_static(name));
            });
            refused(&uri.parse().unwrap(), &headers, &Names { hosts: Vec::new(), only: None })
        };
        assert_eq!(asked("/metrics", &[]), None);
        assert_eq!(asked("/metrics", &["localhost"]), None);
        assert_eq!(asked("http://evil.example/metrics", &["localhost"]).as_deref(), Some("evil.example"));
        assert_eq!(asked("/metrics", &["localhost", "evil.example"]).as_deref(), Some("evil.example"));
    }
}
