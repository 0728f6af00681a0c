//! What is read of attachments, and where a download stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use futures::stream;
use reqwest::Url;
use rstest::rstest;

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn file<'a>(name: &'a str, media_type: Option<&'a str>, size: Option<u64>) -> Attachment<'a> {
    Attachment { name, media_type, size }
}

#[rstest]
#[case("a.png", Some("image/png"), Kind::Image)]
#[case("a", Some("IMAGE/JPEG; q=1"), Kind::Image)]
#[case("a.webp", None, Kind::Image)]
#[case("a.gif", Some("application/octet-stream"), Kind::Image)]
#[case("a.png", Some("application/pdf"), Kind::Document)]
#[case("a.PDF", Some("application/octet-stream"), Kind::Document)]
#[case("a.docx", None, Kind::Document)]
#[case("a.doc", Some("application/msword"), Kind::Other)]
#[case("a.svg", Some("image/svg+xml"), Kind::Text)]
#[case("a.heic", Some("image/heic"), Kind::Other)]
#[case("a.txt", Some("text/plain; charset=utf-8"), Kind::Text)]
#[case("a", Some("application/json"), Kind::Text)]
#[case("a", Some("application/ld+json"), Kind::Text)]
#[case("main.rs", None, Kind::Text)]
#[case("main.ts", Some("video/mp2t"), Kind::Text)]
#[case("Makefile", None, Kind::Text)]
#[case("a.zip", Some("application/zip"), Kind::Other)]
#[case("a", None, Kind::Other)]
fn a_kind_is_told_by_type_and_ending(
    #[case] name: &str,
    #[case] media_type: Option<&str>,
    #[case] kind: Kind,
) {
    assert_eq!(file(name, media_type, None).kind(), kind);
}

#[rstest]
#[case::small_text("a.txt", Some(10), Ok(64 * 1024))]
#[case::unknown_size("a.txt", None, Ok(64 * 1024))]
#[case::long_text("a.txt", Some(64 * 1024 + 1), Err(Unread::TooLarge))]
#[case::picture("a.png", Some(4 * 1024 * 1024), Ok(4 * 1024 * 1024))]
#[case::large_picture("a.png", Some(100_000_000), Err(Unread::TooLarge))]
#[case::document("a.pdf", Some(100_000), Ok(4 * 1024 * 1024))]
#[case::large_document("a.pdf", Some(5_000_000), Err(Unread::TooLarge))]
#[case::anything("a.zip", Some(1), Err(Unread::Kind))]
fn only_what_is_wanted_is_fetched(
    #[case] name: &str,
    #[case] size: Option<u64>,
    #[case] wanted: Result<usize, Unread>,
) {
    assert_eq!(file(name, None, size).wanted(&AttachLimits::default()), wanted);
}

#[test]
fn no_picture_is_fetched_for_a_model_that_takes_none() {
    let limits = AttachLimits { images: false, ..AttachLimits::default() };
    assert_eq!(file("a.png", None, None).wanted(&limits), Err(Unread::Kind));
}

#[rstest]
#[case::text("a.txt", Ok(b"hi".to_vec()), "a.txt", Some("hi"))]
#[case::byte_order_mark("a.txt", Ok(b"\xef\xbb\xbfhi".to_vec()), "a.txt", Some("hi"))]
#[case::utf_16("a.txt", Ok(b"\xff\xfeh\0i\0".to_vec()), "a.txt (6 bytes)", None)]
#[case::with_a_zero("a.txt", Ok(b"h\0i".to_vec()), "a.txt (3 bytes)", None)]
#[case::no_picture("a.png", Ok(b"<html>".to_vec()), "a.png (6 bytes)", None)]
#[case::too_large("a.zip", Err(Unread::TooLarge), "a.zip (100 MB, too large to be read)", None)]
#[case::not_fetched("a.txt", Err(Unread::Unavailable), "a.txt (100 MB, could not be fetched)", None)]
#[case::a_name_that_lies("gpj.\u{202e}exe\n.zip", Err(Unread::Kind), "gpj.exe .zip (100 MB)", None)]
fn a_file_becomes_a_part(
    #[case] name: &str,
    #[case] fetched: Result<Vec<u8>, Unread>,
    #[case] shown: &str,
    #[case] text: Option<&str>,
) {
    let part = file(name, None, Some(100_000_000)).part(fetched);
    let expected = Part::File { name: shown.to_owned(), media_type: None, text: text.map(str::to_owned) };
    assert_eq!(part, expected);
}

