//! Which pending messages the next turn takes up. Pure.

use cairn_types::ids::{LOCAL_PLATFORM, MessageId, TurnId};
use cairn_types::message::Pending;

/// Share of the usable window that one turn's messages may fill.
const TURN_SHARE: u64 = 4;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnBatch {
    /// The id: that of the first message's turn.
    pub(super) turn: TurnId,
    /// The messages, oldest first.
    pub(super) messages: Vec<MessageId>,
    pub(super) addressed: bool,
}

/// The next turn, if one is due. On the local platform each message is a turn of its own. Elsewhere a turn takes all
/// pending messages up to a quarter of the window, once one is addressed to the bot or too many have gathered.
pub(super) fn next_turn(
    platform: &str,
    pending: &[&Pending],
    usable_tokens: u64,
    unaddressed_queue: usize,
) -> Option<TurnBatch> {
    let first = pending.first()?;
    let share = usable_tokens / TURN_SHARE;
    let batch = if platform == LOCAL_PLATFORM { &pending[..1] } else { fitting(pending, share) };
    let awaited = pending.iter().any(|message| message.addressed);
    let gathered = pending.len() > unaddressed_queue || batch.len() < pending.len();
    if platform != LOCAL_PLATFORM && !awaited && !gathered {
        return None;
    }
    Some(TurnBatch {
        turn: first.turn.clone(),
        messages: batch.iter().map(|message| message.message.clone()).collect(),
        addressed: batch.iter().any(|message| message.addressed),
    })
}

/// The pending messages that join the open turn between two rounds: only those by its own `people`, and at most a quarter of the
/// window together with the `taken` tokens of its messages so far. A reminder is always its own turn.
pub(super) fn joining(
    pending: &[&Pending],
    people: &[String],
    taken: u64,
    usable_tokens: u64,
) -> Vec<MessageId> {
    let mut left = (usable_tokens / TURN_SHARE).saturating_sub(taken);
    let is_of_turn = |message: &&&Pending| message.reminder.is_none() && people.contains(&message.author.id);
    let fits = |message: &&&Pending| {
        let tokens = u64::from(message.tokens);
        let fits = tokens <= left;
        left = left.saturating_sub(tokens);
        fits
    };
    pending.iter().filter(is_of_turn).take_while(fits).map(|message| message.message.clone()).collect()
}

/// The oldest messages that fit the share; at least one.
fn fitting<'a, 'b>(pending: &'a [&'b Pending], share: u64) -> &'a [&'b Pending] {
    let mut tokens = 0;
    let n = pending
        .iter()
        .take_while(|message| {
            tokens += u64::from(message.tokens);
            tokens <= share
        })
        .count();
    &pending[..n.max(1)]
}

#[cfg(test)]
mod tests {
    use cairn_types::message::{Author, Part};
    use cairn_types::reminder::Fired;
    use jiff::Timestamp;

    use super::*;

    fn pending(specs: &[(&str, u32)]) -> Vec<Pending> {
        let message = |(n, (text, tokens)): (usize, &(&str, u32))| Pending {
            message: MessageId::from(text.trim_end_matches('!')),
            turn: TurnId::from(format!("t{}", n + 1)),
            at: Timestamp::UNIX_EPOCH,
            author: Author { id: "x/u".into(), name: "u".into() },
            parts: vec![Part::text(*text)],
            addressed: text.ends_with('!'),
            direct: false,
            chat_name: None,
            language: None,
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            reminder: None,
            fingerprint: String::new(),
            tokens: *tokens,
        };
        specs.iter().enumerate().map(message).collect()
    }

    #[track_caller]
    fn check(platform: &str, specs: &[(&str, u32)], expected: Option<(&str, &str, bool)>) {
        let pending = pending(specs);
        let pending: Vec<_> = pending.iter().collect();
        let batch = next_turn(platform, &pending, 400, 3);
        let shown = batch.as_ref().map(|batch| {
            let messages: Vec<_> = batch.messages.iter().map(MessageId::as_str).collect();
            (batch.turn.to_string(), messages.join(" "), batch.addressed)
        });
        let expected =
            expected.map(|(turn, messages, addressed)| (turn.to_owned(), messages.to_owned(), addressed));
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_local_message_is_a_turn_of_its_own() {
        check("local", &[], None);
        check("local", &[("a!", 10), ("b!", 10)], Some(("t1", "a", true)));
        check("local", &[("a!", 1_000)], Some(("t1", "a", true)));
    }

    #[test]
    fn in_a_chat_all_that_waits_joins_up_to_a_quarter_of_the_window() {
        check("chat", &[("a", 10), ("b!", 10), ("c", 10)], Some(("t1", "a b c", true)));
        check("chat", &[("a!", 60), ("b!", 60)], Some(("t1", "a", true)));
        check("chat", &[("a!", 500), ("b!", 10)], Some(("t1", "a", true)));
    }

    #[test]
    fn only_the_turns_own_people_join_it_and_only_while_it_stays_within_its_share() {
        #[track_caller]
        fn check(specs: &[(&str, u32)], taken: u64, expected: &[&str]) {
            let mut pending = pending(specs);
            for message in &mut pending {
                message.author.id = format!("x/{}", &message.message.as_str()[..1]);
                let fired = Fired { id: "7".into(), next: None };
                message.reminder = message.message.as_str().ends_with('@').then_some(fired);
            }
            let pending: Vec<_> = pending.iter().collect();
            let joined = joining(&pending, &["x/a".to_owned(), "x/c".to_owned()], taken, 400);
            let joined: Vec<_> = joined.iter().map(MessageId::as_str).collect();
            assert_eq!(joined, expected);
        }
        check(&[("a1!", 10), ("b1!", 10), ("c1", 10)], 0, &["a1", "c1"]);
        check(&[("b1!", 500), ("a1@", 10), ("a2", 60), ("c1", 30), ("a3", 20), ("a4", 1)], 0, &["a2", "c1"]);
        check(&[("a1!", 60)], 50, &[]);
    }

    #[test]
    fn messages_to_nobody_wait_until_too_many_have_gathered() {
        check("chat", &[("a", 10), ("b", 10), ("c", 10)], None);
        check("chat", &[("a", 10), ("b", 10), ("c", 10), ("d", 10)], Some(("t1", "a b c d", false)));
        check("chat", &[("a", 90), ("b", 90)], Some(("t1", "a", false)));
        check("chat", &[("a", 90), ("b!", 90)], Some(("t1", "a", false)));
    }
}
