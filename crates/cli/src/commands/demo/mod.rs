//! `cairn demo`: three months of a conversation in a window that is too small for them, before the visitor's eyes. A daemon
//! of this program runs in a temporary home, and all that is shown was read from it.

mod home;
mod runs;
mod stage;

use std::time::{Duration, Instant};

use cairn_api::message::MessageRequest;
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::message::Role;
use cairn_types::ports::{Hit, HitKind, Reply};
use clap::Args;
use console::style;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::signal::unix::SignalKind;

use crate::args::Global;
use crate::client::{Client, with_params};
use crate::commands::demo::home::{Home, end_of};
use crate::commands::demo::runs::Runs;
use crate::commands::demo::stage::Stage;
use crate::commands::import::n_memories;
use crate::connect::{channel_path, listen};
use crate::failure::Failure;
use crate::{jsonl, out};
use cairn_api::records::{ContextRecord, EntryRecord};
use cairn_api::text::{Wrap, counted, grouped, minute, plain};

/// What three people say of a reading room that they open.
const TALK: &[u8] = include_bytes!("talk.jsonl");

const CHANNEL: &str = "reading-room";

/// A window that three months do not fit into. Thresholds are lower than usual, so that there is more to see.
const CONFIG: &str = "\
[defaults]
context_window = 6000

[defaults.compaction]
model = \"summariser\"
background_threshold = 0.65
aggressive_threshold = 0.8
emergency_threshold = 0.95
background_fraction = 0.6
";

/// At which pace the embedded model speaks, in words a second, and at which it summarises: as models on servers do, it takes
/// much longer for that.
const PACES: [(&str, u32); 2] = [("offline", 24), ("summariser", 6)];

/// Who asks at the end.
const VISITOR: &str = "you";

const QUESTION_OF_MARCH: &str = "What is the piano tuner called, and what does he take?";

const QUESTION_BEFORE_THE_KILL: &str = "How many boards did the shelves need, and what did they cost?";

/// Words of an answer after which its daemon is killed.
const WORDS_HEARD: usize = 6;

/// How often the window is drawn again while an answer is on its way.
const DRAW_EVERY: Duration = Duration::from_millis(150);

#[derive(Debug, Args)]
#[command(after_help = "\
It takes about a minute and needs no key and no network. The daemon runs
in a temporary folder, which is removed at the end.

Examples:
  cairn demo          watch it
  cairn demo --keep   keep the folder")]
pub struct DemoArgs {
    /// Keep the temporary folder, and print how to look into it
    #[arg(long)]
    keep: bool,
    /// Run as fast as possible
    #[arg(long)]
    fast: bool,
}

pub async fn demo(global: Global, args: DemoArgs) -> Result<(), Failure> {
    if global.json || global.config.is_some() || global.state.is_some() {
        return Err(Failure::usage(
            "`cairn demo` uses its own configuration and state, and has no JSON output",
            "leave out --json, --config and --state",
        ));
    }
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    let mut ends = kinds.map(listen);
    let [interrupt, terminate, hangup, quit] = &mut ends;
    let (Ok(interrupt), Ok(terminate), Ok(hangup), Ok(quit)) = (interrupt, terminate, hangup, quit) else {
        return Err(Failure::failed("cannot listen for signals", ""));
    };
    let model = |(id, pace): (&str, u32)| {
        let pace = if args.fast { 0 } else { pace };
        format!("\n[[models]]\nid = \"{id}\"\nprovider = \"offline\"\nwords_per_second = {pace}\n")
    };
    let config = CONFIG.to_owned() + &PACES.map(model).concat();
    let began = Instant::now();
    let mut show = Show::new(Home::new(&config)?)?;
    let shown = tokio::select! {
        shown = Box::pin(show.run()) => shown,
        _ = interrupt.recv() => Err(stopped()),
        _ = terminate.recv() => Err(stopped()),
        _ = hangup.recv() => Err(stopped()),
        _ = quit.recv() => Err(stopped()),
    };
    let keep = args.keep && shown.is_ok();
    let (config, state, home) = (show.home.config(), show.home.state(), show.home.path().to_owned());
    let closed = show.home.close(keep).await;
    // What is left behind is told before what ended the demo.
    closed?;
    shown?;
    let took = began.elapsed().as_secs_f64();
    let kept = if keep {
        let look = format!("--config {} --state {}", config.display(), state.display());
        format!(
            "That took {took:.0} s. Its configuration and state are in {home}. Look into them:\n  \
             cairn context {CHANNEL} {look}\n  cairn history {CHANNEL} {look}\n  cairn memory list {look}",
            home = home.display()
        )
    } else {
        format!("That took {took:.0} s. Its folder is removed; `cairn demo --keep` keeps it.")
    };
    out::text(&format!("\n{kept}\n\n{NEXT}"))
}

