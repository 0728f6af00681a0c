//! Evidence recall at 10 of the search index on a LoCoMo file: `recall FILE`.
//!
//! Each conversation becomes a channel of a fresh store, each turn an entry; each question is searched for, and the
//! share of its evidence turns among the first ten hits is averaged, by category and over all.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use cairn_core::event::{Event, NewRecord};
use cairn_core::ids::{AgentId, ChannelId, Generation, MessageId, Seq, TurnId};
use cairn_core::message::{Author, Entry, Part, Role};
use cairn_core::ports::{HitKind, Journal, Query, Search};
use cairn_store::{Store, StoreOptions};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde_json::Value;

const AT: usize = 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: recall FILE")?;
    let data: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let dir = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::new(dir.path()))?;
    let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (idx, item) in data.iter().enumerate() {
        let channel = ChannelId::local(&AgentId::from("main"), &format!("c{idx}"))?;
        load(&store, &channel, &item["conversation"]).await?;
    }
    for (idx, item) in data.iter().enumerate() {
        let channel = ChannelId::local(&AgentId::from("main"), &format!("c{idx}"))?;
        for question in item["qa"].as_array().into_iter().flatten() {
            let wanted = evidence(&question["evidence"]);
            if wanted.is_empty() {
                continue;
            }
            let query = Query {
                channel: channel.clone(),
                text: question["question"].as_str().unwrap_or_default().to_owned(),
                kind: Some(HitKind::Entry),
                scopes: Vec::new(),
                limit: AT,
                settled: true,
            };
            let found: BTreeSet<String> = store.search(query).await?.into_iter().map(|hit| hit.id).collect();
            let share = wanted.intersection(&found).count() as f64 / wanted.len() as f64;
            shares.entry(question["category"].as_u64().unwrap_or(0)).or_default().push(share);
        }
    }
    store.close().await;
    let percent = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>() / shares.len() as f64;
    for (category, shares) in &shares {
        println!("category {category}: {:5.1}  ({} questions)", percent(shares), shares.len());
    }
    let all: Vec<f64> = shares.into_values().flatten().collect();
    println!("all:        {:5.1}  ({} questions)", percent(&all), all.len());
    Ok(())
}

async fn load(store: &Store, channel: &ChannelId, conversation: &Value) -> Result<(), Box<dyn Error>> {
    let mut seq = Seq(1);
    for session in 1.. {
        let Some(date) = conversation[format!("session_{session}_date_time")].as_str() else { break };
        let mut at = moment(date)?;
        let mut records = Vec::new();
        for turn in conversation[format!("session_{session}")].as_array().into_iter().flatten() {
            let text = |key: &str| turn[key].as_str().unwrap_or_default().to_owned();
            let mut words = text("text");
            if let Some(picture) = turn["blip_caption"].as_str() {
                words.push_str(&format!(" [shares a picture: {picture}]"));
            }
            let entry = Entry {
                seq,
                turn: TurnId::from(format!("t{seq}")),
                generation: Generation(1),
                at,
                role: Role::User,
                author: Some(Author { id: format!("local/{}", text("speaker")), name: text("speaker") }),
                message: Some(MessageId::from(text("dia_id"))),
                parts: vec![Part::text(words)],
                reasoning: None,
                tool_calls: Vec::new(),
                tool_call_id: None,
                artifact: None,
                voices: cairn_core::voices::Voices::default(),
                quotes: false,
                tokens: 0,
            };
            records.push(NewRecord {
                channel: Some(channel.clone()),
                at,
                event: Event::EntryAdded { entry },
            });
            seq = seq.next();
            at += 20.seconds();
        }
        store.append(records).await?;
    }
    Ok(())
}

/// `1:56 pm on 8 May, 2023`.
fn moment(text: &str) -> Result<Timestamp, Box<dyn Error>> {
    let civil = DateTime::strptime("%I:%M %p on %d %B, %Y", text).map_err(|error| error.to_string())?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp())
}

/// Ids of evidence turns; some strings pack several, or pad them with zeros.
fn evidence(list: &Value) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
        for piece in text.split('D').skip(1) {
            let mut numbers = piece.trim_start_matches(':').splitn(2, ':').map(|number| {
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u64>()
            });
            if let (Some(Ok(session)), Some(Ok(turn))) = (numbers.next(), numbers.next()) {
                ids.insert(format!("D{session}:{turn}"));
            }
        }
    }
    ids
}
