//! Reminders in the views: by channel, and by when they are due.

use super::common::{Chat, at, channel, chatting, open, remove_derived};
use cairn_core::store_port::{Due, Store as _};
use cairn_types::event::{Event, MessageEvent, ReminderEvent};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Author, Pending, Provenance};
use cairn_types::reminder::{Fired, Reminder};

fn set(id: &str, due: i64) -> Event {
    Event::Reminder(ReminderEvent::Set(Reminder {
        id: id.into(),
        by: Author { id: "local/ana".to_owned(), name: "Ana".to_owned() },
        text: format!("text of {id}"),
        due: at(due),
        rule: None,
        zone: "UTC".to_owned(),
        set_at: at(0),
        provenance: Provenance::default(),
    }))
}

fn fired(chat: &Chat, id: &str, next: Option<i64>) -> Event {
    let reminder = Some(Fired { id: id.into(), next: next.map(at) });
    Event::Message(MessageEvent::Accepted(Pending { reminder, ..chat.pending(id, "ana", "now") }))
}

fn due(channels: &[&ChannelId], next: Option<i64>) -> Due {
    Due { channels: channels.iter().map(|channel| (*channel).clone()).collect(), next: next.map(at) }
}

#[tokio::test]
async fn channels_are_found_by_the_first_of_their_reminders() {
    let (dir, store, mut main) = chatting();
    let (here, there) = (channel("main"), channel("other"));
    let mut other = Chat::new(&store, "other");
    assert_eq!(store.due(at(0)).await.unwrap(), Due::default());
    main.append(vec![set("1", 500), set("2", 300)]).await;
    other.append(vec![set("1", 400)]).await;
    assert_eq!(store.due(at(299)).await.unwrap(), due(&[], Some(300)));
    assert_eq!(store.due(at(300)).await.unwrap(), due(&[&here], Some(400)));
    assert_eq!(store.due(at(450)).await.unwrap(), due(&[&here, &there], None));
    main.append(vec![fired(&main, "2", Some(900))]).await;
    assert_eq!(store.due(at(450)).await.unwrap(), due(&[&there], Some(500)));
    main.append(vec![fired(&main, "1", None)]).await;
    other.append(vec![Event::Reminder(ReminderEvent::Cancelled { id: "1".into(), by: None })]).await;
    let left = |all: Vec<(ChannelId, Reminder)>| {
        all.into_iter().map(|(of, left)| (of, left.id.to_string(), left.due)).collect::<Vec<_>>()
    };
    store.close().await;
    // After a restart, and made again from the journal.
    for _ in 0..2 {
        let store = open(dir.path());
        assert_eq!(store.due(at(600)).await.unwrap(), due(&[], Some(900)));
        assert_eq!(left(store.reminders(None, 10).await.unwrap()), [(here.clone(), "2".to_owned(), at(900))]);
        assert!(store.reminders(Some(&there), 10).await.unwrap().is_empty());
        let restored = store.restore(&here).await.unwrap().unwrap();
        assert_eq!(restored.reminders, main.state.reminders);
        store.close().await;
        remove_derived(dir.path());
    }
}
