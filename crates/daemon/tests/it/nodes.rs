//! Several daemons with one database: one leads, the others stand by and take over. A real PostgreSQL.

use std::path::Path;
use std::time::Duration;

use cairn_testkit::clock::wall_time;
use cairn_testkit::daemon::{Daemon, PATIENCE};
use cairn_testkit::free_address;
use cairn_testkit::home::Home;
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::postgres::{self, PASSWORD_FILE, Postgres, sql, store_table};
use cairn_testkit::rig::one_model;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::faults::home::files;
use crate::sight::figures::ask;
use crate::{CAIRN, home};

/// A home of a node of that name with that database.
fn node(name: &str, url: &str) -> Home {
    let home = home();
    use_database(&home, name, url);
    home
}

fn use_database(home: &Home, name: &str, url: &str) {
    let (table, password) = store_table(url);
    home.secret(PASSWORD_FILE, &password);
    home.config(&format!("{table}node = \"{name}\"\n"));
}

async fn run(home: &Home) -> Daemon {
    let state = home.state();
    std::fs::create_dir_all(&state).unwrap();
    Daemon::start(Path::new(CAIRN), &state, Some(&home.path("config.toml"))).await.unwrap()
}

/// Waits until a node leads, or follows.
async fn until(daemon: &Daemon, leads: bool) {
    let fits = |status: &Value| status["node"]["leads"] == leads && (!leads || status["state"] == "ready");
    shows(daemon, fits).await;
}

