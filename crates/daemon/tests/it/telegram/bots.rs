//! Several bots in one daemon: each is a platform of its own, with its token, its agent, its people and its trouble.

use cairn_testkit::daemon::Daemon;
use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::home::Home;
use cairn_testkit::model::FakeModel;
use cairn_testkit::rig::model_table;
use cairn_testkit::telegram::{FakeTelegram, Person};
use serde_json::Value;

use crate::home;

/// Two bots on Telegram and two on Discord, each at a network of its own.
struct Club {
    home: Home,
    _model: FakeModel,
    telegram: FakeTelegram,
    other_telegram: FakeTelegram,
    discord: FakeDiscord,
    other_discord: FakeDiscord,
    alice: Person,
}

const ROOM: u64 = 101;

impl Club {
    async fn new() -> Self {
        let home = home();
        let model = FakeModel::builder().expect_stable_prefix(false).start().await;
        let telegram = FakeTelegram::start().await;
        let other_telegram = FakeTelegram::builder()
            .bot("7000000002:AAFakeTokenOfAnother_0123456789abcdef", "other_test_bot")
            .start()
            .await;
        let discord = FakeDiscord::start().await;
        let other_discord =
            FakeDiscord::builder().token("cairn-testkit.other.token-that-opens-nothing").start().await;
        for discord in [&discord, &other_discord] {
            discord.guild(100);
            discord.channel(100, ROOM);
        }
        let alice = telegram.person("Alice");
        assert_eq!(other_telegram.person("Alice"), alice, "the same person on the same network");
        home.secret("a.token", telegram.token());
        home.secret("b.token", other_telegram.token());
        home.secret("c.token", discord.token());
        home.secret("d.token", other_discord.token());
        let text = format!(
            "{}[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\n[[agents]]\nid = \"helper\"\nmodels = [\"fake\"]\n\n\
             [[telegram]]\ntoken_file = \"a.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\n\
             [[telegram]]\nname = \"club\"\nagent = \"helper\"\ntoken_file = \"b.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\n\
             [[discord]]\ntoken_file = \"c.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\nservers = [100]\n\
             [[discord]]\nname = \"work\"\nagent = \"helper\"\ntoken_file = \"d.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\nservers = [100]\n",
            model_table("fake", &model.base_url(), 32_000),
            telegram.api_url(),
            other_telegram.api_url(),
            discord.api_url(),
            other_discord.api_url(),
        );
        home.config(&text);
        Self { home, _model: model, telegram, other_telegram, discord, other_discord, alice }
    }

    async fn daemon(&self) -> Daemon {
        self.home.daemon(Some(&self.home.path("config.toml"))).await
    }

    /// The line of a bot in the status, once it fits.
    async fn status(&self, daemon: &Daemon, platform: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let line = |status: &Value| {
            let lines = status["platforms"].as_array().cloned().unwrap_or_default();
            lines.into_iter().find(|line| line["platform"] == platform).unwrap_or_default()
        };
        line(&daemon.client().until("/v1/status", |status| fits(&line(status))).await.unwrap())
    }