const NEXT: &str = "\
Next:
  cairn chat      talk yourself, with the embedded model until you name another
  cairn init      name a model, and connect Discord or Telegram
  cairn --help    everything else
";

fn stopped() -> Failure {
    Failure::failed("stopped early; its daemon and its folder are gone", "run it again")
}

/// The demo under way.
struct Show {
    home: Home,
    stage: Stage,
    client: Client,
    channel: ChannelId,
    runs: Runs,
    memories: u64,
}

impl Show {
    fn new(home: Home) -> Result<Self, Failure> {
        let agent = AgentId::new("main");
        let channel =
            ChannelId::resolve(CHANNEL, &agent).map_err(|error| Failure::usage(error.to_string(), ""))?;
        let client = home.client();
        Ok(Self { home, stage: Stage::new(), client, channel, runs: Runs::default(), memories: 0 })
    }

    async fn run(&mut self) -> Result<(), Failure> {
        self.stage.say(&format!(
            "{}\nA daemon of this program starts in a temporary folder, with the embedded\n\
             offline model: no key, no network. All that you see is read from it. The model\n\
             is slowed down to the pace of one on a server.\n",
            style("Three months of conversation, in a window of 6,000 tokens").bold()
        ))?;
        self.start().await?;
        self.three_months().await?;
        self.question_of_march().await?;
        self.kill_and_go_on().await
    }

    async fn start(&mut self) -> Result<(), Failure> {
        let (pid, after) = self.home.start().await?;
        let ready = format!("process {pid}, answers after {}", secs(after));
        self.stage.say(&format!("{}   {ready}", style("$ cairn run").cyan()))
    }

    /// Sends every message and shows what becomes of the window.
    async fn three_months(&mut self) -> Result<(), Failure> {
        let messages = messages()?;
        let (mut month, mut slowest) = (String::new(), Duration::ZERO);
        for (idx, said) in messages.iter().enumerate() {
            let name = said.at.strftime("%B %Y").to_string();
            if name != month {
                // In a pipe the window is printed once a month.
                if !month.is_empty() && !self.stage.is_live() {
                    self.show_window().await?;
                }
                self.stage.say(&format!("\n{}", style(&name).bold()))?;
                month = name;
            }
            let day = said.at.strftime("%b %-d").to_string();
            self.stage.announce(stage::message(&day, &said.user, &said.text, "…"));
            let began = Instant::now();
            let reply = self.answer(&said.request(idx)).await?;
            let took = began.elapsed();
            slowest = slowest.max(took);
            self.stage.announce(String::new());
            self.stage.say(&stage::message(&day, &said.user, &said.text, &secs(took)))?;
            if saves(&reply) {
                self.stage.say(&stage::beside(&reply.reply))?;
            }
            self.look(Some(took)).await?;
        }
        // What is told of the runs is told of all of them, however fast the machine is.
        self.settled().await?;
        self.look(None).await?;
        self.show_window().await?;
        let told = self.runs.told(messages.len(), slowest);
        self.stage.say(&format!("\n{told}"))
    }

