//! `fetch` over real sockets on loopback: there 127.0.0.1 plays the public internet, and all else is private.

mod bounds;
mod hops;
mod pages;
mod site;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use cairn_types::ids::AgentId;
use futures::FutureExt as _;
use parking_lot::Mutex;

use super::*;
use site::Site;

const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PRIVATE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Names and their addresses; each lookup takes the next answer, the last one stays.
#[derive(Default)]
struct Names {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Vec<String>,
}

/// A network in which names have these addresses. What was looked up is kept.
fn net(names: &[(&str, &[&[IpAddr]])]) -> (Net, Arc<Mutex<Names>>) {
    let answers = names.iter().map(|(name, answers)| {
        ((*name).to_owned(), answers.iter().rev().map(|addresses| addresses.to_vec()).collect())
    });
    let names = Arc::new(Mutex::new(Names { answers: answers.collect(), asked: Vec::new() }));
    let known = names.clone();
    let lookup = move |name: String| {
        let mut known = known.lock();
        known.asked.push(name.clone());
        let found = match known.answers.get_mut(&name) {
            Some(answers) if answers.len() > 1 => answers.pop(),
            Some(answers) => answers.last().cloned(),
            None => None,
        };
        std::future::ready(found.ok_or_else(|| std::io::Error::other("no such name"))).boxed()
    };
    (Net { lookup: Arc::new(lookup), is_public: |address| address == PUBLIC }, names)
}

/// Every name below `example` is public.
fn public() -> Net {
    net(&[("pub.example", &[&[PUBLIC]]), ("other.example", &[&[PUBLIC]]), ("lan.example", &[&[PRIVATE]])]).0
}

fn settings(site: &Site) -> FetchSettings {
    FetchSettings { hosts: vec!["*".to_owned(), format!("*:{}", site.port)], ..FetchSettings::default() }
}

fn channel() -> ChannelId {
    ChannelId::local(&AgentId::new("main"), "c").unwrap()
}

async fn call(fetch: &Fetch, arguments: Value) -> Result<String, String> {
    fetch.call(channel(), arguments).await.map(|output| output.words()).map_err(|failure| failure.message)
}

/// Fetches `path` from the site, by the name `pub.example`.
async fn got(site: &Site, path: &str) -> Result<String, String> {
    let fetch = Fetch::over(public(), settings(site)).unwrap();
    call(&fetch, json!({ "url": site.url("pub.example", path) })).await
}

#[tokio::test]
async fn a_page_comes_with_where_it_is_from_and_what_it_is() {
    let site = Site::start().await;
    site.serve(
        "/a",
        "200 OK",
        "Content-Type: text/html; charset=utf-8",
        "<h1>Ferries</h1><p>At ten &amp; eleven",
    );
    let text = got(&site, "/a?q=1#part").await.unwrap();
    let url = site.url("pub.example", "/a?q=1#part");
    assert_eq!(
        text,
        format!("{url}\nstatus: 200 OK\ncontent type: text/html\n\n# Ferries\n\nAt ten & eleven")
    );
    let request = site.seen().pop().unwrap().to_lowercase();
    assert!(request.starts_with("get /a?q=1 http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: pub.example:{}\r\n", site.port)), "{request}");
    assert!(request.contains("\r\naccept-encoding: identity\r\n"), "{request}");
    assert!(request.contains("\r\nuser-agent: cairn/"), "{request}");
    for header in ["cookie", "referer", "authorization", "proxy"] {
        assert!(!request.contains(header), "{request}");
    }
}

#[tokio::test]
async fn an_answer_of_failure_is_an_answer() {
    let site = Site::start().await;
    site.serve("/gone", "404 Not Found", "Content-Type: application/json", "{\"error\": \"gone\"}");
    let text = got(&site, "/gone").await.unwrap();
    assert!(text.contains("\nstatus: 404 Not Found\ncontent type: application/json\n\n{\"error\""), "{text}");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_said_so() {
    let site = Site::start().await;
    let fetch = Fetch::over(public(), settings(&site)).unwrap();
    let error = call(&fetch, json!({ "url": site.url("none.example", "/") })).await.unwrap_err();
    assert!(error.contains("there is no host `none.example`"), "{error}");
    let url = site.url("pub.example", "/?token=secret");
    drop(site);
    let error = call(&fetch, json!({ "url": url })).await.unwrap_err();
    assert!(error.contains("`pub.example` could not be read: ") && !error.contains("secret"), "{error}");
}

#[tokio::test]
async fn what_is_no_http_is_an_error() {
    let site = Site::start().await;
    site.serve_raw("/", b"220 mail.example ESMTP\r\n".to_vec());
    let error = got(&site, "/").await.unwrap_err();
    assert!(error.contains("could not be read"), "{error}");
}

#[test]
fn the_model_is_told_what_may_be_fetched_and_the_operator_what_is_no_host() {
    let hosts = vec!["docs.rs".to_owned(), "*.rust-lang.org".to_owned()];
    let fetch = Fetch::new(FetchSettings { hosts, ..FetchSettings::default() }).unwrap();
    let def = fetch.def();
    assert!(def.description.ends_with(": docs.rs, *.rust-lang.org."), "{}", def.description);
    assert_eq!(crate::schema::sound(&def.parameters), Ok(()));
    assert_eq!(fetch.effect(), Effect::Reads);
    assert!(fetch.time_limit().unwrap() > fetch.settings.timeout, "its own words come first");

    let hosts = vec!["https://docs.rs/".to_owned()];
    let error = Fetch::new(FetchSettings { hosts, ..FetchSettings::default() }).err().unwrap();
    assert_eq!(error, BadFetch::Host(BadHost("https://docs.rs/".to_owned())));
    let user_agent = "two\nlines".to_owned();
    Fetch::new(FetchSettings { user_agent, ..FetchSettings::default() }).err().unwrap();
}

#[tokio::test]
async fn arguments_that_are_none_are_refused() {
    let fetch = Fetch::new(FetchSettings::default()).unwrap();
    assert_eq!(call(&fetch, json!({})).await.unwrap_err(), "`url` is missing");
    let error = call(&fetch, json!({ "url": "https://docs.rs/" })).await.unwrap_err();
    assert!(error.ends_with("not among the hosts that may be fetched: none"), "{error}");
}
