//! Both networks and a model, places on them where people talk, and the folders of daemons between them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::process::Command;

use super::words;
use cairn_testkit::daemon::Daemon;
use cairn_testkit::discord::{Act, FakeDiscord};
use cairn_testkit::home::write_secret;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::telegram::{FakeTelegram, Person, Say, What};

const GUILD: u64 = 100;

pub(super) enum Spot {
    Discord { channel: u64, user: String, is_private: bool },
    Telegram { chat: i64, topic: Option<i64>, person: Person },
}

/// Where people talk: a channel, a thread, a private chat, a group, a topic.
pub(super) struct Place {
    /// The channel's name in the daemon.
    pub(super) name: String,
    pub(super) spot: Spot,
}

/// How a network tells of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Once,
    Twice,
    /// Later, see [`Scene::release`].
    Held,
}

pub(super) struct Heard {
    pub(super) tokens: Vec<usize>,
    /// When it came, where that is known.
    pub(super) at: Option<Instant>,
}

/// When the model was asked about a message first.
pub(super) type Asked = Arc<Mutex<BTreeMap<usize, Instant>>>;

pub(super) struct Setting {
    /// Places on Discord and on Telegram.
    pub(super) n_places: [usize; 2],
    /// The window of the model, in tokens.
    pub(super) window: u64,
    /// How long the model takes for an answer, and for a compaction.
    pub(super) reply: Duration,
    pub(super) compaction: Duration,
    pub(super) log: &'static str,
}

pub(super) struct Scene {
    pub(super) discord: FakeDiscord,
    pub(super) telegram: FakeTelegram,
    pub(super) model: FakeModel,
    pub(super) places: Vec<Place>,
    pub(super) asked: Asked,
    cairn: PathBuf,
}

/// A folder with a configuration and a state, and the binary that is run there.
pub(super) struct Site {
    cairn: PathBuf,
    dir: PathBuf,
}

impl Scene {
    /// Sets the scene, without a daemon.
    pub(super) async fn set(cairn: &Path, setting: &Setting) -> Self {
        let asked = Asked::default();
        let stamps = asked.clone();
        let model = FakeModel::builder()
            .window(setting.window)
            .expect_stable_prefix(false)
            .unrecorded()
            .delay(Kind::Reply, setting.reply)
            .delay(Kind::Compaction, setting.compaction)
            .respond(move |seen| {
                if seen.kind != Kind::Reply {
                    return None;
                }
                let now = Instant::now();
                let tokens = words::asked(&seen.body);
                let mut stamps = stamps.lock();
                for n in &tokens {
                    stamps.entry(*n).or_insert(now);
                }
                Some(Answer::text(words::answer(&tokens)))
            });
        let model = model.start().await;
        let discord = FakeDiscord::builder().identify_every(Duration::ZERO).start().await;
        let telegram = FakeTelegram::start().await;
        discord.guild(GUILD);
        let mut places: Vec<Place> = (0..setting.n_places[0]).map(|idx| on_discord(&discord, idx)).collect();
        places.extend((0..setting.n_places[1]).map(|idx| on_telegram(&telegram, idx)));
        Self { discord, telegram, model, places, asked, cairn: cairn.to_owned() }
    }

    /// Where a daemon runs that reaches the networks at these addresses; with more of a configuration. It is not started yet.
    pub(super) fn site(
        &self,
        dir: PathBuf,
        setting: &Setting,
        [discord, telegram]: [&str; 2],
        more: &str,
    ) -> io::Result<Site> {
        let site = Site { cairn: self.cairn.clone(), dir };
        let chats: Vec<String> =
            self.places.iter().filter_map(Place::group).map(|chat| chat.to_string()).collect();
        let config = format!(
            "[log]\nlevel = \"{}\"\n\n[defaults]\nquote_tokens = 0\n\n[defaults.compaction]\nretry_base_ms = 10\n\n\
             [[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\
             context_window = {}\nmax_output_tokens = 600\n\n\
             [[agents]]\nid = \"main\"\nmodels = [\"main\"]\n\n\
             [discord]\ntoken_file = \"discord.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\nservers = [{GUILD}]\n\n\
             [telegram]\ntoken_file = \"telegram.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\nchats = [{}]\n\n{more}",
            setting.log,
            self.model.base_url(),
            setting.window,
            discord,
            telegram,
            chats.join(", "),
        );
        std::fs::create_dir_all(site.state())?;
        for (file, token) in
            [("discord.token", self.discord.token()), ("telegram.token", self.telegram.token())]
        {
            site.secret(file, token)?;
        }
        std::fs::write(site.dir.join("config.toml"), config)?;
        Ok(site)
    }

    /// Somebody says the message of that number.
    pub(super) fn say(&self, place: usize, n: usize, addressed: bool, way: Way) {
        let text = words::message(n);
        match &self.places[place].spot {
            Spot::Discord { channel, user, is_private } => {
                let post = self.discord.post(*channel, user, &text);
                let post = if addressed && !is_private { post.mention_bot() } else { post };
                match way {
                    Way::Once => post.send(),
                    Way::Twice => post.twice().send(),
                    Way::Held => post.held().send(),
                };
            }
            Spot::Telegram { chat, topic, person } => {
                let say = Say::text(text);
                let say = if addressed && *chat < 0 { say.mention() } else { say };
                let say = topic.map_or(say.clone(), |topic| say.topic(topic));
                let message = self.telegram.say(*chat, person, say);
                if way == Way::Twice {
                    self.telegram.repeat(*chat, message);
                }
            }
        }
    }