    /// Asks for words of March, and shows where the answer has them from.
    async fn question_of_march(&mut self) -> Result<(), Failure> {
        self.scene("A question about March.")?;
        let params = [("q", Some(QUESTION_OF_MARCH.to_owned())), ("kind", Some("entry".to_owned()))];
        let path = with_params(&channel_path(&self.channel, "search"), &params);
        // Answered once the index has what was just said.
        let hits: Vec<Hit> = self.client.get(&path).await?;
        let reply = self.ask(QUESTION_OF_MARCH, "demo-march").await?;
        let quoted = plain(&reply.reply);
        let is_source = |hit: &&Hit| hit.kind == HitKind::Entry && quoted.contains(&plain(&hit.text));
        let Some((hit, seq)) = hits.iter().find(is_source).and_then(|hit| Some((hit, hit.seq?))) else {
            return Err(Failure::failed("the answer about March quotes nothing from the conversation", ""));
        };
        let who = hit.author.as_ref().map_or("somebody", |author| author.name.as_str());
        let context = self.context().await?;
        let mut summaries = context.summaries.iter();
        let place = match summaries.find(|summary| (summary.from_seq..=summary.to_seq).contains(&seq)) {
            Some(summary) => format!(
                "The window no longer holds these words: the summary {} stands there for the entries {} to {}, of \
                 {} to {}. The history holds them, and was searched.",
                summary.id,
                summary.from_seq,
                summary.to_seq,
                short(summary.from_at),
                short(summary.to_at)
            ),
            None => "They are still in the window, word for word.".to_owned(),
        };
        let source = format!("Its source: entry {seq} of the history, said by {who} on {}.", minute(hit.at));
        self.stage.say(&format!("{}\n{}", style(source).bold(), wrapped(&place, 0)))
    }

    /// Kills the daemon in the middle of an answer, starts it again, and compares what it has with what it had.
    async fn kill_and_go_on(&mut self) -> Result<(), Failure> {
        self.scene("Now kill -9, in the middle of an answer.")?;
        // What runs would change the picture on its own.
        self.settled().await?;
        let before = self.possessions().await?;
        let id = "demo-kill";
        let request = request(VISITOR, QUESTION_BEFORE_THE_KILL, id, None);
        self.stage.say(&format!("{} {QUESTION_BEFORE_THE_KILL}", style(">").cyan()))?;
        let heard = self.begin(&request).await?;
        if !heard.is_empty() {
            self.stage.say(&format!("  {heard} …"))?;
        }
        let (pid, ended) = self.home.kill().await?;
        let kill = style(format!("$ kill -9 {pid}")).cyan();
        self.stage.say(&format!("{kill}   the daemon is gone: {}", end_of(ended)))?;
        self.start().await?;
        let reply = self.answer(&request).await?;
        // The answer may have begun a run.
        self.settled().await?;
        let after = self.possessions().await?;
        after.must_have_all_of(&before)?;
        self.stage.say(&format!(
            "Before the kill: {}.\nNow:             {}. Nothing is lost.",
            before.words(),
            after.words()
        ))?;
        self.stage.say("The question had been accepted, so it is answered, once:")?;
        self.stage.say(&wrapped(&reply.reply, 2))
    }

    fn scene(&mut self, title: &str) -> Result<(), Failure> {
        self.stage.say(&format!("\n{}", style(title).bold()))
    }

    async fn ask(&mut self, question: &str, id: &str) -> Result<Reply, Failure> {
        self.stage.say(&format!("{} {question}", style(">").cyan()))?;
        let reply = self.answer(&request(VISITOR, question, id, None)).await?;
        self.stage.say(&wrapped(&reply.reply, 2))?;
        Ok(reply)
    }

    /// Sends a message and waits for its answer; the window is drawn meanwhile.
    async fn answer(&mut self, request: &MessageRequest) -> Result<Reply, Failure> {
        let (client, path) = (self.client.clone(), channel_path(&self.channel, "messages"));
        let mut reply = std::pin::pin!(client.post::<Reply>(&path, request));
        loop {
            tokio::select! {
                biased;
                reply = &mut reply => return Ok(reply?),
                () = tokio::time::sleep(DRAW_EVERY), if self.stage.has_window() => self.look(None).await?,
            }
        }
    }

