//! Large results of tools: what the model is shown, what is kept, how it is read on, when it goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_core::artifact::recording_id;
use cairn_core::store_port::Store as _;
use cairn_types::event::{ArtifactEvent, Event, TurnEvent};
use cairn_types::ids::{ArtifactId, ChannelId, MessageId};
use cairn_types::message::{Amendment, Change, EXPIRED_TEXT, Entry, Inbound, Recording, Role};
use cairn_types::ports::{Intake as _, StoreError, Tool};
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::result_class::ResultClass;
use cairn_types::tool::{Effect, ToolFailure, ToolOutput};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::common::model::{Kind, Plan, words};
use super::common::*;
use crate::{BadTool, all_tools};

/// Numbered lines, an error, a panic, or nothing for long.
struct Played(&'static str, ResultClass);

impl Tool for Played {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: self.0.to_owned(),
            description: "for tests".to_owned(),
            parameters: json!({ "type": "object" }),
        }
    }

    fn class(&self) -> ResultClass {
        self.1
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let name = self.0;
        assert!(name != "broken", "planned");
        Box::pin(async move {
            let n_lines = arguments["lines"].as_u64().unwrap_or(1);
            let lines: String = (1..=n_lines).map(|n| format!("line {n} of the result\n")).collect();
            match name {
                "fail" => Err(lines.into()),
                "slow" => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    Ok(ToolOutput::text(lines))
                }
                _ => Ok(ToolOutput::text(lines)),
            }
        })
    }
}

