//! A state that has much to show: months of talk about a boat, with searches, memories and compactions, made by the real
//! binary in seconds.

use std::net::SocketAddr;

use cairn_testkit::free_address;
use cairn_testkit::home::Home;
use cairn_testkit::model::{Answer, Builder, FakeModel, Kind, Seen, last_user_text, text_of};
use cairn_testkit::rig::{Rig, model_table};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Entries of the long conversation.
pub(crate) const ENTRIES: u64 = 5_000;

/// Fills within a hundred messages.
const WINDOW: u64 = 16_000;

/// Its channel, by its full name.
pub(crate) const CHANNEL: &str = "main/local/boat";

const PEOPLE: [&str; 4] = ["anna", "ben", "chloe", "dmitri"];

/// What is said, and what is answered to it.
const TALK: [(&str, &str); 12] = [
    (
        "The survey of the hull is in: SRV-{n}. Frames 4 to 9 are sound, frame 11 is soft below the waterline, and the surveyor wants it opened before we paint anything.",
        "Then frame 11 comes first. I would open it from inside, so that the planking stays on, and take pictures for the insurance; SRV-{n} goes into the folder with the others.",
    ),
    (
        "Rope again: 60 m of 12 mm for the sheets came to {n} euros with the discount of the club, ORD-{n}. Ben says that the old halyards last another season.",
        "I noted {n} euros under rigging, ORD-{n}. If the halyards stay, check their ends at the masthead: that is where they chafe.",
    ),
    (
        "We meet on the {d} of the month at ten at the slip. Bring gloves, the sander and something to eat; Chloe has the key of the shed.",
        "The {d}, at ten, at the slip, with gloves and the sander. Chloe brings the key. Tide is high around noon, so the trailer can stay where it is.",
    ),
    (
        "Does anybody remember which primer we took below the waterline? The tin says {n} on its lid, and nothing else is readable.",
        "It was the grey two-part primer; the number {n} is its batch. The second coat has to follow within two days, or it must be sanded.",
    ),
    (
        "Berth {d} at the north pier is free from April on, for {n} euros a season, electricity not included. Anna would take it at once.",
        "Berth {d} lies in the lee of the pier, which is good in a north-westerly. With electricity it comes to about {n} euros and a half hundred more.",
    ),
    (
        "The engine started, and then the alarm for the cooling water. The impeller had lost two blades; part IMP-{n} is on order.",
        "Look for the two blades before IMP-{n} goes in: they are usually in the heat exchanger, and there they stop the water again.",
    ),
    (
        "Dmitri painted the cabin top, Chloe the cockpit. It is drier than the forecast said, and the colour is lighter than on the card.",
        "Good that it was dry. Colours darken within a week; I would wait for that before you mix anything into the next tin.",
    ),
    (
        "I prefer that we ask three sailmakers and not one. The first offer is OFR-{n}, for a main with two reefs.",
        "Three offers, then. OFR-{n} is the first; ask the others for two reefs as well, and for the same weight of cloth, so that they can be compared.",
    ),
    (
        "Insurance wants a list of everything on board with its price. I began one: 43 lines, {n} euros in all, the dinghy not counted.",
        "{n} euros without the dinghy. Add the year in which each thing was bought: they pay by age, and they will ask.",
    ),
    (
        "We decided to launch on the {d} of May if frame 11 is closed by then. Ben orders the crane, number CRN-{n}.",
        "Launch on the {d} of May, on one condition: frame 11. CRN-{n} is the crane. It can be cancelled until a week before.",
    ),
    (
        "What was the depth at the slip when we hauled out? I would like to know it before CRN-{n} comes.",
        "You wrote 1.9 m at half tide in October. With the {d} cm that the keel has now, half tide is enough, if only just.",
    ),
    (
        "The radio works at the dock and not at sea. Channel 16 is clear, channel {d} is noise. Anna thinks that it is the aerial.",
        "An aerial that works at the dock and not heeled has a cable that moves. Try it at the dock with somebody who shakes the masthead cable.",
    ),
];

/// What is worth keeping of it; each run saves some.
const MEMORIES: [(&str, &str, &str); 8] = [
    ("decision", "frame 11", "Frame 11 is opened from inside before anything is painted."),
    ("preference", "anna", "Anna prefers three offers of sailmakers to one."),
    ("fact", "chloe", "Chloe has the key of the shed at the slip."),
    ("event", "launch", "The launch is planned for May, if frame 11 is closed by then."),
    ("fact", "berth", "The berth at the north pier is free from April on and lies in the lee of the pier."),
    ("todo", "engine", "The two blades of the impeller have to be found before the new one goes in."),
    ("goal", "boat", "The four want to sail to the islands in July."),
    ("identity", "dmitri", "Dmitri paints, and is a carpenter by trade."),
];

/// The n-th thing that is said.
fn said(n: usize) -> String {
    filled(TALK[n % TALK.len()].0, n)
}

fn filled(text: &str, n: usize) -> String {
    text.replace("{n}", &(1_200 + n * 7).to_string()).replace("{d}", &(2 + n % 26).to_string())
}

