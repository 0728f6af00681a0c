//! Requests that a node which follows passes on to the one that leads.

use cairn_store::{Part, Request, Standby, Store, Taken, Unanswered};
use cairn_testkit::postgres::{database, sql};
use cairn_testkit::watched::GIVE_UP_AFTER;
use tempfile::{TempDir, tempdir};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::common::{leader, options, say};

type Parts = Receiver<Result<Part, Unanswered>>;

/// A leader, and a standby with its copy.
struct Two {
    leader: Store,
    standby: Standby,
    copy: Store,
    _dirs: [TempDir; 2],
}

async fn two(url: &str) -> Two {
    let (a, leader) = leader(url, "a");
    let b = tempdir().unwrap();
    let mut standby = Store::stand_by(options(b.path(), url, "b")).unwrap();
    let copy = timeout(GIVE_UP_AFTER, standby.opened()).await.unwrap().unwrap();
    Two { leader, standby, copy, _dirs: [a, b] }
}

fn request(head: &str) -> Request {
    Request { head: head.to_owned(), body: vec![0, 159, 10] }
}

fn part(bytes: &[u8], last_n: Option<u64>) -> Part {
    Part { bytes: bytes.to_owned(), last_n }
}

async fn next(parts: &mut Parts) -> Option<Result<Part, Unanswered>> {
    timeout(GIVE_UP_AFTER, parts.recv()).await.unwrap()
}

async fn taken(requests: &mut Receiver<Taken>) -> Taken {
    timeout(GIVE_UP_AFTER, requests.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_request_comes_to_the_leader_once_and_its_answer_back_in_order() {
    let Some(url) = database() else { return };
    let two = two(&url).await;
    let mut requests = two.leader.requests().unwrap();
    assert!(two.copy.requests().is_none(), "it does not lead");
    let (mut first, mut second) =
        (two.copy.pass_on(request("1")).unwrap(), two.copy.pass_on(request("2")).unwrap());
    let mut got = [taken(&mut requests).await, taken(&mut requests).await];
    got.sort_by(|a, b| a.request.head.cmp(&b.request.head));
    let [mut one, mut other] = got;
    assert_eq!((one.node.as_str(), &one.request, &other.request), ("b", &request("1"), &request("2")));
    // More than may wait unread, each as large as it is.
    let sent = async {
        for n in 0..40_u8 {
            assert!(one.reply.send(part(&vec![n; 10_000], None)).await.unwrap());
        }
        assert!(one.reply.send(part(b"end", Some(7))).await.unwrap());
        drop(one);
    };
    let read = async {
        for n in 0..40_u8 {
            assert_eq!(next(&mut first).await, Some(Ok(part(&vec![n; 10_000], None))));
        }
        assert_eq!(next(&mut first).await, Some(Ok(part(b"end", Some(7)))));
        assert_eq!(next(&mut first).await, None);
    };
    tokio::join!(sent, read);
    assert!(other.reply.send(part(b"", Some(0))).await.unwrap());
    assert_eq!(next(&mut second).await, Some(Ok(part(b"", Some(0)))));
    assert_eq!(next(&mut second).await, None);
    assert!(requests.is_empty(), "nothing comes twice");
    two.leader.close().await;
    two.standby.close().await;
}

#[tokio::test]
async fn each_side_notices_when_the_other_hangs_up_or_fails() {
    let Some(url) = database() else { return };
    let two = two(&url).await;
    let mut requests = two.leader.requests().unwrap();
    let asked = two.copy.pass_on(request("hangs up")).unwrap();
    let mut got = taken(&mut requests).await;
    drop(asked);
    let noticed = async { while got.reply.send(part(b"more", None)).await.unwrap() {} };
    timeout(GIVE_UP_AFTER, noticed).await.unwrap();

    let mut asked = two.copy.pass_on(request("fails")).unwrap();
    let mut got = taken(&mut requests).await;
    assert!(got.reply.send(part(b"started", None)).await.unwrap());
    assert_eq!(next(&mut asked).await, Some(Ok(part(b"started", None))));
    drop(got);
    assert!(matches!(next(&mut asked).await, Some(Err(Unanswered::Lost(_)))));
    assert_eq!(next(&mut asked).await, None);

    // The leader ends behind its back.
    let mut asked = two.copy.pass_on(request("ends")).unwrap();
    let got = taken(&mut requests).await;
    sql(&url, "UPDATE cairn_journal SET lease = gen_random_uuid()");
    let lost = next(&mut asked).await;
    assert!(matches!(&lost, Some(Err(Unanswered::Lost(why))) if why.contains("does not lead")), "{lost:?}");
    drop(got);
    assert!(say(&two.leader, "late").await.is_err());
    assert!(timeout(GIVE_UP_AFTER, requests.recv()).await.unwrap().is_none(), "it takes no more");
    two.leader.close().await;
    two.standby.close().await;
}

#[tokio::test]
async fn what_nobody_takes_is_taken_back_and_was_not_done() {
    let Some(url) = database() else { return };
    let two = two(&url).await;
    // It leads, and takes none.
    let mut asked = two.copy.pass_on(request("waits")).unwrap();
    let why = next(&mut asked).await;
    assert!(matches!(why, Some(Err(Unanswered::NotStarted(_)))), "{why:?}");
    let mut requests = two.leader.requests().unwrap();
    let mut asked = two.copy.pass_on(request("goes on")).unwrap();
    assert_eq!(taken(&mut requests).await.request, request("goes on"));
    assert!(next(&mut asked).await.unwrap().is_err(), "it was dropped");
    two.leader.close().await;
    two.standby.close().await;
}
