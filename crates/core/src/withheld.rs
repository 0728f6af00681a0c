//! Parts of a conversation that are left out of requests because a model's server refuses them, so that no refusal silences
//! a channel. The history keeps everything: it is summarised and searched as usual.
//!
//! If a server refuses a request for an unknown reason, it is asked without the older half of the history, without three
//! quarters of it, and so on down to the open turn. Once it answers, only the part between the last two tries stays left
//! out, since it contains the refused message. A turn that is refused by itself ends as refused, and its messages are left
//! out from then on ([`cairn_types::message::REFUSED`]).

use cairn_types::ids::SeqRange;

use crate::conversation::Conversation;
use crate::turn::spans;

/// What the next try leaves out: half of the older turns that are still included. `before`: what the refused try left out.
/// `None`: no older turn is left.
pub fn widened(conversation: &Conversation, before: Option<SeqRange>) -> Option<SeqRange> {
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let spans = spans(conversation);
    let older: Vec<_> = spans.iter().filter(|span| Some(&span.turn) != open).collect();
    let first = older.first()?.from_seq;
    let still_in: Vec<_> =
        older.into_iter().filter(|span| before.is_none_or(|range| span.to_seq > range.to_seq)).collect();
    let last = still_in.get(still_in.len().checked_sub(1)? / 2)?;
    Some(SeqRange { from_seq: first, to_seq: last.to_seq })
}

/// What stays left out after a try that left out `answered` has succeeded. `refused`: what the try before it left out.
pub fn narrowed(answered: SeqRange, refused: Option<SeqRange>) -> SeqRange {
    let from_seq = refused.map_or(answered.from_seq, |refused| refused.to_seq.next());
    SeqRange { from_seq, ..answered }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use cairn_types::ids::{AgentId, ChannelId, Generation, Seq, TurnId};
    use cairn_types::message::{Entry, Role};

    /// Turns of two entries each; the last is open.
    fn conversation(n_turns: u64) -> Conversation {
        let channel = ChannelId::local(&AgentId::new("main"), "c").unwrap();
        let mut conversation = Conversation::new(channel);
        for n in 0..n_turns {
            let turn = TurnId::from(format!("t{n}"));
            for (seq, role) in [(2 * n + 1, Role::User), (2 * n + 2, Role::Assistant)] {
                let entry =
                    Entry::new(Seq(seq), &turn, Generation::default(), jiff::Timestamp::UNIX_EPOCH, role);
                conversation.live.push_back(Arc::new(entry));
            }
        }
        conversation
    }

    /// The range that stays left out where a server refuses whatever holds the entry `poison`, and the tries until it answers.
    fn found(n_turns: u64, poison: u64) -> (Option<SeqRange>, u32) {
        let conversation = conversation(n_turns);
        let (mut before, mut tries) = (None, 0);
        while let Some(range) = widened(&conversation, before) {
            tries += 1;
            if range.contains(Seq(poison)) {
                return (Some(narrowed(range, before)), tries);
            }
            before = Some(range);
        }
        (None, tries)
    }

    #[test]
    fn every_refused_message_is_found_within_a_few_tries_and_with_little_beside_it() {
        for n_turns in [1_u64, 2, 3, 7, 64, 500] {
            for poison in 1..=2 * n_turns {
                let (range, tries) = found(n_turns, poison);
                let range = range.expect("found");
                assert!(range.contains(Seq(poison)), "{n_turns} turns, entry {poison}: {range:?}");
                assert!(tries <= n_turns.ilog2() + 2, "{n_turns} turns, entry {poison}: {tries} tries");
                let behind = 2 * n_turns - range.to_seq.0;
                let size = range.to_seq.0 - range.from_seq.0 + 1;
                assert!(
                    size <= behind + 4,
                    "{n_turns} turns, entry {poison}: {range:?} is more than what stays behind it"
                );
            }
        }
    }

    #[test]
    fn nothing_older_is_left_out_twice() {
        assert_eq!(widened(&conversation(0), None), None);
        let all = SeqRange { from_seq: Seq(1), to_seq: Seq(8) };
        assert_eq!(widened(&conversation(4), Some(all)), None);
    }
}
