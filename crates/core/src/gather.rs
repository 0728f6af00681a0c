//! When a turn begins whose messages may have further parts: an album, or a long paste that a client splits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cairn_types::ids::MessageId;
use cairn_types::message::{Gather, Pending};

/// How long an album waits for its next part.
const ALBUM_WAIT: Duration = Duration::from_millis(1_500);

/// Longest that a turn waits, so that a stream of messages cannot postpone it for ever.
const LONGEST: Duration = Duration::from_secs(10);

/// When a pending message came in, and what may follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Since any fixed time of the process.
    pub at: Duration,
    pub gather: Gather,
}

/// Messages that wait for one another.
struct Group {
    first: Duration,
    until: Duration,
}

/// How long the next turn still waits for more; `None`: it begins now. `pending`: in the order of their arrival. Those without
/// an arrival came before a restart and wait for nothing.
///
/// An album waits for its next part. A person to whom an answer is due is waited for, unless one of their messages is whole.
pub fn wait_for_more(
    pending: &[&Pending],
    arrivals: &BTreeMap<MessageId, Arrival>,
    now: Duration,
) -> Option<Duration> {
    if arrivals.is_empty() {
        return None;
    }
    let mut albums: BTreeMap<&str, Group> = BTreeMap::new();
    let mut people: BTreeMap<&str, Group> = BTreeMap::new();
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    for message in pending {
        let Some(Arrival { at, gather }) = arrivals.get(&message.message) else { continue };
        let author = message.author.id.as_str();
        if let Some(album) = &gather.album {
            let wait = if gather.more { LONGEST } else { ALBUM_WAIT.max(gather.wait) };
            let group = albums.entry(album).or_insert(Group { first: *at, until: *at });
            group.until = *at + wait;
        }
        if message.addressed && gather.wait.is_zero() {
            whole.insert(author);
        }
        if let Some(group) = people.get_mut(author) {
            group.until = *at + gather.wait;
        } else if message.addressed {
            people.insert(author, Group { first: *at, until: *at + gather.wait });
        }
    }
    people.retain(|author, _| !whole.contains(author));
    let open = || albums.values().chain(people.values()).filter(|group| group.until > now);
    let until = open().map(|group| group.until).max()?;
    let first = open().map(|group| group.first).min()?;
    until.min(first + LONGEST).checked_sub(now).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use cairn_types::ids::TurnId;
    use cairn_types::message::{Author, Part, Provenance};
    use jiff::Timestamp;

    use super::*;

    /// What came in: `AUTHOR[!] AT_MS [album NAME | more NAME | whole | early]`, `!`: addressed. The default wait is 1,500 ms.
    #[track_caller]
    fn check(specs: &[&str], now_ms: u64, expected_ms: Option<u64>) {
        let (mut pending, mut arrivals) = (Vec::new(), BTreeMap::new());
        for (n, spec) in specs.iter().enumerate() {
            let words: Vec<&str> = spec.split(' ').collect();
            let (author, id) = (words[0].trim_end_matches('!'), MessageId::from(format!("m{n}")));
            let kind = words.get(2).copied().unwrap_or_default();
            let album = (kind == "album" || kind == "more").then(|| words[3].to_owned());
            let wait = Duration::from_millis(if kind.is_empty() { 1_500 } else { 0 });
            let gather = Gather { wait, album, more: kind == "more" };
            pending.push(Pending {
                message: id.clone(),
                turn: TurnId::from("t1"),
                at: Timestamp::UNIX_EPOCH,
                author: Author { id: author.to_owned(), name: author.to_owned() },
                parts: vec![Part::text("x")],
                addressed: words[0].ends_with('!'),
                direct: false,
                chat_name: None,
                language: None,
                provenance: Provenance::default(),
                spoken: false,
                reminder: None,
                fingerprint: String::new(),
                tokens: 1,
            });
            if kind != "early" {
                let at = Duration::from_millis(words[1].parse().unwrap());
                arrivals.insert(id, Arrival { at, gather });
            }
        }
        let pending: Vec<&Pending> = pending.iter().collect();
        let wait = wait_for_more(&pending, &arrivals, Duration::from_millis(now_ms));
        assert_eq!(wait, expected_ms.map(Duration::from_millis), "{specs:?}");
    }

    #[test]
    fn a_person_is_waited_for_from_their_last_message_on() {
        check(&[], 0, None);
        check(&["ann! 0"], 0, Some(1_500));
        check(&["ann! 0"], 1_499, Some(1));
        check(&["ann! 0"], 1_500, None);
        check(&["ann! 0", "ann 1000"], 1_000, Some(1_500));
        check(&["ann! 0", "ben 1400"], 1_400, Some(100));
        check(&["ben 0", "ann! 1400"], 1_400, Some(1_500));
        check(&["ann 0"], 0, None);
    }

    #[test]
    fn a_whole_message_and_what_came_before_a_restart_wait_for_nothing() {
        check(&["ann! 0 whole"], 0, None);
        check(&["ann! 0", "ann! 100 whole"], 100, None);
        check(&["ann! 0 whole", "ben! 100"], 100, Some(1_500));
        check(&["ann! 0 early"], 0, None);
    }

    #[test]
    fn an_album_waits_for_its_next_part_even_where_messages_do_not() {
        check(&["ann! 0 album a"], 0, Some(1_500));
        check(&["ann! 0 album a", "ann 1000 album a"], 2_000, Some(500));
        check(&["ann! 0 more a"], 5_000, Some(5_000));
        check(&["ann! 0 more a", "ann 5000 album a"], 5_000, Some(1_500));
        check(&["ann! 0 album a", "ann! 100 album b"], 1_550, Some(50));
    }

    #[test]
    fn a_stream_of_messages_postpones_a_turn_for_ten_seconds_at_most() {
        let stream: Vec<String> = (0..12).map(|n| format!("ann! {}", n * 1_000)).collect();
        let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
        check(&stream[..10], 9_000, Some(1_000));
        check(&stream[..11], 10_000, None);
        check(&stream, 11_000, None);
        let people: Vec<String> = (0..12).map(|n| format!("p{n}! {}", n * 1_000)).collect();
        let people: Vec<&str> = people.iter().map(String::as_str).collect();
        check(&people[..9], 8_000, Some(1_500));
    }
}
