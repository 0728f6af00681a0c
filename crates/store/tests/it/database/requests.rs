//! Requests that a node which follows passes on to the one that leads.

use std::time::Duration;

use cairn_store::{Part, Request, Standby, Store, Taken, Unanswered};
use cairn_testkit::postgres::{Postgres, database, sql};
use cairn_testkit::proxy::{Cut, Proxy};
use cairn_testkit::watched::GIVE_UP_AFTER;
use tempfile::{TempDir, tempdir};
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::timeout;

use super::common::{leader, options, say, until};

type Parts = Receiver<Result<Part, Unanswered>>;

/// A leader, and a standby with its copy.
struct Two {
    leader: Store,
    standby: Standby,
    copy: Store,
    /// True: the standby does not stand by any more.
    ending: watch::Sender<bool>,
    _dirs: [TempDir; 2],
}

async fn two(url: &str) -> Two {
    two_by(url, url).await
}

/// The standby reaches the database by a url of its own.
async fn two_by(url: &str, of_standby: &str) -> Two {
    let (a, leader) = leader(url, "a");
    let b = tempdir().unwrap();
    let mut standby = Store::stand_by(options(b.path(), of_standby, "b")).unwrap();
    let copy = timeout(GIVE_UP_AFTER, standby.opened()).await.unwrap().unwrap();
    Two { leader, standby, copy, ending: watch::Sender::new(false), _dirs: [a, b] }
}

impl Two {
    /// Has the standby pass a request on.
    fn ask(&self, head: &str) -> Parts {
        self.copy.pass_on(request(head), self.ending.subscribe()).unwrap()
    }
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
    let (mut first, mut second) = (two.ask("1"), two.ask("2"));
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
    let asked = two.ask("hangs up");
    let mut got = taken(&mut requests).await;
    drop(asked);
    let noticed = async { while got.reply.send(part(b"more", None)).await.unwrap() {} };
    timeout(GIVE_UP_AFTER, noticed).await.unwrap();

    let mut asked = two.ask("fails");
    let mut got = taken(&mut requests).await;
    assert!(got.reply.send(part(b"started", None)).await.unwrap());
    assert_eq!(next(&mut asked).await, Some(Ok(part(b"started", None))));
    drop(got);
    assert!(matches!(next(&mut asked).await, Some(Err(Unanswered::Lost(_)))));
    assert_eq!(next(&mut asked).await, None);

    // The leader ends behind its back.
    let mut asked = two.ask("ends");
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
    let mut asked = two.ask("waits");
    let why = next(&mut asked).await;
    assert_eq!(why, Some(Err(Unanswered::NotTaken)));
    let mut requests = two.leader.requests().unwrap();
    let mut asked = two.ask("goes on");
    assert_eq!(taken(&mut requests).await.request, request("goes on"));
    assert!(next(&mut asked).await.unwrap().is_err(), "it was dropped");
    two.leader.close().await;
    two.standby.close().await;
}

#[tokio::test]
async fn a_request_whose_connection_breaks_comes_to_the_leader_once() {
    for what in [Cut::Request, Cut::Answer] {
        let Some(url) = database() else { return };
        let (proxy, by_way) = Proxy::to(&url);
        let two = two_by(&url, &by_way).await;
        let mut requests = two.leader.requests().unwrap();
        proxy.cut(what, "cut here");
        let mut asked = two.ask("cut here");
        let mut got = taken(&mut requests).await;
        assert!(got.reply.send(part(b"done", Some(0))).await.unwrap());
        assert_eq!(next(&mut asked).await, Some(Ok(part(b"done", Some(0)))));
        assert_eq!(proxy.cuts(), 1);
        assert!(requests.is_empty(), "nothing comes twice");
        two.leader.close().await;
        two.standby.close().await;
    }
}

#[tokio::test]
async fn a_node_that_does_not_stand_by_any_more_says_what_is_known_of_each_request() {
    let Some(url) = database() else { return };
    let two = two(&url).await;
    let mut requests = two.leader.requests().unwrap();
    let mut started = two.ask("starts");
    let mut got = taken(&mut requests).await;
    assert!(got.reply.send(part(b"begun", None)).await.unwrap());
    assert_eq!(next(&mut started).await, Some(Ok(part(b"begun", None))));
    // Nobody takes it.
    drop(requests);
    let mut waits = two.ask("waits");
    two.ending.send_replace(true);
    assert_eq!(next(&mut waits).await, Some(Err(Unanswered::NotTaken)));
    let lost = next(&mut started).await;
    assert!(matches!(&lost, Some(Err(Unanswered::Lost(why))) if why.contains("stand by")), "{lost:?}");
    assert_eq!(next(&mut started).await, None);
    assert_eq!(sql(&url, "SELECT count(*) FROM cairn_request"), "0");
    drop(got);
    two.leader.close().await;
    two.standby.close().await;
}

#[tokio::test]
async fn an_answer_comes_over_a_restart_of_the_database() {
    let Some(server) = Postgres::start(false) else { return };
    let url = server.database();
    // A restart in order keeps what is in them; the one of the tests is a crash.
    let two = two(&url).await;
    sql(&url, "ALTER TABLE cairn_request SET LOGGED; ALTER TABLE cairn_answer SET LOGGED");
    let mut requests = two.leader.requests().unwrap();
    let mut asked = two.ask("goes on");
    let mut got = taken(&mut requests).await;
    assert!(got.reply.send(part(b"begun", None)).await.unwrap());
    assert_eq!(next(&mut asked).await, Some(Ok(part(b"begun", None))));
    server.crash();
    let sent = tokio::spawn(async move {
        let more = got.reply.send(part(b"more", None)).await;
        (more, got.reply.send(part(b"end", Some(7))).await)
    });
    // Both sides fail meanwhile.
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.start_again();
    assert_eq!(next(&mut asked).await, Some(Ok(part(b"more", None))));
    assert_eq!(next(&mut asked).await, Some(Ok(part(b"end", Some(7)))));
    assert_eq!(sent.await.unwrap(), (Ok(true), Ok(true)));
    two.leader.close().await;
    two.standby.close().await;
}

#[tokio::test]
async fn without_its_database_a_node_knows_what_it_has_not_sent() {
    let Some(server) = Postgres::start(false) else { return };
    let two = two(&server.database()).await;
    let mut requests = two.leader.requests().unwrap();
    let mut started = two.ask("starts");
    let got = taken(&mut requests).await;
    server.crash();
    until(&two.standby, |status| status.error.is_some()).await;
    let refused = next(&mut two.ask("comes too late")).await;
    assert!(matches!(&refused, Some(Err(Unanswered::NotStarted(_)))), "{refused:?}");
    // The other one may be done, and in the end nobody waits for it.
    let lost = next(&mut started).await;
    assert!(matches!(&lost, Some(Err(Unanswered::Lost(_)))), "{lost:?}");
    drop(got);
    server.start_again();
    two.leader.close().await;
    two.standby.close().await;
}
