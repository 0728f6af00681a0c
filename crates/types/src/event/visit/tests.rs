//! What visitors get of an event of each kind.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use crate::testing::{every_event, kept_from_visitors, with_each_text};

/// Replaces all that it gets.
struct Replace;

impl Visit for Replace {
    fn words(&mut self, words: &mut String, _: Kind) -> bool {
        "gone".clone_into(words);
        true
    }

    fn json(&mut self, value: &mut Value) -> bool {
        *value = json!({});
        true
    }

    fn person(&mut self, person: &mut String) -> bool {
        self.words(person, Kind::Said)
    }

    fn bare(&mut self, _: &str, id: &mut String) -> bool {
        self.words(id, Kind::Said)
    }

    fn author(&mut self, author: &mut Author) -> bool {
        self.person(&mut author.id) | self.person(&mut author.name)
    }

    fn message(&mut self, message: &mut MessageId) -> bool {
        *message = "gone".into();
        true
    }

    fn channel(&mut self, channel: &mut ChannelId) -> bool {
        *channel = "main/telegram/gone".parse().unwrap();
        true
    }

    fn delivery(&mut self, id: &mut OutboxId) -> bool {
        *id = "gone".into();
        true
    }

    fn memory(&mut self, id: &mut MemoryId) -> bool {
        *id = "gone".into();
        true
    }

    fn sighting(&mut self, sighting: &mut String, _: Option<&ChannelId>) -> bool {
        self.words(sighting, Kind::Said)
    }
}

/// Leaves everything as it is.
struct Look;

impl Visit for Look {
    fn words(&mut self, _: &mut String, _: Kind) -> bool {
        false
    }

    fn json(&mut self, _: &mut Value) -> bool {
        false
    }
}

fn canary(text: &str) -> String {
    match text {
        _ if text.starts_with("main/telegram/-100") => text.replace("-100", "canary"),
        _ if text.starts_with("user:") || text.starts_with("chat:") => "user:telegram/canary".to_owned(),
        _ => "canary".to_owned(),
    }
}

#[test]
fn visitors_get_every_text_and_id_but_these() {
    let events = every_event();
    let mut kept = BTreeSet::new();
    for (path, mut event) in with_each_text(&events, canary) {
        event.visit_mut(&mut Replace);
        if serde_json::to_string(&event).unwrap().contains("canary") {
            kept.insert(path);
        }
    }
    assert_eq!(kept, kept_from_visitors());
}

#[test]
fn who_only_looks_changes_nothing() {
    for json in every_event() {
        let before: Event = serde_json::from_value(json.clone()).unwrap();
        let mut event = before.clone();
        assert!(!event.visit_mut(&mut Look));
        assert_eq!(event, before);
        assert_eq!(serde_json::to_value(&event).unwrap(), json, "it has no other fields");
        let changed = event.visit_mut(&mut Replace);
        // Hashes and tokens may be others without a change of what they are of.
        assert_eq!(changed, event != before, "{json}");
    }
}

/// Names of the kinds of a family.
fn kinds<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_value::<T>(json!({ "type": "?" })).err().unwrap().to_string();
    let (_, listed) = error.split_once("expected").unwrap();
    listed.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn every_kind_of_event_is_there() {
    let mut all = BTreeSet::new();
    all.extend(kinds::<MessageEvent>());
    all.extend(kinds::<TurnEvent>());
    all.extend(kinds::<CompactionEvent>());
    all.extend(kinds::<ArtifactEvent>());
    all.extend(kinds::<MemoryEvent>());
    all.extend(kinds::<DeliveryEvent>());
    all.extend(kinds::<ApprovalEvent>());
    all.extend(kinds::<ReminderEvent>());
    all.extend(kinds::<RegistryEvent>());
    all.extend(kinds::<MaintenanceEvent>());
    let here: BTreeSet<String> =
        every_event().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(here, all);
}