    fn channels(&self) -> Vec<String> {
        let rows = self.home.json(&["channels"]);
        let mut names: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row["channel"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    fn end(&self) {
        self.telegram.assert_clean();
        self.other_telegram.assert_clean();
        self.discord.assert_clean();
        self.other_discord.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bot_hears_and_answers_its_own_people() {
    let club = Club::new().await;
    let daemon = club.daemon().await;
    club.discord.wait_ready().await;
    club.other_discord.wait_ready().await;
    let alice = &club.alice;
    club.telegram.say(alice.id, alice, "hello first");
    assert_eq!(club.telegram.wait_sent(alice.id, 1).await[0].text, "echo: hello first");

    // The other bot does not know her: whom one lets in is none of the other's people.
    club.other_telegram.say(alice.id, alice, "hello other");
    let told = club.other_telegram.wait_sent(alice.id, 1).await;
    let asked = club.home.json(&["pair", "list"]);
    assert_eq!(asked[0]["user"], format!("telegram-club/{}", alice.id));
    let code = asked[0]["code"].as_str().unwrap();
    assert!(told[0].text.contains(code), "{told:?}");
    assert_eq!(club.home.json(&["pair", "approve", code])["told"], true, "by the bot that she asked");
    club.other_telegram.wait_sent(alice.id, 2).await;
    club.other_telegram.say(alice.id, alice, "hello again");
    assert_eq!(club.other_telegram.wait_sent(alice.id, 3).await[2].text, "echo: hello again");

    club.discord.post(ROOM, "ann", "hello there").mention_bot().send();
    club.other_discord.post(ROOM, "ann", "hello here").mention_bot().send();
    assert_eq!(club.discord.wait_sent(ROOM, 1).await[0].content, "echo: hello there");
    assert_eq!(club.other_discord.wait_sent(ROOM, 1).await[0].content, "echo: hello here");
    assert_eq!((club.telegram.sent(alice.id).len(), club.discord.sent(ROOM).len()), (1, 1));
    let id = alice.id;
    let expected = [
        format!("helper/discord-work/{ROOM}"),
        format!("helper/telegram-club/{id}"),
        format!("main/discord/{ROOM}"),
        format!("main/telegram/{id}"),
    ];
    assert_eq!(club.channels(), expected);

    club.home.cairn(&["ban", &format!("telegram-club/{id}")]).ended(0);
    club.other_telegram.say(id, alice, "let me in");
    club.telegram.say(id, alice, "still here");
    club.telegram.wait_sent(id, 2).await;
    club.other_telegram.wait_confirmed().await;
    assert_eq!(club.other_telegram.sent(id).len(), 3, "banned by one bot, and heard by the other");
    let log = club.home.log();
    let tells = |line: &&str| line.contains("connected to Telegram") && line.contains("telegram-club");
    assert_eq!(log.lines().filter(tells).count(), 1, "the log tells which bot: {log}");
    let (_, metrics) = daemon.client().raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    for platform in ["telegram", "telegram-club", "discord", "discord-work"] {
        let connected = format!("cairn_platform_connected{{platform=\"{platform}\"}} 1");
        assert!(metrics.contains(&connected), "{connected} is not in {metrics}");
    }
    let status = club.home.cairn(&["status"]).ended(0).stdout;
    let line = status.lines().find(|line| line.trim_start().starts_with("telegram-club ")).unwrap();
    assert!(line.contains("@other_test_bot"), "{status}");
    assert!(daemon.stop().await.unwrap().success());
    club.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_whose_token_is_wrong_stops_no_other() {
    let club = Club::new().await;
    club.other_telegram.revoke_token();
    club.home.secret("d.token", "a.wrong.token");
    let daemon = club.daemon().await;
    for platform in ["telegram-club", "discord-work"] {
        let line = club.status(&daemon, platform, |line| line["state"] == "failed").await;
        assert!(line["reason"].as_str().unwrap().contains("token"), "{line}");
    }
    let alice = &club.alice;
    club.telegram.say(alice.id, alice, "hello");
    assert_eq!(club.telegram.wait_sent(alice.id, 1).await[0].text, "echo: hello");
    club.discord.wait_ready().await;
    club.discord.post(ROOM, "ann", "hello there").mention_bot().send();
    club.discord.wait_sent(ROOM, 1).await;
    let log = club.home.log();
    let about =
        |platform: &str| log.lines().any(|line| line.contains("cannot run") && line.contains(platform));
    assert!(about("telegram-club") && about("discord-work"), "{log}");
    let found = club.home.cairn(&["doctor", "--json"]).ended(1).json();
    let state = |platform: &str| {
        let mine = found.as_array().unwrap().iter().filter(|one| one["check"] == platform);
        mine.map(|one| one["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(state("telegram-club").contains(&"failed".to_owned()), "{found}");
    assert!(state("telegram").iter().all(|state| state != "failed"), "{found}");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_whom_one_bot_hears_and_tells_what_needs_a_restart() {
    let club = Club::new().await;
    let daemon = club.daemon().await;
    let file = club.home.path("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let third = "[[telegram]]\nname = \"third\"\nenabled = false\n";
    std::fs::write(&file, text.replace("name = \"club\"\n", "name = \"club\"\ndirect = \"open\"\n") + third)
        .unwrap();
    let reloaded = club.home.json(&["reload"]);
    let keys = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&reloaded["changed"]), ["telegram-club.direct"]);
    assert_eq!(keys(&reloaded["needs_restart"]), ["telegram-third"]);
    let alice = &club.alice;
    club.other_telegram.say(alice.id, alice, "hello other");
    assert_eq!(club.other_telegram.wait_sent(alice.id, 1).await[0].text, "echo: hello other");
    assert!(daemon.stop().await.unwrap().success());
}