/// Waits until the status of a node fits. Its connections end when it begins to lead or to stand by.
async fn shows(daemon: &Daemon, fits: impl Fn(&Value) -> bool) {
    let search = async {
        while daemon.client().until("/v1/status", &fits).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap();
}

/// What people said, and what they were answered.
fn said(home: &Home) -> Vec<String> {
    let history = home.json(&["history", "main", "--limit", "100"]);
    let text = |entry: &Value| entry["parts"][0]["text"].as_str().map(str::to_owned);
    let of_talk = |entry: &&Value| entry["role"] != "tool" && entry["parts"][0]["text"].is_string();
    history.as_array().unwrap().iter().filter(of_talk).filter_map(text).collect()
}

/// What people see of a state, by `--json`. Scores of a search differ a little where something was forgotten or changed: an
/// index that has seen it counts it until it is compacted.
fn shown(home: &Home) -> Vec<Value> {
    let mut shown: Vec<Value> = [
        &["history", "main"][..],
        &["memory", "list"],
        &["search", "cat"],
        &["context", "main"],
        &["channels"],
        &["spend"],
        &["explain", "main"],
        &["outbox", "list"],
    ]
    .into_iter()
    .map(|args| home.json(args))
    .collect();
    for hit in shown[2].as_array_mut().unwrap() {
        assert!(hit.as_object_mut().unwrap().remove("score").is_some());
    }
    shown
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn one_node_leads_and_the_next_takes_over_when_it_is_killed_or_stopped() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let leader = run(&north).await;
    until(&leader, true).await;
    north.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);

    let follower = run(&south).await;
    until(&follower, false).await;
    assert_eq!(south.status()["node"]["leader"], "north");
    south.cairn(&["node", "drain"]).told(1, &["stands by", "north leads", "ask that one"]);
    follower
        .client()
        .until("/v1/status", |status| status["store"]["applied"] == status["store"]["last"])
        .await
        .unwrap();
    // Whatever only reads is answered there, too, by what was said since.
    let shown_by_follower = shown(&south);
    north.cairn(&["chat", "It is grey."]).ended(0);
    follower
        .client()
        .until("/v1/channels/main/history", |all| all.as_array().unwrap().len() == 6)
        .await
        .unwrap();
    assert_ne!(shown(&south), shown_by_follower);
    assert_eq!(said(&south), said(&north));

    leader.kill().await.unwrap();
    until(&follower, true).await;
    let answer = south.cairn(&["chat", "What is my cat called?"]).ended(0).stdout;
    assert!(answer.contains("Flix"), "{answer}");

    // The one that was killed follows, and leads again when the other one is stopped.
    let back = run(&north).await;
    until(&back, false).await;
    let nodes = south.status()["node"]["nodes"].clone();
    let names: Vec<_> = nodes.as_array().unwrap().iter().map(|row| (&row["name"], &row["leads"])).collect();
    assert_eq!(names, [(&json!("north"), &json!(false)), (&json!("south"), &json!(true))]);
    follower.stop().await.unwrap();
    until(&back, true).await;
    north.cairn(&["chat", "And the dog?"]).ended(0);
    let all = said(&north);
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all[4] == "What is my cat called?" && all[6] == "And the dog?", "{all:?}");
    back.stop().await.unwrap();

    // Each has all of it at hand.
    assert_eq!(said(&south), all);
    assert_eq!(shown(&south), shown(&north));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_reminder_fires_once_though_another_node_leads_when_it_is_due() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let leader = run(&north).await;
    until(&leader, true).await;
    north.cairn(&["chat", "hello"]).ended(0);
    let follower = run(&south).await;
    until(&follower, false).await;
    let soon = Timestamp::from_second(wall_time().as_second() + 15).unwrap().to_string();
    north.cairn(&["reminder", "add", "main", &soon, "feed the cat"]).ended(0);
    leader.kill().await.unwrap();
    until(&follower, true).await;
    let fired = |home: &Home| {
        let history = home.json(&["history", "main"]);
        let is_it = |entry: &&Value| entry["role"] == "user" && entry.to_string().contains("feed the cat");
        history.as_array().unwrap().iter().filter(is_it).count()
    };
    let is_answered = |history: &Value| history.as_array().unwrap().len() == 4;
    follower.client().until("/v1/channels/main/history", is_answered).await.unwrap();
    assert_eq!(fired(&south), 1);

    let back = run(&north).await;
    until(&back, false).await;
    follower.stop().await.unwrap();
    until(&back, true).await;
    north.cairn(&["chat", "and now?"]).ended(0);
    assert_eq!((fired(&north), said(&north).len()), (1, 6));
    assert_eq!(north.json(&["reminder", "list"]), json!([]));
    back.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_standby_reads_and_says_who_leads_to_whoever_asks_for_more() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let address = free_address();
    let config = std::fs::read_to_string(south.path("config.toml")).unwrap();
    south.config(&format!("{config}[admin]\nlisten = \"{address}\"\nhosts = [\"cairn\"]\npage = true\n"));
    let leader = run(&north).await;
    until(&leader, true).await;
    north.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    north.cairn(&["memory", "add", "Ann plays the oboe.", "--kind", "fact", "--scope", "agent"]).ended(0);
    let follower = run(&south).await;
    until(&follower, false).await;
    let copied = |list: &Value| list.as_array().is_some_and(|list| list.len() == 2);
    follower.client().until("/v1/memories?limit=1000", copied).await.unwrap();

    // The machine and folder of the one that leads are named.
    let place = north.state().display().to_string();
    for refused in [
        &["chat", "hello"][..],
        &["memory", "add", "Ben plays the drums.", "--kind", "fact", "--scope", "agent"],
        &["pair", "revoke", "discord/7"],
        &["compact", "main"],
        &["ban", "discord/7"],
        &["forget-user", "local/bob", "--yes"],
        &["store", "backup", "elsewhere"],
        &["ui"],
    ] {
        south.cairn(refused).told(1, &["stands by", "north leads", &place, "ask that one"]);
    }
    for (method, path) in [("POST", "/v1/channels/main/messages"), ("GET", "/v1/events")] {
        let (status, refused) =
            follower.client().ask(method, path, &json!({ "text": "hello" })).await.unwrap();
        assert_eq!((status.as_u16(), &refused["error"]["code"]), (503, &json!("standby")), "{refused}");
    }
    assert_eq!(said(&north).len(), 2, "nothing was done");
    assert_eq!(said(&south), said(&north));
    // The address has neither page nor answers of a leader.
    for closed in ["GET /login", "GET /", "GET /v1/health"] {
        let answer = ask(address, closed).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("north leads"), "{closed}: {answer}");
    }
    assert!(ask(address, "GET /metrics").await.contains("\ncairn_node_leads 0\n"));

    // One that leads in its place serves all of it.
    leader.stop().await.unwrap();
    until(&follower, true).await;
    south.cairn(&["chat", "What is my cat called?"]).ended(0);
    assert!(ask(address, "GET /login").await.starts_with("HTTP/1.1 200"));
    follower.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_that_is_drained_hands_over_and_stands_by() {
    let url = postgres::database();
    let home = home();
    let alone = home.daemon(None).await;
    let (status, refused) = alone.client().ask("POST", "/v1/node/drain", &json!({})).await.unwrap();
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (409, &json!("no_database")), "{refused}");
    alone.stop().await.unwrap();

    let (north, south) = (node("north", &url), node("south", &url));
    let first = run(&north).await;
    until(&first, true).await;
    north.cairn(&["node", "drain"]).told(1, &["there is no standby", "start one"]);
    let address = free_address();
    let config = std::fs::read_to_string(south.path("config.toml")).unwrap();
    south.config(&format!("{config}\n[admin]\nlisten = \"{address}\"\n"));
    let second = run(&south).await;
    until(&second, false).await;
    // The address of its figures is for everybody: it tells nobody what was said, and balancers that another one answers.
    assert!(ask(address, "GET /metrics").await.contains("\ncairn_node_leads 0\n"));
    for closed in ["GET /v1/channels", "GET /v1/channels/main/history", "GET /v1/status", "GET /v1/health"] {
        let answer = ask(address, closed).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("standby"), "{closed}: {answer}");
    }
    let known = |status: &Value| status["node"]["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2);
    first.client().until("/v1/status", known).await.unwrap();

    assert_eq!(north.cairn(&["node", "drain"]).ended(0).stdout, "south leads\n");
    until(&first, false).await;
    until(&second, true).await;
    south.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    // A drain hands over only to a node that was heard of just now.
    let fresh =
        |row: &Value| row["name"] == "north" && row["silent_secs"].as_u64().is_some_and(|secs| secs < 10);
    let heard =
        |status: &Value| status["node"]["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(fresh));
    shows(&second, heard).await;
    assert_eq!(south.json(&["node", "drain"])["leader"], "north");
    until(&first, true).await;
    north.cairn(&["chat", "What is my cat called?"]).ended(0);
    assert_eq!(said(&north).len(), 4);
    second.stop().await.unwrap();
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_hands_over_to_nobody_who_has_stopped_and_says_when_it_leads_again() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let first = run(&north).await;
    until(&first, true).await;
    let second = run(&south).await;
    let known = |status: &Value| status["node"]["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2);
    shows(&first, known).await;
    // The one that stands by tells the same, and what its copy has.
    shows(&second, known).await;
    north.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    let has_it =
        |status: &Value| status["channels"] == 1 && status["store"]["journal_bytes"].as_u64() > Some(0);
    shows(&second, has_it).await;
    let began = south.status()["started_at"].clone();
    second.stop().await.unwrap();
    north.cairn(&["node", "drain"]).told(1, &["there is no standby"]);
    assert!(south.log().contains("stopped while standing by: SIGTERM"), "{}", south.log());
    // Without a daemon its copy is backed up while another node leads.
    south.cairn(&["store", "backup", "kept"]).ended(0);

    // One that seems to be there, and does not lead.
    let ghost = "INSERT INTO cairn_node VALUES ('ghost', 'x', '1', 0, clock_timestamp() + interval '1 hour')";
    sql(&url, ghost);
    let before = north.status()["started_at"].clone();
    assert_ne!(before, began);
    north.cairn(&["node", "drain"]).told(1, &["no other node took over; north leads again"]);
    until(&first, true).await;
    assert_eq!(north.status()["started_at"], before, "it is of the process");
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_that_stands_by_uses_what_its_file_says_when_it_leads() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let first = run(&north).await;
    until(&first, true).await;
    let second = run(&south).await;
    until(&second, false).await;
    let config = std::fs::read_to_string(south.path("config.toml")).unwrap();
    let write = |queue: &str| drop(south.config(&format!("{config}\n[limits]\nchannel_queue = {queue}\n")));
    write("9");
    let told = south.cairn(&["reload"]).ended(0);
    assert!(
        told.stdout.contains("limits.channel_queue") && told.stderr.contains("when it leads"),
        "{told:?}"
    );
    write("\"many\"");
    south.cairn(&["reload"]).told(2, &["channel_queue"]);
    // What is written since is read when it leads.
    write("7");
    first.stop().await.unwrap();
    until(&second, true).await;
    assert_eq!(south.cairn(&["reload"]).ended(0).stdout, "nothing changed\n");
    // A file that is refused then changes nothing.
    let third = run(&north).await;
    until(&third, false).await;
    write("\"many\"");
    assert_eq!(south.cairn(&["node", "drain"]).ended(0).stdout, "north leads\n");
    until(&second, false).await;
    third.stop().await.unwrap();
    until(&second, true).await;
    assert!(south.log().contains("the reload failed"), "{}", south.log());
    write("7");
    assert_eq!(south.cairn(&["reload"]).ended(0).stdout, "nothing changed\n");
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_state_moves_into_a_database_and_back_and_shows_the_same() {
    let url = postgres::database();
    let home = home();
    home.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    home.cairn(&["chat", "The garden is north of the house."]).ended(0);
    let before = shown(&home);
    home.cairn(&["store", "move", "--to-database"])
        .told(2, &["no database is configured", "`url` under [store]"]);

    use_database(&home, "north", &url);
    home.cairn(&["history", "main"]).told(1, &["has a journal of its own", "store move --to-database"]);
    let moved = home.json(&["store", "move", "--to-database"]);
    assert_eq!(sql(&url, "SELECT count(*) FROM cairn_event"), moved["records"].to_string());
    assert_eq!(sql(&url, "SELECT count(*) FROM cairn_event WHERE body::json IS NULL"), "0");
    assert_eq!(shown(&home), before);
    home.cairn(&["store", "verify"]).ended(0);

    // Another node makes its copy of it.
    let other = node("south", &url);
    assert_eq!(said(&other), said(&home));
    assert_eq!(shown(&other), before);

    home.cairn(&["store", "move", "--to-folder"]).ended(0);
    other.cairn(&["history", "main"]).told(1, &["moved to"]);
    home.cairn(&["history", "main"]).told(1, &["journal of its own"]);
    home.config("");
    assert_eq!(shown(&home), before);
    home.cairn(&["store", "verify"]).ended(0);
    home.cairn(&["chat", "still here"]).ended(0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn who_is_erased_is_in_no_copy_and_not_in_the_database() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let leader = run(&north).await;
    until(&leader, true).await;
    north.cairn(&["chat", "remember that plums are ripe", "--user", "bob"]).ended(0);
    north.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    leader.stop().await.unwrap();
    assert_eq!(said(&south).len(), 4);

    let dry = north.json(&["forget-user", "local/bob", "--dry-run"]);
    assert_eq!(dry["entries"], 1, "{dry}");
    north.cairn(&["forget-user", "local/bob", "--yes"]).ended(0);
    for home in [&north, &south] {
        let history = said(home).join("\n");
        assert!(history.contains("Flix") && !history.contains("plum"), "{history}");
        for file in files(&home.state()) {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("plum"), "{}", file.display());
        }
    }
    let found = "SELECT (SELECT count(*) FROM cairn_event WHERE body LIKE '%plum%'), (SELECT count(*) FROM cairn_erasure)";
    assert_eq!(sql(&url, found), "0|0");
}

/// Waits until one of two nodes leads, and the other stands by with its copy. True: the first one leads.
async fn first_leads(first: &Daemon, second: &Daemon) -> bool {
    let leads = async |daemon: &Daemon| {
        daemon.client().get("/v1/channels").await.ok()?;
        let status = daemon.client().get("/v1/status").await.ok()?;
        let state = status["state"].as_str()?;
        if state == "ready" { Some(true) } else { state.contains(" leads (").then_some(false) }
    };
    let settled = async {
        loop {
            match (leads(first).await, leads(second).await) {
                (Some(is_first), Some(is_second)) if is_first != is_second => break is_first,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_erasure_is_waited_for_whichever_node_does_it() {
    let url = postgres::database();
    let (north, south) = (node("north", &url), node("south", &url));
    let one = run(&north).await;
    until(&one, true).await;
    for user in ["eve", "bob"] {
        north.cairn(&["chat", "remember that plums are ripe", "--user", user]).ended(0);
    }
    let other = run(&south).await;
    for user in ["local/eve", "local/bob"] {
        let is_first = first_leads(&one, &other).await;
        let (asked, standby) = if is_first { (&north, &south) } else { (&south, &north) };
        standby.cairn(&["forget-user", user, "--yes"]).told(1, &["stands by", "ask that one"]);
        let printed = asked.json(&["forget-user", user, "--yes"]);
        assert!(printed["entries"] == 1 && printed["dry_run"] == false, "{printed}");
        assert!(printed["pseudonym"].as_str().is_some_and(|name| name.contains("erased-")), "{printed}");
        let leads = if first_leads(&one, &other).await { &north } else { &south };
        leads.cairn(&["forget-user", user, "--dry-run"]).told(4, &["nothing is stored about", user]);
    }
    one.stop().await.unwrap();
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn without_its_database_a_standby_says_that_nothing_was_done() {
    let server = Postgres::start(false);
    let url = server.database();
    let (north, south) = (node("north", &url), node("south", &url));
    let leader = run(&north).await;
    until(&leader, true).await;
    let follower = run(&south).await;
    assert!(first_leads(&leader, &follower).await);
    server.crash();
    shows(&follower, |status| !status["store"]["error"].is_null()).await;
    let (status, refused) = follower.client().say("main", "hello").await.unwrap();
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (503, &json!("database")), "{refused}");
    south.cairn(&["chat", "hello"]).told(1, &["the database", "resumes automatically"]);
    server.start_again();
    first_leads(&leader, &follower).await;
    follower.stop().await.unwrap();
    leader.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn without_its_database_a_node_takes_nothing_in_and_goes_on_when_it_is_back() {
    let server = Postgres::start(false);
    let north = node("north", &server.database());
    let daemon = run(&north).await;
    until(&daemon, true).await;
    north.cairn(&["chat", "remember that my cat is called Flix"]).ended(0);
    server.crash();
    let refused = north.cairn(&["chat", "while it is away"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    shows(&daemon, |status| !status["store"]["error"].is_null()).await;
    server.start_again();
    until(&daemon, true).await;
    shows(&daemon, |status| status["store"]["error"].is_null()).await;
    let answer = north.cairn(&["chat", "What is my cat called?"]).ended(0).stdout;
    assert!(answer.contains("Flix"), "{answer}");
    assert_eq!(said(&north).len(), 4);
    daemon.stop().await.unwrap();

    // The test's server is told not to wait for its disk.
    let about: Vec<Value> =
        serde_json::from_str(&north.cairn(&["doctor", "--offline", "--json"]).stdout).unwrap();
    let told: Vec<_> = about.iter().filter(|found| found["check"] == "database").collect();
    assert!(told[0]["finding"].as_str().unwrap().contains("answers; no node leads"), "{told:?}");
    assert!(
        told[1]["state"] == "warning" && told[1]["remedy"].as_str().unwrap().contains("fsync"),
        "{told:?}"
    );

    // A wrong password is told at once, and is in no output.
    north.secret("database.password", "wrong-canary");
    let told = north.cairn(&["run"]).told(1, &["the database", "password", "`password_file`"]);
    let doctor = north.cairn(&["doctor", "--offline"]).ended(1);
    assert!(doctor.stdout.contains("password authentication failed"), "{doctor:?}");
    assert!(!format!("{told:?}{doctor:?}").contains("canary"), "{told:?}{doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_outage_that_ends_a_lead_in_order_does_not_count_against_a_turn() {
    let server = Postgres::start(false);
    let model = FakeModel::builder().start().await;
    let (home, url) = (home(), server.database());
    let (table, password) = store_table(&url);
    home.secret(PASSWORD_FILE, &password);
    home.config(&format!("{}\n{table}node = \"north\"\n", one_model(&model.base_url(), 32_000)));
    let daemon = run(&home).await;
    until(&daemon, true).await;
    let held = model.hold(Kind::Reply);
    let client = daemon.client();
    let body = json!({ "user": "ann", "text": "take your time" });
    // Its connection ends with the lead.
    let asked =
        tokio::spawn(async move { client.ask("POST", "/v1/channels/main/messages", &body).await.is_ok() });
    model.wait_for(Kind::Reply, 1).await;
    server.crash();
    shows(&daemon, |status| status["state"] != "ready").await;
    server.start_again();
    until(&daemon, true).await;
    model.wait_for(Kind::Reply, 2).await;
    drop(held);
    let answered = async {
        while said(&home).len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap();
    asked.await.unwrap();
    let of_kind =
        |kind: &str| sql(&url, &format!("SELECT count(*) FROM cairn_event WHERE body LIKE '%\"{kind}\"%'"));
    assert_eq!((&*of_kind("turn_started"), &*of_kind("turn_interrupted")), ("1", "0"));
    daemon.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_that_begins_to_lead_forgets_sessions_that_nobody_handed_over() {
    let url = postgres::database();
    let north = node("north", &url);
    std::fs::create_dir_all(north.state()).unwrap();
    let old = north.state().join("discord-sessions.json");
    std::fs::write(&old, "{}").unwrap();
    let daemon = run(&north).await;
    until(&daemon, true).await;
    assert!(!old.exists());
    daemon.stop().await.unwrap();
}

#[test]
fn a_password_of_the_database_that_cannot_be_read_is_told_before_a_start() {
    let home = home();
    home.config(
        "[store]\nurl = \"postgres://cairn@127.0.0.1:1/cairn\"\npassword_env = \"CAIRN_DB_PASSWORD\"\n",
    );
    home.cairn(&["config", "check"]).told(2, &["$CAIRN_DB_PASSWORD is not set"]);
    let doctor = home.cairn(&["doctor", "--offline"]).ended(1);
    assert!(doctor.stdout.contains("$CAIRN_DB_PASSWORD is not set"), "{doctor:?}");
}