fn tools(names: &[&'static str]) -> Vec<Arc<dyn Tool>> {
    names.iter().map(|name| Arc::new(Played(name, ResultClass::Auto)) as _).collect()
}

/// A house with room for a result, and a guard to match.
fn world() -> World {
    let mut world = World::new().with_more_tools(tools(&["flood", "fail", "slow", "broken"]));
    world.settings.window.window_tokens = 20_000;
    world.settings.result_guard.max_bytes = 5_000;
    world
}

/// Has the model make these calls in one round; the results, oldest first.
async fn results_of(world: &World, live: &Live, calls: Vec<(&'static str, Value)>) -> Vec<Arc<Entry>> {
    let n_calls = calls.len();
    world.model.plan(Kind::Reply, Plan::Calls(calls));
    live.ask(&format!("call-{}", world.store.records().len()), "please look").await;
    let mut results = world.store.history(&local());
    results.retain(|entry| entry.role == Role::Tool);
    results.split_off(results.len() - n_calls)
}

async fn result_of(world: &World, live: &Live, name: &'static str, arguments: Value) -> Arc<Entry> {
    results_of(world, live, vec![(name, arguments)]).await.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_an_artifact_and_can_be_read_on() {
    let world = world();
    let live = world.start().await;
    let result = result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    let text = result.text();
    assert!(text.starts_with("line 1 of") && text.ends_with("line 2000 of the result\n"), "{text}");
    assert!(text.len() <= 5_000 && text.contains("\n[truncated: output exceeded context limit]\n"), "{text}");
    assert_eq!(result.artifact, Some("a1".into()));
    assert!(words(world.model.requests(Kind::Reply).last().unwrap()).contains("artifact a1"));
    let stored = world.store.events();
    let before_entry = stored
        .iter()
        .position(|event| matches!(event, Event::Artifact(ArtifactEvent::Stored { .. })))
        .unwrap();
    let Event::Turn(TurnEvent::EntryAdded { entry }) = &stored[before_entry + 1] else {
        panic!("{stored:?}")
    };
    assert_eq!(entry.seq, result.seq);
    let next = text.split("from = ").nth(1).unwrap().split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(text.contains(&format!("line {} of", next - 1)) && !text.contains(&format!("line {next} of")));
    drop(live);
    let world = world.killed();
    let live = world.start().await;
    let page =
        result_of(&world, &live, "artifact_read", json!({ "id": "a1", "from": next, "count": 2 })).await;
    let lines = format!("line {next} of the result\nline {} of the result\n", next + 1);
    assert!(
        page.text().contains(&lines) && page.text().contains(&format!("from = {}]", next + 2)),
        "{page:?}"
    );
    let rest = result_of(&world, &live, "artifact_read", json!({ "id": "a1", "from": 1_999 })).await;
    assert!(rest.text().ends_with("line 2000 of the result\n[end of artifact a1]"), "{rest:?}");
    let whole = result_of(&world, &live, "artifact_read", json!({ "id": "a1" })).await;
    assert!(whole.text().len() <= 5_000 && whole.text().contains("goes on"), "{whole:?}");
    assert_eq!((page.artifact.clone(), whole.artifact.clone()), (None, None), "not stored again");
    assert_eq!(world.store.count(|event| matches!(event, Event::Artifact(ArtifactEvent::Used { .. }))), 3);
    assert_eq!(world.store.artifacts.names(), ["main/local/main a1"]);
}

#[tokio::test(start_paused = true)]
async fn an_artifact_is_its_channels_own_and_outlives_a_new_conversation() {
    let world = world();
    let live = world.start().await;
    result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    let other: ChannelId = "main/local/other".parse().unwrap();
    for id in ["a1", "main/local/main/a1"] {
        world.model.plan(Kind::Reply, Plan::Calls(vec![("artifact_read", json!({ "id": id }))]));
        answer(live.submit(message(&other, id, "read it")).await.unwrap()).await;
        let told = world.store.history(&other).iter().rfind(|entry| entry.role == Role::Tool).unwrap().text();
        assert_eq!(told, format!("error: there is no artifact `{id}` in this channel; it has none"));
    }
    live.runtime.new_generation(&local()).await.unwrap();
    let page = result_of(&world, &live, "artifact_read", json!({ "id": "a1", "count": 1 })).await;
    assert!(page.text().contains("line 1 of"), "{page:?}");
    let again = result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    assert_eq!(again.artifact, Some("a2".into()), "ids go on over generations");
    for (arguments, error) in [
        (json!({ "id": "a1", "from": 2_001 }), "error: artifact a1 has 2000 lines: there is no line 2001"),
        (json!({ "id": "a1", "from": 0 }), "error: `from` is not a whole number from 1 on"),
        (json!({ "id": "a1", "count": "x" }), "error: `count` is not a whole number from 1 on"),
        (json!({}), "error: `id` is missing or empty"),
    ] {
        assert_eq!(result_of(&world, &live, "artifact_read", arguments).await.text(), error);
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_one_round_share_the_free_window() {
    let mut world = world();
    world.settings.result_guard.max_bytes = 50_000;
    let live = world.start().await;
    let sizes = [1_000, 1_000, 1, 1_000, 1_000, 1, 1_000, 1_000, 1_000, 1_000];
    let calls = sizes.iter().map(|lines| ("flood", json!({ "lines": lines }))).collect();
    let results = results_of(&world, &live, calls).await;
    let (small, large): (Vec<_>, Vec<_>) = results.iter().partition(|entry| entry.artifact.is_none());
    assert_eq!((small.len(), large.len()), (2, 8), "small ones stay whole");
    for entry in &large {
        let text = entry.text();
        assert!(text.starts_with("line 1 of") && text.ends_with("line 1000 of the result\n"), "{text}");
        assert!(text.contains("artifact_read"), "{text}");
    }
    let tokens: Vec<u32> = large.iter().map(|entry| entry.tokens).collect();
    let (least, most) = (tokens.iter().min().unwrap(), tokens.iter().max().unwrap());
    assert!(*least > 400 && most - least < least / 2, "equal parts: {tokens:?}");
    let ids: Vec<_> = large.iter().filter_map(|entry| entry.artifact.clone()).collect();
    let expected: Vec<ArtifactId> = (1..=ids.len()).map(|n| format!("a{n}").into()).collect();
    assert_eq!(ids, expected);
    assert!(world.store.count(is_emergency) == 0, "the results leave room");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_costs_the_rest_of_a_result_not_the_turn() {
    let world = world();
    let live = world.start().await;
    world.store.artifacts.full.store(true, Ordering::SeqCst);
    let result = result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    let text = result.text();
    assert!(text.starts_with("line 1 of") && text.ends_with("line 2000 of the result\n"), "{text}");
    assert!(text.contains("could not be stored, and what is not shown is lost"), "{text}");
    assert_eq!(result.artifact, None);
    assert_eq!(world.store.count(|event| matches!(event, Event::Artifact(ArtifactEvent::Stored { .. }))), 0);
    world.store.artifacts.full.store(false, Ordering::SeqCst);
    let result = result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    assert_eq!(result.artifact, Some("a1".into()));
}

#[tokio::test(start_paused = true)]
async fn whatever_a_tool_does_the_turn_goes_on() {
    let world = world();
    let live = world.start().await;
    let error = result_of(&world, &live, "fail", json!({ "lines": 2_000 })).await;
    assert!(
        error.text().starts_with("error: line 1 of") && error.artifact.is_some(),
        "errors pass the guard"
    );
    let broken = result_of(&world, &live, "broken", json!({})).await;
    assert_eq!(broken.text(), "error: `broken` broke down; do without it");
    let slow = result_of(&world, &live, "slow", json!({})).await;
    assert_eq!(slow.text(), "error: `slow` took longer than 60 s");
    assert_eq!(live.ask("z", "well?").await, "re: well?");
}

#[tokio::test(start_paused = true)]
async fn classes_are_the_tools_own_unless_configured() {
    let tools = vec![
        Arc::new(Played("browse", ResultClass::AlwaysOffload)) as Arc<dyn Tool>,
        Arc::new(Played("cat", ResultClass::KeepRecent)) as _,
        Arc::new(Played("flood", ResultClass::Auto)) as _,
    ];
    let mut world = World::new().with_more_tools(tools);
    world.settings.window.window_tokens = 100_000;
    world.settings.result_guard.classes.insert("flood".to_owned(), ResultClass::AlwaysOffload);
    let live = world.start().await;
    let browse = result_of(&world, &live, "browse", json!({ "lines": 200 })).await;
    assert!(browse.artifact.is_some() && browse.text().len() <= 2_000, "{browse:?}");
    let flood = result_of(&world, &live, "flood", json!({ "lines": 200 })).await;
    assert!(flood.artifact.is_some() && flood.text().len() <= 2_000, "{flood:?}");
    let cat = result_of(&world, &live, "cat", json!({ "lines": 3_000 })).await;
    assert!(cat.artifact.is_some() && cat.text().len() > 50_000, "whole, and an artifact");
    world.settings.result_guard.enabled = false;
    drop(live);
    let mut off = world.killed();
    off.settings.result_guard.enabled = false;
    let live = off.start().await;
    let flood = result_of(&off, &live, "flood", json!({ "lines": 4_000 })).await;
    assert!(flood.artifact.is_none() && flood.text().len() > 80_000, "switched off");
}

#[tokio::test(start_paused = true)]
async fn a_name_belongs_to_one_tool() {
    let why = |names: &[&'static str]| all_tools(&tools(names)).unwrap_err();
    assert_eq!(why(&["flood", "flood"]), BadTool::Twice("flood".to_owned()));
    assert_eq!(why(&["history_read"]), BadTool::Twice("history_read".to_owned()));
    assert_eq!(why(&["rm -rf"]), BadTool::Name("rm -rf".to_owned()));
    let names = |order: &[&'static str]| -> Vec<String> {
        all_tools(&tools(order)).unwrap().into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(names(&["b", "a"]), names(&["a", "b"]));
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn is_expired(event: &Event) -> bool {
    matches!(event, Event::Artifact(ArtifactEvent::Expired { .. }))
}

#[tokio::test(start_paused = true)]
async fn an_artifact_expires_so_many_days_after_its_last_use() {
    let mut world = world();
    world.settings.result_guard.artifact_days = 3;
    world.limits.idle_after = 100 * DAY;
    let live = world.start().await;
    for _ in 0..2 {
        result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    }
    tokio::time::sleep(2 * DAY).await;
    result_of(&world, &live, "artifact_read", json!({ "id": "a2", "count": 1 })).await;
    assert_eq!(world.store.count(is_expired), 0);
    tokio::time::sleep(2 * DAY).await;
    settle().await;
    assert_eq!(world.store.artifacts.names(), ["main/local/main a2"]);
    let gone = result_of(&world, &live, "artifact_read", json!({ "id": "a1" })).await.text();
    assert!(gone.starts_with("error: artifact a1 expired on 2026-01-0"), "{gone}");
    assert!(gone.contains("3 days after it was last read"), "{gone}");
    let history = world.store.history(&local());
    let entry = history.iter().find(|entry| entry.artifact == Some("a1".into())).unwrap();
    assert!(entry.text().contains("artifact a1"), "entries keep their reference");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_is_awake_keeps_no_more_than_its_room() {
    let mut world = world();
    world.settings.result_guard.artifact_mib = 1;
    let live = world.start().await;
    // Each has some 0.4 MiB.
    for _ in 0..5 {
        result_of(&world, &live, "flood", json!({ "lines": 20_000 })).await;
        settle().await;
    }
    let bytes: usize = world.store.artifacts.sizes().into_iter().sum();
    assert!((1 << 19..=1 << 20).contains(&bytes), "{bytes}");
    let gone = result_of(&world, &live, "artifact_read", json!({ "id": "a1" })).await.text();
    assert!(gone.contains("since newer ones of this channel needed its room"), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn no_file_goes_before_that_is_journalled_and_what_a_crash_left_goes_at_wake() {
    let mut world = world();
    world.settings.result_guard.artifact_days = 3;
    world.limits.idle_after = 100 * DAY;
    let live = world.start().await;
    result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
    tokio::time::sleep(2 * DAY + DAY / 2).await;
    world.store.fail_next(StoreError::DiskFull { path: "/state".to_owned() });
    tokio::time::sleep(DAY).await;
    assert_eq!((world.store.count(is_expired), world.store.artifacts.names().len()), (0, 1));
    tokio::time::sleep(DAY).await;
    settle().await;
    assert_eq!((world.store.count(is_expired), world.store.artifacts.names().len()), (1, 0));
    drop(live);
    let world = world.killed();
    world.store.put_artifact(&local(), &"a1".into(), Arc::from(b"left behind".as_slice())).await.unwrap();
    let live = world.start().await;
    live.ask("wake", "hello").await;
    settle().await;
    assert!(world.store.artifacts.names().is_empty());
    assert_eq!(world.store.count(is_expired), 1);
}

/// A year back holds them longer; a year on is taken for a year. Either way nothing expires twice, and talk goes on.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_expires_artifacts_once_at_most() {
    let year = 365 * 24 * 3_600;
    for (secs, days, expired) in [(-3_600, 5, 1), (3_600, 5, 1), (-year, 5, 0), (year, 2, 1)] {
        let mut world = world();
        world.settings.result_guard.artifact_days = 3;
        world.limits.idle_after = 100 * DAY;
        let live = world.start().await;
        result_of(&world, &live, "flood", json!({ "lines": 2_000 })).await;
        let off = |secs| world.off.store(secs, std::sync::atomic::Ordering::SeqCst);
        off(secs);
        tokio::time::sleep(days * DAY).await;
        settle().await;
        let left = || (world.store.count(is_expired), world.store.artifacts.names().len());
        assert_eq!(left(), (expired, 1 - expired), "after {secs} s");
        live.ask("after", "hello").await;
        off(0);
        tokio::time::sleep(5 * DAY).await;
        settle().await;
        assert_eq!(left(), (1, 0), "after {secs} s and back");
    }
}

/// A voice message with its recording.
fn spoken(id: &str, text: &str) -> Inbound {
    let (name, data) = ("voice.ogg".to_owned(), Arc::from(id.as_bytes()));
    let recordings = vec![Recording { name, media_type: "audio/ogg", data }];
    Inbound { spoken: true, recordings, ..message(&group(), id, text) }
}

#[tokio::test(start_paused = true)]
async fn a_recording_goes_with_its_message_with_its_words_and_after_its_days() {
    let mut world = world();
    world.settings.result_guard.artifact_days = 3;
    world.limits.idle_after = 100 * DAY;
    let live = world.start().await;
    for (id, text) in [("m1", "hello"), ("m2", EXPIRED_TEXT), ("m3", "never mind"), ("m1", "hello")] {
        reply(live.submit(spoken(id, text)).await.unwrap()).await;
    }
    let are_kept = |ids: &[&str]| {
        let name = |id: &&str| format!("{} {}", group(), recording_id(&MessageId::from(*id), 0));
        let mut names: Vec<String> = ids.iter().map(name).collect();
        names.sort();
        assert_eq!(world.store.artifacts.names(), names);
    };
    are_kept(&["m1", "m2", "m3"]);
    let at = Timestamp::from_second(1_767_225_700).unwrap();
    let deleted = Amendment { channel: group(), message: "m3".into(), at, change: Change::Deleted };
    live.runtime.amend(deleted).await.unwrap();
    settle().await;
    are_kept(&["m1", "m2"]);
    tokio::time::sleep(DAY + DAY / 2).await;
    are_kept(&["m1"]);
    tokio::time::sleep(2 * DAY).await;
    settle().await;
    are_kept(&[]);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_costs_the_recording_not_its_message() {
    let world = world();
    let live = world.start().await;
    world.store.artifacts.full.store(true, Ordering::SeqCst);
    reply(live.submit(spoken("m1", "hello")).await.unwrap()).await;
    let is_stored = |event: &Event| matches!(event, Event::Artifact(ArtifactEvent::Stored { .. }));
    assert_eq!((world.store.count(is_stored), world.store.artifacts.names().len()), (0, 0));
    assert!(world.store.history(&group())[0].spoken);
}
