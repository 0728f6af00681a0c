//! Where a fetch goes: redirects, and names that change their minds.

use rstest::rstest;

use super::*;

#[rstest]
#[case(301)]
#[case(302)]
#[case(303)]
#[case(307)]
#[case(308)]
#[tokio::test]
async fn redirects_are_followed_without_cookies_or_where_they_came_from(#[case] status: u16) {
    let site = Site::start().await;
    site.redirect("/a/b", status, "../c?d=e");
    site.redirect("/c", status, &site.url("other.example", "/end"));
    site.serve("/end", "200 OK", "Content-Type: text/plain", "there");
    let text = got(&site, "/a/b").await.unwrap();
    assert!(text.starts_with(&format!("{}\nstatus: 200 OK\n", site.url("other.example", "/end"))), "{text}");
    let seen = site.seen();
    assert_eq!(seen.len(), 3);
    for request in seen {
        let request = request.to_lowercase();
        assert!(request.starts_with("get ") && !request.contains("cookie") && !request.contains("referer"));
    }
}

#[tokio::test]
async fn redirects_have_an_end() {
    let site = Site::start().await;
    site.redirect("/round", 302, "/round");
    assert_eq!(got(&site, "/round").await.unwrap_err(), "there were more than 5 redirects");
    assert_eq!(site.seen().len(), 6);
    let once = FetchSettings { max_redirects: 0, ..settings(&site) };
    let fetch = Fetch::over(public(), once).unwrap();
    call(&fetch, json!({ "url": site.url("pub.example", "/round") })).await.unwrap_err();
    assert_eq!(site.seen().len(), 7);
}

#[tokio::test]
async fn a_redirect_without_a_place_is_an_answer() {
    let site = Site::start().await;
    site.serve("/a", "302 Found", "Content-Type: text/plain", "nowhere");
    site.serve("/b", "304 Not Modified", "Content-Type: text/plain\r\nLocation: /a", "");
    assert!(got(&site, "/a").await.unwrap().ends_with("\n\nnowhere"));
    assert!(got(&site, "/b").await.unwrap().contains("status: 304"));
}

/// `PORT` stands for the port of both sites, the public and the private one.
#[rstest]
#[case::name("http://lan.example:PORT/", "`lan.example` is not on the public internet")]
#[case::literal("http://127.0.0.2:PORT/", "`127.0.0.2` is not on the public internet")]
#[case::decimal("http://2130706434:PORT/", "`127.0.0.2` is not on the public internet")]
#[case::mapped("http://[::ffff:127.0.0.2]:PORT/", "is not on the public internet")]
#[case::scheme_less("//127.0.0.2:PORT/", "`127.0.0.2` is not on the public internet")]
#[case::localhost("http://localhost:PORT/", "`localhost` is not on the public internet")]
#[case::metadata("http://169.254.169.254/latest/", "`169.254.169.254` is not on the public internet")]
#[case::credentials("http://pub.example@127.0.0.2:PORT/", "a user's name or password")]
#[case::port("http://pub.example:22/", "port 22")]
#[case::file("file:///etc/passwd", "only http and https")]
#[case::nothing("http://", "no address")]
#[tokio::test]
async fn a_redirect_to_what_is_not_fetched_is_not_followed(#[case] to: &str, #[case] words: &str) {
    let site = Site::start().await;
    let private = Site::at(Ipv4Addr::new(127, 0, 0, 2), site.port).await;
    site.redirect("/", 302, &to.replace("PORT", &site.port.to_string()));
    let error = got(&site, "/").await.unwrap_err();
    assert!(error.contains(words), "{error}");
    assert_eq!((site.seen().len(), private.seen().len()), (1, 0));
}

