//! Who gets to see the page, and what it lets browsers do.

use cairn_testkit::free_address;
use rstest::rstest;

use super::rig::Site;
use crate::home;

#[tokio::test(flavor = "multi_thread")]
async fn a_link_logs_one_browser_in_once_until_it_logs_out() {
    let site = Site::start("").await;
    let link = site.link(&[]);
    let (url, code) = (link["url"].as_str().unwrap(), link["code"].as_str().unwrap());
    assert_eq!(url, format!("{}/login#{code}", site.origin()), "the code is in the fragment");
    let form = site.ask("GET /login", &[], "").await.is(200);
    assert!(form.body.contains("<form id=\"login\" method=\"post\""), "{}", form.body);

    let entered = site.post("/login", "", &format!("code={code}&next=/channels")).await.is(303);
    assert_eq!(entered.header("location"), Some("/channels"));
    let set = entered.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("; Secure"), "this is no TLS: {set}");
    let cookie = entered.cookie().unwrap();
    assert!(!cookie.contains(code), "the code is no token");
    assert!(site.view("/", &cookie).await.is(200).body.contains("<h1>Status</h1>"));

    let again = site.post("/login", "", &format!("code={code}")).await.is(403);
    assert!(again.body.contains("was used already") && again.cookie().is_none(), "{}", again.body);
    let left = site.post("/logout", &cookie, "").await.is(303);
    assert!(left.header("set-cookie").unwrap().contains("Max-Age=0"));
    site.view("/", &cookie).await.is(401);
    assert!(!site.home.log().contains(code), "the log tells the code");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_survives_a_restart_and_a_logout_does_too() {
    let site = Site::start("").await;
    let (stays, leaves) = (site.login(&["--read-only"]).await, site.login(&[]).await);
    site.post("/logout", &leaves, "").await.is(303);
    let Site { home, daemon, address } = site;
    assert!(daemon.stop().await.unwrap().success());
    let config = home.path("config.toml");
    let site = Site { daemon: home.daemon(Some(&config)).await, home, address };
    assert!(site.view("/", &stays).await.is(200).body.contains("Read-only"));
    site.view("/", &leaves).await.is(401);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_link_may_be_pasted_and_leads_to_what_was_wanted() {
    let site = Site::start("").await;
    let asked = site.ask("GET /channels?after=a", &[], "").await.is(401);
    assert!(asked.body.contains("name=\"next\" value=\"/channels?after=a\""), "{}", asked.body);
    let pasted = site.link(&[])["url"].as_str().unwrap().replace('#', "%23").replace([':', '/'], "%2F");
    let next = "next=%2Fchannels%3Fafter%3Da";
    let entered = site.post("/login", "", &format!("code={pasted}&{next}")).await.is(303);
    assert_eq!(entered.header("location"), Some("/channels?after=a"));
    for (path, wrong) in [("/", ""), ("/channels", "cairn=x"), ("/channels", "cairn_1=deadbeef")] {
        site.view(path, wrong).await.is(401);
    }
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_looks_only_changes_nothing() {
    let site = Site::start("").await;
    let reader = site.login(&["--read-only"]).await;
    assert!(site.view("/", &reader).await.is(200).body.contains("Read-only"));
    let refused = site.post("/channels", &reader, "").await.is(403);
    assert!(refused.body.contains("read-only access"), "{}", refused.body);
    let operator = site.login(&[]).await;
    assert!(!site.view("/", &operator).await.is(200).body.contains("Read-only"));
    let wrong = site.post("/channels", &operator, "").await.is(405);
    assert!(wrong.body.contains("does not accept such a request"), "{}", wrong.body);
    // All that changes something; a login comes before, and is no visitor's.
    for path in [
        "/memories/forget",
        "/memories/unite",
        "/memories/m1",
        "/approvals/a1",
        "/outbox/o1/retry",
        "/outbox/o1/drop",
        "/reminders",
        "/reminders/main/1/cancel",
        "/store/check",
        "/store/backup",
        "/store/stop",
        "/people/approve",
        "/people/revoke",
        "/people/ban",
        "/people/unban",
        "/people/private",
        "/channels/main/messages",
        "/config/reload",
    ] {
        assert!(site.post(path, &reader, "id=m1").await.is(403).body.contains("read-only access"), "{path}");
        let asked = site.post(path, "", "id=m1").await.is(401);
        assert!(
            asked.body.contains("name=\"next\" value=\"/\""),
            "{path} can only be changed: {}",
            asked.body
        );
        let foreign = [("cookie", operator.as_str()), ("origin", "http://evil.example")];
        site.ask(&format!("POST {path}"), &foreign, "id=m1").await.is(403);
        let known = site.post(path, &operator, "id=m1").await.status;
        assert!(![401, 403, 405].contains(&known), "{path}: {known}");
    }
    site.post("/logout", &reader, "").await.is(303);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_taken_from_the_page_itself_alone() {
    let site = Site::start("").await;
    let cookie = site.login(&[]).await;
    let origin = site.origin();
    let port = site.address.port();
    let neighbour = format!("http://127.0.0.1:{}", port ^ 1);
    let (by_name, by_tls) = (format!("http://localhost:{port}"), format!("https://127.0.0.1:{port}"));
    let own = origin.as_str();
    let foreign: &[&[(&str, &str)]] = &[
        &[],
        &[("origin", "null")],
        &[("origin", "http://evil.example")],
        &[("origin", "http://127.0.0.1")],
        &[("origin", &neighbour)],
        &[("origin", &by_name)],
        &[("origin", &by_tls)],
        &[("origin", own), ("origin", "http://evil.example")],
        &[("origin", own), ("sec-fetch-site", "same-site")],
        &[("origin", own), ("sec-fetch-site", "cross-site")],
        &[("origin", own), ("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-origin")],
    ];
    let code = site.link(&[])["code"].as_str().unwrap().to_owned();
    for headers in foreign {
        let headers = [&[("cookie", cookie.as_str())], *headers].concat();
        let refused = site.ask("POST /logout", &headers, "").await;
        assert_eq!(refused.status, 403, "{headers:?}");
        assert!(refused.body.contains("not sent by a page of this address"), "{}", refused.body);
        let login = site.ask("POST /login", &headers, &format!("code={code}")).await;
        assert_eq!(login.status, 403, "{headers:?}");
    }
    site.view("/", &cookie).await.is(200);
    // Browsers of before 2023 say nothing of the site.
    site.ask("POST /login", &[("origin", own)], &format!("code={code}")).await.is(303);
    site.ask("POST /logout", &[("origin", own), ("cookie", &cookie)], "").await.is(303);
    site.view("/", &cookie).await.is(401);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_exact_names_of_the_address_are_answered() {
    let site = Site::start("hosts = [\"bot.example.net\"]\n").await;
    let port = site.address.port();
    for path in ["/", "/login", "/metrics", "/v1/health", "/files/x", "/nowhere"] {
        for host in ["evil.example", "cairn", "127.0.0.1", "localhost", "192.0.2.7:9464", "[::1]:1", ""] {
            let refused = site.ask_as(host, &format!("GET {path}"), &[], "").await;
            assert_eq!(refused.status, 421, "{host}{path}");
            assert_eq!(refused.header("x-content-type-options"), Some("nosniff"), "{host}{path}");
            let policy = refused.header("content-security-policy").unwrap_or_default();
            assert!(policy.starts_with("default-src 'none'"), "{host}{path}");
        }
    }
    for host in [site.address.to_string(), format!("localhost:{port}"), "bot.example.net".to_owned()] {
        site.ask_as(&host, "GET /login", &[], "").await.is(200);
        site.ask_as(&host, "GET /metrics", &[], "").await.is(200);
    }
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_tells_browsers_what_they_may_do() {
    let site = Site::start("").await;
    let cookie = site.login(&[]).await;
    for path in ["/", "/login", "/channels", "/nowhere", "/files/none", "/metrics", "/channels?after=%00"] {
        let answer = site.view(path, &cookie).await;
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"), "{path}");
        if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html")) {
            for inline in ["style=", "<style", " onclick=", "javascript:", "<script>"] {
                assert!(!answer.body.contains(inline), "{path}: {inline}");
            }
        }
    }
    site.view("/nowhere", &cookie).await.is(404);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_named_by_their_content_and_kept() {
    let site = Site::start("").await;
    let page = site.ask("GET /login", &[], "").await.body;
    let paths: Vec<&str> = page.split('"').filter(|part| part.starts_with("/files/")).collect();
    assert_eq!(paths.len(), 4, "{page}");
    for path in paths {
        let file = site.ask(&format!("GET {path}"), &[], "").await.is(200);
        assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let kind = file.header("content-type").unwrap();
        let known = ["text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"];
        assert!(known.contains(&kind), "{kind}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert!(!file.body.is_empty());
    }
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_known_by_its_origin_and_gets_a_secure_cookie() {
    let site = Site::start("proxy = \"https://cairn.example.net\"\n").await;
    let link = site.link(&[]);
    let code = link["code"].as_str().unwrap();
    assert_eq!(link["url"], format!("https://cairn.example.net/login#{code}"));
    let ask = async |origin: &str| {
        let headers = [("origin", origin), ("sec-fetch-site", "same-origin")];
        site.ask_as("cairn.example.net", "POST /login", &headers, &format!("code={code}")).await
    };
    ask("https://cairn.example.net:8443").await.is(403);
    let entered = ask("https://cairn.example.net").await.is(303);
    assert!(entered.header("set-cookie").unwrap().contains("; Secure"));
    for path in ["/metrics", "/v1/health"] {
        let line = format!("GET {path}");
        let refused = site.ask_as("cairn.example.net", &line, &[], "").await.is(403);
        assert!(refused.body.contains("not served through the proxy"), "{}", refused.body);
        site.ask(&line, &[("x-forwarded-for", "203.0.113.7")], "").await.is(403);
        site.ask(&line, &[], "").await.is(200);
    }
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_a_container_publishes_is_one_more_name_without_tls() {
    let site = Site::start("proxy = \"http://127.0.0.1:18080\"\n").await;
    let link = site.link(&[]);
    let code = link["code"].as_str().unwrap();
    assert_eq!(link["url"], format!("http://127.0.0.1:18080/login#{code}"));
    let ask = async |host: &str, origin: &str| {
        let headers = [("origin", origin), ("sec-fetch-site", "same-origin")];
        site.ask_as(host, "POST /login", &headers, &format!("code={code}")).await
    };
    ask("192.168.1.2:18080", "http://192.168.1.2:18080").await.is(421);
    ask("127.0.0.1:18080", "https://evil.example").await.is(403);
    let entered = ask("127.0.0.1:18080", "http://127.0.0.1:18080").await.is(303);
    assert!(!entered.header("set-cookie").unwrap().contains("; Secure"), "a browser would not send it back");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_page_there_is_none_and_the_command_says_how_to_have_it() {
    let (home, address) = (home(), free_address());
    let config = home.config(&format!("[admin]\nlisten = \"{address}\"\n"));
    home.cairn(&["ui"]).told(1, &["no daemon runs here", "cairn run"]);
    let site = Site { daemon: home.daemon(Some(&config)).await, home, address };
    for path in ["/", "/login", "/channels", "/files/x"] {
        site.ask(&format!("GET {path}"), &[], "").await.is(404);
    }
    site.home.cairn(&["ui"]).told(1, &["the page is off", "page = true"]);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[rstest]
#[case("page = true\nlisten = \"0.0.0.0:9464\"", Some("would show the page to other machines without TLS"))]
#[case("page = true\nlisten = \"192.0.2.7:9464\"", Some("would show the page"))]
#[case("page = true\nlisten = \"127.0.0.1:0\"", Some("a port that stays"))]
#[case("proxy = \"http://cairn.example.net\"", Some("is not the address of a site with TLS"))]
#[case("proxy = \"https://cairn.example.net/page\"", Some("is not the address of a site with TLS"))]
#[case("page = true\nlisten = \"0.0.0.0:9464\"\nproxy = \"https://cairn.example.net\"", None)]
#[case("page = true\nlisten = \"0.0.0.0:9464\"\nproxy = \"http://127.0.0.1:8080\"", None)]
#[case("proxy = \"http://192.168.1.2:9464\"", Some("is not the address of a site with TLS"))]
#[case("proxy = \"http://127.0.0.1:0\"", Some("is not the address of a site with TLS"))]
#[case("page = true\nlisten = \"[::1]:9464\"", None)]
#[case("page = true", None)]
#[case("listen = \"0.0.0.0:9464\"", None)]
fn a_page_that_others_could_reach_without_tls_is_refused(#[case] admin: &str, #[case] why: Option<&str>) {
    let home = home();
    home.config(&format!("[admin]\n{admin}\n"));
    let run = home.cairn(&["config", "check"]);
    match why {
        Some(why) => drop(run.told(2, &[why])),
        None => drop(run.ended(0)),
    }
}