    /// Sends a message and listens to the beginning of its answer: what was heard.
    async fn begin(&mut self, request: &MessageRequest) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Delta {
            text: String,
        }
        let mut heard = String::new();
        let mut events = self.client.events(&channel_path(&self.channel, "messages"), request).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            if event.name == "delta" {
                let delta: Delta = serde_json::from_str(&event.data)
                    .map_err(|error| Failure::failed(format!("cannot read the answer: {error}"), ""))?;
                heard.push_str(&delta.text);
            }
            if heard.split_whitespace().count() >= WORDS_HEARD {
                break;
            }
        }
        let words: Vec<_> = heard.split_whitespace().take(WORDS_HEARD).collect();
        Ok(words.join(" "))
    }

    /// Looks at the window: shows it, and tells of runs that began or ended. `answered`: how long the answer took that
    /// has just come.
    async fn look(&mut self, answered: Option<Duration>) -> Result<(), Failure> {
        let context = self.context().await?;
        if answered.is_some() {
            self.memories = n_memories(&self.client, &self.channel).await?;
        }
        for line in self.runs.observe(&context, answered) {
            self.stage.say(&line)?;
        }
        self.stage.draw_window(&context, self.memories)
    }

    async fn show_window(&mut self) -> Result<(), Failure> {
        let context = self.context().await?;
        self.stage.leave_window(&context, self.memories)
    }

    async fn context(&self) -> Result<ContextRecord, Failure> {
        Ok(self.client.get(&channel_path(&self.channel, "context")).await?)
    }

    /// Waits until no run is at work or due.
    async fn settled(&mut self) -> Result<(), Failure> {
        let body = serde_json::json!({ "below": "background" });
        let _gauge: serde_json::Value = self.client.post(&channel_path(&self.channel, "wait"), &body).await?;
        Ok(())
    }

    async fn possessions(&self) -> Result<Possessions, Failure> {
        let params = [("limit", Some("10000".to_owned()))];
        let path = with_params(&channel_path(&self.channel, "history"), &params);
        let entries: Vec<EntryRecord> = self.client.get(&path).await?;
        let context = self.context().await?;
        Ok(Possessions {
            entries: entries.into_iter().filter(|entry| entry.seq.is_some()).collect(),
            memories: n_memories(&self.client, &self.channel).await?,
            summaries: context.summaries.len() as u64,
        })
    }
}

/// What a daemon has of the conversation.
struct Possessions {
    entries: Vec<EntryRecord>,
    memories: u64,
    summaries: u64,
}

impl Possessions {
    fn words(&self) -> String {
        format!(
            "{} entries, {}, {}",
            grouped(self.entries.len() as u64),
            counted(self.memories, "memory", "memories"),
            counted(self.summaries, "summary", "summaries")
        )
    }

    fn must_have_all_of(&self, before: &Self) -> Result<(), Failure> {
        let is_same = |one: &EntryRecord, other: &EntryRecord| {
            (one.seq, one.role, &one.parts, &one.author)
                == (other.seq, other.role, &other.parts, &other.author)
        };
        let kept = before.entries.iter().all(|entry| self.entries.iter().any(|other| is_same(entry, other)));
        let asked =
            |role| self.entries[before.entries.len()..].iter().filter(|entry| entry.role == role).count();
        if !kept || self.memories < before.memories || asked(Role::User) != 1 || asked(Role::Assistant) != 1 {
            return Err(Failure::failed(
                format!("something was lost: {} before the kill, {} now", before.words(), self.words()),
                "this is a bug in Cairn: please report it",
            ));
        }
        Ok(())
    }
}

/// A line of the conversation.
#[derive(Deserialize)]
struct Said {
    at: Timestamp,
    user: String,
    text: String,
}

impl Said {
    fn request(&self, idx: usize) -> MessageRequest {
        request(&self.user, &self.text, &format!("demo-{idx}"), Some(self.at))
    }
}

fn messages() -> Result<Vec<Said>, Failure> {
    jsonl::each(TALK, |_, line| jsonl::object(line))
        .map_err(|why| Failure::failed(format!("the demo, {why}"), ""))
}

fn request(user: &str, text: &str, id: &str, at: Option<Timestamp>) -> MessageRequest {
    MessageRequest {
        user: user.to_owned(),
        text: text.to_owned(),
        id: Some(id.to_owned()),
        agent: None,
        at: at.map(|at| at.to_string()),
        files: Vec::new(),
    }
}

/// The answer says that something was saved.
fn saves(reply: &Reply) -> bool {
    reply.reply.starts_with("Saved")
}

/// Text broken between words, so many columns in.
fn wrapped(text: &str, indent: usize) -> String {
    let mut wrap = Wrap::new(Stage::width() - indent);
    let broken = wrap.feed(text) + &wrap.finish();
    let lines = broken.lines().map(|line| format!("{:indent$}{line}", "").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn secs(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn short(at: Timestamp) -> String {
    at.strftime("%-d %B").to_string()
}