#[test]
fn a_picture_has_the_type_that_its_bytes_have() {
    let part = file("a.jpg", Some("image/jpeg"), None).part(Ok(PNG.to_vec()));
    let data = STANDARD.encode(PNG);
    assert_eq!(
        part,
        Part::Image { name: Some("a.jpg".to_owned()), media_type: "image/png".to_owned(), data }
    );
}

#[test]
fn a_long_name_keeps_its_ending() {
    let long = format!("{}.tar.gz", "a".repeat(300));
    let Part::File { name, .. } = file(&long, None, None).part(Err(Unread::Kind)) else {
        panic!("is a file")
    };
    assert!(name.len() < 80 && name.ends_with("….gz"), "{name}");
}

/// A server of files; counts the pieces of the endless one that it gave.
async fn serve() -> (Url, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    let count = given.clone();
    let endless = move || {
        let count = count.clone();
        async move {
            let pieces = stream::repeat_with(move || {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(vec![b'a'; 64 * 1024])
            });
            Response::new(Body::from_stream(pieces))
        }
    };
    let moved = || async {
        (StatusCode::FOUND, HeaderMap::from_iter([(header::LOCATION, "/small".parse().expect("is a value"))]))
    };
    let app = Router::new()
        .route("/small", get(|| async { "hello" }))
        .route("/endless", get(endless))
        .route("/moved", get(moved))
        .route("/never", get(std::future::pending::<&str>))
        .route("/secret-token", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url =
        format!("http://{}/", listener.local_addr().expect("has an address")).parse().expect("is a url");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, given)
}

async fn fetch(path: &str, most: usize) -> (Result<Vec<u8>, DownloadError>, usize) {
    let (url, given) = serve().await;
    let downloads =
        Downloads::new(vec![url.clone()], true).expect("has a client").within(Duration::from_millis(500));
    let fetched = downloads.fetch(url.join(path).expect("is a url").as_str(), most).await;
    (fetched, given.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_file_is_fetched() {
    assert_eq!(fetch("small", 5).await.0, Ok(b"hello".to_vec()));
    assert_eq!(fetch("small", 4).await.0, Err(DownloadError::TooLong(4)));
}

#[tokio::test]
async fn an_endless_file_is_not_read_beyond_the_limit() {
    let (fetched, pieces) = fetch("endless", 100_000).await;
    assert_eq!(fetched, Err(DownloadError::TooLong(100_000)));
    // What the sockets between hold comes on top.
    assert!(pieces < 400, "{pieces} pieces of 64 KiB");
}

#[tokio::test]
async fn failures_are_typed_and_name_no_address() {
    assert_eq!(fetch("moved", 10).await.0, Err(DownloadError::Status(302)));
    let broken = fetch("secret-token", 10).await.0.expect_err("is broken");
    assert_eq!(broken, DownloadError::Status(500));
    let slow = fetch("never", 10).await.0.expect_err("never comes");
    assert_eq!(slow, DownloadError::Transport("it took too long".to_owned()));
}

#[rstest]
#[case("https://cdn.example/a", true)]
#[case("https://cdn.example:443/a?b", true)]
#[case("http://cdn.example/a", false)]
#[case("https://cdn.example.evil/a", false)]
#[case("https://cdn.example@evil/a", false)]
#[case("https://user@cdn.example/a", false)]
#[case("https://127.0.0.1/a", false)]
#[case("file:///etc/passwd", false)]
#[case("nonsense", false)]
#[tokio::test]
async fn nothing_is_fetched_from_elsewhere(#[case] address: &str, #[case] allowed: bool) {
    let host = "https://cdn.example".parse().expect("is a url");
    let downloads = Downloads::new(vec![host], true).expect("has a client").within(Duration::from_millis(1));
    let error = downloads.fetch(address, 10).await.expect_err("there is no such host");
    assert_eq!(error != DownloadError::Foreign, allowed, "{error}");
}