    /// Whether a message needs no mention to be answered there.
    pub(super) fn is_private(&self, place: usize) -> bool {
        match &self.places[place].spot {
            Spot::Discord { is_private, .. } => *is_private,
            Spot::Telegram { chat, .. } => *chat > 0,
        }
    }

    pub(super) fn is_discord(&self, place: usize) -> bool {
        matches!(self.places[place].spot, Spot::Discord { .. })
    }

    /// How many messages the bot has sent to each place; cheaper than to hear them.
    pub(super) fn counts(&self) -> Vec<usize> {
        let mut by_chat: BTreeMap<i64, usize> = BTreeMap::new();
        for act in self.telegram.all_acts() {
            if matches!(act.what, What::Sent(_)) {
                *by_chat.entry(act.chat).or_default() += 1;
            }
        }
        let count = |place: &Place| match &place.spot {
            Spot::Discord { channel, .. } => {
                self.discord.acts(*channel).iter().filter(|act| matches!(act, Act::Sent(_))).count()
            }
            Spot::Telegram { chat, .. } => by_chat.get(chat).copied().unwrap_or(0),
        };
        self.places.iter().map(count).collect()
    }

    /// How much has happened in each place.
    pub(super) fn acts(&self) -> Vec<usize> {
        let mut by_chat: BTreeMap<i64, usize> = BTreeMap::new();
        for act in self.telegram.all_acts() {
            *by_chat.entry(act.chat).or_default() += 1;
        }
        let count = |place: &Place| match &place.spot {
            Spot::Discord { channel, .. } => self.discord.acts(*channel).len(),
            Spot::Telegram { chat, .. } => by_chat.get(chat).copied().unwrap_or(0),
        };
        self.places.iter().map(count).collect()
    }

    /// What the bot has said in a place, in order. Of Telegram only what stands there.
    pub(super) fn heard(&self, place: usize) -> Vec<Heard> {
        match &self.places[place].spot {
            Spot::Discord { channel, .. } => {
                let sent = self.discord.sent(*channel);
                sent.iter()
                    .map(|sent| Heard { tokens: words::tokens(&sent.content), at: Some(sent.at) })
                    .collect()
            }
            Spot::Telegram { chat, topic, .. } => {
                let sent = self.telegram.sent(*chat);
                let here = sent.iter().filter(|sent| topic.is_none() || sent.thread == *topic);
                here.map(|sent| Heard { tokens: words::tokens(&sent.text), at: None }).collect()
            }
        }
    }
}

impl Site {
    pub(super) fn secret(&self, name: &str, content: &str) -> io::Result<()> {
        write_secret(&self.dir.join(name), content)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub(super) async fn start(&self) -> io::Result<Daemon> {
        Daemon::start(&self.cairn, &self.state(), Some(&self.dir.join("config.toml"))).await
    }

    /// What the daemon has logged since its last start.
    pub(super) fn log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.state().join("daemon.log"))
    }

    /// What a command prints.
    pub(super) async fn json(&self, args: &[&str]) -> io::Result<Value> {
        let mut command = Command::new(&self.cairn);
        command.args(args).arg("--json").arg("--state").arg(self.state());
        command.arg("--config").arg(self.dir.join("config.toml"));
        let output = command.env_remove("RUNTIME_DIRECTORY").stdin(Stdio::null()).output().await?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!(
                "`cairn {}` ended with {}: {words}",
                args.join(" "),
                output.status
            )));
        }
        serde_json::from_slice(&output.stdout).map_err(io::Error::other)
    }
}

impl Place {
    /// The id of a group that must be on the list of those that are served.
    fn group(&self) -> Option<i64> {
        match &self.spot {
            Spot::Telegram { chat, .. } if *chat < 0 => Some(*chat),
            _ => None,
        }
    }
}

fn on_discord(discord: &FakeDiscord, idx: usize) -> Place {
    let user = format!("{}-{idx}", words::NAMED);
    let id = 1_000 + 10 * idx as u64;
    let (name, channel) = match idx % 5 {
        1 => {
            let channel = discord.dm(&user);
            (format!("main/discord/{channel}"), channel)
        }
        2 => {
            discord.channel(GUILD, id);
            discord.thread(id, id + 1);
            (format!("main/discord/{id}/{}", id + 1), id + 1)
        }
        _ => {
            discord.channel(GUILD, id);
            (format!("main/discord/{id}"), id)
        }
    };
    Place { name, spot: Spot::Discord { channel, user, is_private: idx % 5 == 1 } }
}

fn on_telegram(telegram: &FakeTelegram, idx: usize) -> Place {
    let person = telegram.person(&format!("{} {idx}", words::NAMED));
    let title = format!("burrow {idx}");
    let (chat, topic) = match idx % 5 {
        1 => {
            let forum = telegram.forum(&title);
            (forum, Some(telegram.topic(forum, &person, "tracks")))
        }
        2 => (telegram.supergroup(&title), None),
        3 => (telegram.group(&title), None),
        _ => (person.id, None),
    };
    let name = match topic {
        Some(topic) => format!("main/telegram/{chat}/{topic}"),
        None => format!("main/telegram/{chat}"),
    };
    Place { name, spot: Spot::Telegram { chat, topic, person } }
}