#[tokio::test]
async fn a_redirect_to_a_host_that_is_not_listed_is_not_followed() {
    let site = Site::start().await;
    site.redirect("/", 302, &site.url("other.example", "/"));
    let hosts = vec![format!("pub.example:{}", site.port)];
    let fetch = Fetch::over(public(), FetchSettings { hosts, ..settings(&site) }).unwrap();
    let error = call(&fetch, json!({ "url": site.url("pub.example", "/") })).await.unwrap_err();
    assert!(
        error.contains("it redirects to somewhere that is not fetched: `other.example` is not among"),
        "{error}"
    );
    assert_eq!(site.seen().len(), 1);
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_a_request_and_again_for_the_next() {
    let site = Site::start().await;
    let private = Site::at(Ipv4Addr::new(127, 0, 0, 2), site.port).await;
    site.serve("/", "200 OK", "Content-Type: text/plain", "fine");
    site.redirect("/again", 302, "/");
    // Public at first, private from then on: had the connection asked again, it would have gone there.
    let rebinding: &[(&str, &[&[IpAddr]])] = &[("pub.example", &[&[PUBLIC], &[PRIVATE]])];
    for (path, allowed, n_lookups) in [("/", true, 1), ("/again", false, 2)] {
        let (net, names) = net(rebinding);
        let fetch = Fetch::over(net, settings(&site)).unwrap();
        let result = call(&fetch, json!({ "url": site.url("pub.example", path) })).await;
        assert_eq!(result.is_ok(), allowed, "{path}: {result:?}");
        assert_eq!(names.lock().asked, vec!["pub.example"; n_lookups]);
        // A second fetch finds it private, and goes nowhere.
        let error = call(&fetch, json!({ "url": site.url("pub.example", "/") })).await.unwrap_err();
        assert!(error.contains("is not on the public internet") && !error.contains("127.0.0"), "{error}");
    }
    assert_eq!((site.seen().len(), private.seen().len()), (2, 0));
}

#[rstest]
#[case::private(&[PRIVATE])]
#[case::public_first(&[PUBLIC, PRIVATE])]
#[case::private_first(&[PRIVATE, PUBLIC])]
#[tokio::test]
async fn a_name_with_any_private_address_is_refused(#[case] addresses: &[IpAddr]) {
    let site = Site::start().await;
    let private = Site::at(Ipv4Addr::new(127, 0, 0, 2), site.port).await;
    let fetch = Fetch::over(net(&[("mixed.example", &[addresses])]).0, settings(&site)).unwrap();
    let error = call(&fetch, json!({ "url": site.url("mixed.example", "/") })).await.unwrap_err();
    assert!(error.contains("`mixed.example` is not on the public internet"), "{error}");
    assert_eq!((site.seen().len(), private.seen().len()), (0, 0));
}

#[tokio::test]
async fn what_is_not_listed_is_not_even_looked_up() {
    let (net, names) = net(&[]);
    let hosts = vec!["docs.rs".to_owned()];
    let fetch = Fetch::over(net, FetchSettings { hosts, ..FetchSettings::default() }).unwrap();
    call(&fetch, json!({ "url": "https://secret-words.evil.example/" })).await.unwrap_err();
    assert!(names.lock().asked.is_empty());
}

/// As it is built outside of tests: loopback is private there, by name and by number, whatever the list says.
#[tokio::test]
async fn the_real_one_never_reaches_loopback() {
    let site = Site::start().await;
    let port = site.port;
    let hosts = vec!["*".to_owned(), format!("*:{port}"), format!("127.0.0.1:{port}")];
    let real = Fetch::new(FetchSettings { hosts, ..FetchSettings::default() }).unwrap();
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost", "a.localhost"] {
        let error = call(&real, json!({ "url": site.url(host, "/") })).await.unwrap_err();
        assert!(error.contains("is not on the public internet"), "{host}: {error}");
    }
    // A public name for it, judged by the real list of ranges.
    let named = Net { is_public: Net::system().is_public, ..net(&[("pub.example", &[&[PUBLIC]])]).0 };
    let fetch = Fetch::over(named, settings(&site)).unwrap();
    let error = call(&fetch, json!({ "url": site.url("pub.example", "/") })).await.unwrap_err();
    assert!(error.contains("`pub.example` is not on the public internet"), "{error}");
    assert!(site.seen().is_empty());
}
