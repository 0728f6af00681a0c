//! A disk of a few MB that fills: a tmpfs in a mount namespace of its own. And a shell in there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cairn_testkit::daemon::{Client, PATIENCE};
use cairn_testkit::home::Home;
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::one_model;
use serde_json::{Value, json};

use crate::faults::home::lived_in;
use crate::{CAIRN, home};

/// A shell in a mount namespace; all that it started ends with it.
pub(crate) struct Room {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Room {
    /// A room; none where the machine allows no namespaces.
    pub(crate) fn open() -> Option<Self> {
        [&["-m"][..], &["-Urm"]].iter().find_map(|flags| {
            let mut command = Command::new("unshare");
            command.args(*flags).args(["-p", "-f", "--kill-child=KILL", "--propagation", "private", "sh"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().ok()?;
            let (input, output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
            let mut room = Self { child, input, output };
            let probe = room.run("mkdir -p /tmp && mount -t tmpfs -o size=1m none /mnt && umount /mnt");
            matches!(probe, Some((0, _))).then_some(room)
        })
    }

    /// Runs a command in there: its exit code and what it said. None: the shell is gone.
    pub(crate) fn run(&mut self, command: &str) -> Option<(i32, String)> {
        writeln!(self.input, "( {command} ) 2>&1; code=$?; echo; echo \"-- $code\"").ok()?;
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(code) = line.strip_prefix("-- ") {
                return Some((code.trim().parse().ok()?, said.trim_end().to_owned()));
            }
            said.push_str(&line);
        }
    }

    #[track_caller]
    pub(crate) fn must(&mut self, command: &str) -> String {
        let (code, said) = self.run(command).unwrap();
        assert_eq!(code, 0, "{command}: {said}");
        said
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Says on which machines a test shows nothing.
pub(crate) fn without_room() {
    eprintln!("not shown: this machine allows no mount namespaces (unshare -m, unshare -Urm)");
}

/// A daemon whose state is on a disk of a few MB.
struct Full {
    room: Room,
    home: Home,
    model: FakeModel,
}

impl Full {
    async fn start(size: &str) -> Option<Self> {
        let mut room = Room::open()?;
        let (home, model) = (home(), FakeModel::start().await);
        home.config(&one_model(&model.base_url(), 32_000));
        std::fs::create_dir_all(home.state()).unwrap();
        std::fs::create_dir_all(home.path("run")).unwrap();
        room.must(&format!("mount -t tmpfs -o size={size} none {}", home.state().display()));
        let mut full = Self { room, home, model };
        full.run_daemon().await;
        Some(full)
    }

    /// The command line within the room.
    fn cairn(&self, args: &str) -> String {
        let dir = self.home.path("");
        format!(
            "cd {0} && RUNTIME_DIRECTORY={0}/run CAIRN_STATE={0}/state CAIRN_CONFIG={0}/config.toml {CAIRN} {args}",
            dir.display().to_string().trim_end_matches('/')
        )
    }

    async fn run_daemon(&mut self) {
        let run = self.cairn("run");
        let log = self.home.path("daemon.log");
        self.room.must(&format!("{run} >>{} 2>&1 </dev/null &", log.display()));
        let client = self.client();
        let ready = async {
            while !client.get("/v1/health").await.is_ok_and(|health| health["status"] == "ok") {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.unwrap_or_else(|_| panic!("not ready: {}", self.log()));
    }

    fn client(&self) -> Client {
        Client::new(&self.home.path("run/cairn.sock"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path("daemon.log")).unwrap()
    }

    /// Takes all room there is, to the last byte.
    fn fill(&mut self) {
        let filler = self.home.state().join("filler");
        self.room.run(&format!("dd if=/dev/zero of={} bs=1k", filler.display())).unwrap();
    }

    fn make_room(&mut self) {
        let filler = self.home.state().join("filler");
        self.room.must(&format!("rm {}", filler.display()));
    }

    fn json(&mut self, args: &str) -> Value {
        let command = self.cairn(args);
        let (code, said) = self.room.run(&command).unwrap();
        assert_eq!(code, 0, "{args}: {said}");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }
}

async fn say(client: &Client, id: &str, text: &str) -> (u16, Value) {
    let body = json!({ "user": "anna", "text": text, "id": id });
    let (status, answer) = client.ask("POST", "/v1/channels/main/messages", &body).await.unwrap();
    (status.as_u16(), answer)
}

/// Waits until the daemon has said for a while that its disk is full: whoever is refused for it has been told by then.
async fn is_full(client: &Client) {
    let mut n_full = 0;
    while n_full < 20 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let (_, health) = client.ask("GET", "/v1/health", &Value::Null).await.unwrap();
        n_full = if health["error"]["code"] == "disk_full" { n_full + 1 } else { 0 };
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_during_a_turn_pauses_intake_until_there_is_room() {
    let Some(mut full) = Full::start("24m").await else { return without_room() };
    let client = full.client();
    assert_eq!(say(&client, "before", "a zebra").await.0, 200);
    let gate = full.model.hold(Kind::Reply);
    let asking = full.client();
    // More than what may still fit into the last page of a file.
    let long = format!("are you there? {}", "and there? ".repeat(2_000));
    let question = long.clone();
    let open = tokio::spawn(async move { say(&asking, "during", &question).await });
    full.model.wait_for(Kind::Reply, 2).await;
    full.fill();
    gate.open();

    // What is said now is refused by name, again and again, and nothing else breaks.
    for n in 0..3 {
        let (status, told) =
            say(&client, &format!("refused-{n}"), &format!("no room for this {n} {long}")).await;
        assert_eq!((status, &told["error"]["code"]), (503, &json!("disk_full")), "{told}\n{}", full.log());
        assert!(told["error"]["hint"].as_str().unwrap().contains("make room"), "{told}");
    }
    let (status, health) = client.ask("GET", "/v1/health", &Value::Null).await.unwrap();
    assert_eq!((status.as_u16(), &health["error"]["code"]), (503, &json!("disk_full")), "{health}");
    let status = full.json("status --json");
    assert_eq!(status["running"], true);
    assert!(status["store"]["error"].as_str().unwrap().contains("is full"), "{status}");
    let told = full.cairn("status");
    assert!(full.room.must(&told).contains("  ! Store: the disk"), "people are told, too");
    assert!(full.log().contains("is full"), "{}", full.log());
    assert!(!open.is_finished(), "the turn waits for room");

    full.make_room();
    let (status, reply) = open.await.unwrap();
    assert_eq!(status, 200, "{reply}");
    let (status, reply) = say(&client, "after", "and now?").await;
    assert_eq!(status, 200, "it goes on by itself: {reply}\n{}", full.log());
    // Views try again by themselves; a turn waits for the journal only.
    client.until("/v1/status", |status| status["store"]["error"].is_null()).await.unwrap();
    let verified = full.json("store verify --json");
    assert_eq!(verified["ok"], true, "{verified}");
    let texts: Vec<String> = full
        .json("history main --json")
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["parts"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    for said in ["a zebra", long.as_str(), "and now?"] {
        assert_eq!(texts.iter().filter(|text| *text == said).count(), 1, "{said}");
    }
    assert!(!texts.iter().any(|text| text.contains("no room for this")));
    assert!(full.json("search main zebra --json").as_array().is_some_and(|hits| !hits.is_empty()));
    assert!(!full.log().contains("panicked at crates"), "{}", full.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_index_that_meet_a_full_disk_show_all_of_it_afterwards() {
    let Some(mut full) = Full::start("5m").await else { return without_room() };
    let client = full.client();
    let mut acknowledged = Vec::new();
    let text = "a long walk by the lake in the evening sun, with words and words ".repeat(600);
    // Journal, sled and index grow until one of them meets the end of the disk.
    let mut refused = 0;
    for n in 0..4_000 {
        let (id, text) = (format!("m{n}"), format!("{n} {text}"));
        let told = tokio::select! {
            told = say(&client, &id, &text) => Some(told),
            () = is_full(&client) => None,
        };
        match told {
            Some((200, _)) => acknowledged.push(text),
            // Refused, or taken in and failed for all to see.
            Some((503 | 502, told)) => {
                refused += 1;
                assert!(told["error"]["message"].as_str().unwrap().contains("is full"), "{told}");
            }
            Some((status, told)) => panic!("{status}: {told}\n{}", full.log()),
            // Taken in: its turn waits for room.
            None => refused += 1,
        }
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "the disk never filled");
    let dir = full.home.state();
    full.room.must(&format!("mount -o remount,size=200m {}", dir.display()));
    let again = async {
        while say(&client, "after", "and now?").await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap_or_else(|_| panic!("{}", full.log()));
    let history = full.json("history main --json --limit 10000").to_string();
    for said in acknowledged {
        assert!(history.contains(&said[..40]), "{} is lost", &said[..40]);
    }
    let verified = full.json("store verify --json");
    assert_eq!(verified["ok"], true, "{verified}");
    assert!(full.json("search main now --json").to_string().contains("and now?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_to_a_full_disk_leaves_nothing_and_says_so() {
    let Some(mut full) = Full::start("24m").await else { return without_room() };
    assert_eq!(say(&full.client(), "a", "hello").await.0, 200);
    let disk = full.home.path("disk");
    std::fs::create_dir_all(&disk).unwrap();
    full.room.must(&format!("mount -t tmpfs -o size=4k none {}", disk.display()));
    let command = full.cairn(&format!("store backup {}/backup", disk.display()));
    let (code, said) = full.room.run(&command).unwrap();
    assert!(
        code == 1 && said.contains("is full") && said.contains("hint: free some space there"),
        "{code}: {said}"
    );
    assert_eq!(full.room.must(&format!("ls -A {}", disk.display())), "");
    // Where a disk is mounted nothing can be renamed to.
    let command = full.cairn(&format!("store backup {}", disk.display()));
    let (code, said) = full.room.run(&command).unwrap();
    assert!(code == 1 && said.contains("mounted") && said.contains("within it"), "{code}: {said}");
    assert_eq!(say(&full.client(), "b", "and now?").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_disk_says_so_and_leaves_everything_for_the_next() {
    let Some(mut room) = Room::open() else { return without_room() };
    let home = home();
    lived_in(&home).await;
    let (state, whole) = (home.state().display().to_string(), home.path("whole").display().to_string());
    let cairn = |args: &str| format!("CAIRN_STATE={state} HOME={} {CAIRN} {args}", home.path("").display());
    room.must(&format!("mv {state} {whole} && mkdir {state} && mount -t tmpfs -o size=24m none {state}"));
    room.must(&format!("cp -a {whole}/. {state}/"));
    room.run(&format!("dd if=/dev/zero of={state}/filler bs=1k")).unwrap();
    for args in ["run", "history main", "store verify", "store rebuild"] {
        let (code, said) = room.run(&cairn(args)).unwrap();
        assert_eq!(code, 1, "{args}: {said}");
        for words in ["error: ", "is full", "hint: ", "free some disk space and try again"] {
            assert!(said.contains(words), "{args}: no `{words}` in {said}");
        }
        assert!(!said.contains("panicked") && !said.contains("goes on by itself"), "{args}: {said}");
    }
    // As the hint says.
    room.must(&format!("rm {state}/filler"));
    assert!(room.must(&cairn("history main --json")).contains("Number 29"));
    assert!(room.must(&cairn("store verify")).contains("the store is fine"));
}