/// What the model says: an answer that fits; before every second the history is searched, with all that this brings.
fn answer(seen: &Seen) -> Option<Answer> {
    if seen.kind == Kind::Compaction {
        return Some(summary(seen));
    }
    let asked = last_user_text(&seen.body);
    let n: usize = asked.split_once("Log ").and_then(|(_, n)| n.split(':').next()?.parse().ok())?;
    let messages = seen.body["messages"].as_array()?;
    let newest = messages.last()?;
    if n.is_multiple_of(2) && newest["role"] != "tool" {
        let words: Vec<&str> = asked.split_whitespace().skip(4).take(4).collect();
        let search = |words: &str| json!({ "query": words });
        let call = Answer::call("history_search", search(&words.join(" ")));
        let more = ["SRV", "launch", "berth", "impeller", "crane", "sails"].map(search);
        let call = more.into_iter().fold(call, |call, search| call.and_call("history_search", search));
        return Some(call.and_call("memory_search", search("frame 11")));
    }
    Some(Answer::text(filled(TALK[n % TALK.len()].1, n)))
}

/// A summary in the words of its source, once its memories are saved.
fn summary(seen: &Seen) -> Answer {
    let messages = seen.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let request = messages.iter().find(|message| message["role"] == "user").map(text_of).unwrap_or_default();
    let is_first = !messages.iter().any(|message| message["role"] == "tool");
    if is_first && request.contains("<transcript") && !seen.body["tools"].is_null() {
        let save = |idx: usize| {
            let (kind, subject, text) = MEMORIES[(seen.n + idx * 3) % MEMORIES.len()];
            json!({ "kind": kind, "subject": subject, "text": text, "importance": 0.7 })
        };
        return Answer::call("memory_save", save(0)).and_call("memory_save", save(1));
    }
    // What was said, without who said it and its number in the log; of summaries, their lines.
    let said = request.lines().filter_map(|line| match line.split_once("] ") {
        Some((_, said)) => {
            Some(said.strip_prefix("Log ").and_then(|said| Some(said.split_once(": ")?.1)).unwrap_or(said))
        }
        None => line.strip_prefix("- "),
    });
    let is_tools =
        |line: &&str| line.starts_with('(') || line.starts_with('[') || line.starts_with("nothing");
    let lines: Vec<&str> = said.filter(|line| !is_tools(line)).collect();
    let step = (lines.len() / 6).max(1);
    let kept: Vec<String> =
        lines.iter().step_by(step).take(6).map(|line| format!("- {}", sentence(line))).collect();
    let open = "- Frame 11 is to be closed before the launch.";
    Answer::text(format!("## Progress\n{}\n\n## Active topics and open commitments\n{open}", kept.join("\n")))
}

fn sentence(line: &str) -> &str {
    line.split_inclusive(". ").next().unwrap_or(line).trim()
}

/// A daemon with its page, and people who talk.
pub(crate) struct Scene {
    pub(crate) rig: Rig,
    pub(crate) address: SocketAddr,
}

impl Scene {
    pub(crate) async fn start(model: Builder) -> Self {
        Self::start_in(crate::home(), model, "").await
    }

    /// In that home, with more keys of the agent, and tables behind it.
    pub(crate) async fn start_in(home: Home, model: Builder, more: &str) -> Self {
        let (model, address) = (model.start().await, free_address());
        let table = model_table("main", &model.base_url(), WINDOW);
        let config = format!(
            "[admin]\npage = true\nlisten = \"{address}\"\n\n[defaults.compaction]\ntokens_per_hour = 0\nretry_base_ms = 1\n\n\
             {table}input_price = 3.0\noutput_price = 15.0\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n{more}"
        );
        let rig = Rig::start(home, model, &config).await;
        Self { rig, address }
    }

    /// The address of a view.
    pub(crate) fn at(&self, view: &str) -> String {
        format!("http://{}{view}", self.address)
    }

    /// A link that logs in once.
    pub(crate) fn link(&self, args: &[&str]) -> String {
        self.rig.json(&[&["ui"], args].concat())["url"].as_str().unwrap().to_owned()
    }

    /// Has people talk in the long conversation until it has that many entries.
    pub(crate) async fn talk(&self, entries: u64) {
        let (mut n, mut have) = (0, 0);
        while have < entries {
            for _ in 0..50 {
                self.say_nth(n).await;
                n += 1;
            }
            self.calm().await;
            let list = self.rig.get("/v1/channels").await;
            let line = list.as_array().unwrap().iter().find(|line| line["channel"] == CHANNEL).unwrap();
            have = line["entries"].as_u64().unwrap();
        }
    }

    /// Waits until no run is under way or due.
    pub(crate) async fn calm(&self) {
        let (status, gauge) = self.rig.post(&path("wait"), &json!({ "below": "calm" })).await;
        assert_eq!(status, 200, "{gauge}");
    }

    /// The n-th message of the long conversation; two a day, from March on.
    pub(crate) async fn say_nth(&self, n: usize) {
        let first: Timestamp = "2026-03-02T08:10:00Z".parse().unwrap();
        let at = first + SignedDuration::from_mins(n as i64 * 197);
        let text = format!("Log {n}: {}", said(n));
        let body = json!({ "user": PEOPLE[n % PEOPLE.len()], "text": text, "id": format!("b{n}"), "at": at });
        let (status, reply) = self.rig.post(&path("messages"), &body).await;
        assert_eq!(status, 200, "{reply}\n{}", self.rig.log());
    }
}

/// A path of the socket below the long conversation.
pub(crate) fn path(what: &str) -> String {
    format!("/v1/channels/boat/{what}")
}

/// Answers as the boat's people are used to.
pub(crate) fn model() -> Builder {
    FakeModel::builder().lenient().unrecorded().respond(answer)
}
