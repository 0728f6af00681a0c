//! What a fetch takes in: so many bytes, of text, in time.

use rstest::rstest;

use super::site::{Act, answer};
use super::*;

const PLAIN: &str = "Content-Type: text/plain";

/// Fetches `/` with other settings and arguments.
async fn with(site: &Site, settings: FetchSettings, max_bytes: Option<u64>) -> Result<String, String> {
    let fetch = Fetch::over(public(), settings).unwrap();
    let mut arguments = json!({ "url": site.url("pub.example", "/") });
    if let Some(max_bytes) = max_bytes {
        arguments["max_bytes"] = max_bytes.into();
    }
    call(&fetch, arguments).await
}

#[rstest]
#[case::exactly(1_000, None, None)]
#[case::one_too_many(1_001, None, Some(1_000))]
#[case::asked_for_less(1_000, Some(10), Some(10))]
#[case::asked_for_more(5_000, Some(5_000), Some(1_000))]
#[case::asked_for_all_there_is(10, Some(u64::MAX), None)]
#[tokio::test]
async fn a_long_body_is_cut_and_said_to_be(
    #[case] bytes: usize,
    #[case] asked: Option<u64>,
    #[case] cut: Option<usize>,
) {
    let site = Site::start().await;
    site.serve("/", "200 OK", PLAIN, "x".repeat(bytes));
    let text = with(&site, FetchSettings { max_bytes: 1_000, ..settings(&site) }, asked).await.unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    assert_eq!(body.len(), cut.unwrap_or(bytes));
    match cut {
        Some(cut) => {
            assert!(head.ends_with(&format!("note: it is cut after {cut} bytes; there is more of it")))
        }
        None => assert!(!head.contains("note:"), "{head}"),
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut() {
    let site = Site::start().await;
    let head = format!("HTTP/1.1 200 OK\r\n{PLAIN}\r\n\r\n").into_bytes();
    site.act("/", Act::Flood(head, vec![b'x'; 10_000]));
    let text = with(&site, FetchSettings { max_bytes: 50_000, ..settings(&site) }, None).await.unwrap();
    assert!(text.contains("cut after 50000 bytes") && text.len() < 50_500, "{} bytes", text.len());
}

#[tokio::test]
async fn headers_without_end_are_an_error() {
    let site = Site::start().await;
    site.act("/", Act::Flood(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-More: and more\r\n".repeat(1_000)));
    let error = with(&site, settings(&site), None).await.unwrap_err();
    assert!(error.contains("could not be read"), "{error}");
}

#[rstest]
#[case::before_the_answer(Vec::new())]
#[case::within_the_headers(b"HTTP/1.1 200 OK\r\n".to_vec())]
#[case::within_the_body(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun".to_vec())]
#[tokio::test]
async fn a_server_that_hangs_is_given_up(#[case] bytes: Vec<u8>) {
    let site = Site::start().await;
    site.act("/", Act::Hang(bytes));
    let timeout = Duration::from_millis(500);
    let error = with(&site, FetchSettings { timeout, ..settings(&site) }, None).await.unwrap_err();
    assert!(error.contains("it took longer than") || error.contains("it took too long"), "{error}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    let site = Site::start().await;
    site.serve_raw("/", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun".to_vec());
    let error = with(&site, settings(&site), None).await.unwrap_err();
    assert!(error.contains("`pub.example` could not be read"), "{error}");
}

#[rstest]
#[case("gzip")]
#[case("br")]
#[case("deflate, gzip")]
#[tokio::test]
async fn what_comes_compressed_is_not_blown_up(#[case] coding: &str) {
    let site = Site::start().await;
    site.serve("/", "200 OK", &format!("{PLAIN}\r\nContent-Encoding: {coding}"), [0x1f, 0x8b, 8, 0]);
    let error = with(&site, settings(&site), None).await.unwrap_err();
    assert!(error.contains("answers compressed"), "{error}");
}

#[rstest]
#[case::a_picture("Content-Type: image/png", b"\x89PNG".as_slice(), Err("content type is `image/png`"))]
#[case::anything("Content-Type: application/octet-stream", b"text", Err("`application/octet-stream`"))]
#[case::unsaid_and_binary("X: y", b"\x7fELF\0\0", Err("zero bytes"))]
#[case::said_to_be_text(PLAIN, b"PK\x03\x04\0", Err("zero bytes"))]
#[case::unsaid("X: y", b"words", Ok("content type: not said\n\nwords"))]
#[case::feed("Content-Type: application/atom+xml", b"<feed/>", Ok("application/atom+xml\n\n<feed/>"))]
#[case::latin("Content-Type: text/plain; charset=latin1", b"gr\xfcn", Ok("\n\ngr\u{fc}n"))]
#[case::identity("Content-Type: text/plain\r\nContent-Encoding: identity", b"words", Ok("\n\nwords"))]
#[tokio::test]
async fn only_text_is_taken(
    #[case] headers: &str,
    #[case] body: &[u8],
    #[case] expected: Result<&str, &str>,
) {
    let site = Site::start().await;
    site.serve_raw("/", answer("200 OK", headers, body));
    match (with(&site, settings(&site), None).await, expected) {
        (Ok(text), Ok(words)) => assert!(text.ends_with(words), "{text}"),
        (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
        (result, _) => panic!("{result:?}"),
    }
}
