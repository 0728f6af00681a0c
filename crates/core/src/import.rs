//! Conversations from other programs, as events of turns that have ended. No model is called.

use std::collections::BTreeSet;

use cairn_types::event::{CompactionEvent, Event, MessageEvent, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::{MessageId, Seq, TurnId};
use cairn_types::message::{Author, Entry, Part, Pending, Provenance, Role, fingerprint};
use cairn_types::model::Usage;
use jiff::Timestamp;

use crate::conversation::Conversation;
use crate::window::{entry_tokens, pending_tokens};

/// Most messages of one turn. A long stretch without answers becomes several turns.
const TURN_MAX: usize = 20;

/// A message or an answer of another program's history.
#[derive(Debug, Clone, PartialEq)]
pub struct PastMessage {
    pub message: MessageId,
    pub at: Timestamp,
    /// `None`: an answer by the agent.
    pub author: Option<Author>,
    pub text: String,
    /// Sent in a private chat with the agent.
    pub direct: bool,
}

/// The result of importing some messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    pub events: Vec<Event>,
    /// New messages from people.
    pub messages: u64,
    /// New answers by the agent.
    pub answers: u64,
    /// Messages from people that the history already has. Their answers are skipped with them.
    pub known: u64,
    /// Answers without a message before them; they are skipped.
    pub orphaned: u64,
}

/// The events that append these messages to the conversation, in order. `known`: ids of messages that it already has. The
/// conversation has no open turn and no pending message.
pub fn import(conversation: &Conversation, said: &[PastMessage], known: &BTreeSet<MessageId>) -> Imported {
    let mut importer = Importer {
        conversation,
        accepted: conversation.accepted,
        next_seq: conversation.next_seq,
        imported: Imported::default(),
    };
    let mut rest = said;
    while !rest.is_empty() {
        let asked = rest.iter().take(TURN_MAX).take_while(|said| said.author.is_some()).count();
        let (people, after) = rest.split_at(asked);
        let (answers, after) = after.split_at(after.iter().take_while(|said| said.author.is_none()).count());
        importer.turn(people, answers, known);
        rest = after;
    }
    importer.imported
}

struct Importer<'a> {
    conversation: &'a Conversation,
    accepted: u64,
    next_seq: Seq,
    imported: Imported,
}

impl Importer<'_> {
    fn turn(&mut self, people: &[PastMessage], answers: &[PastMessage], known: &BTreeSet<MessageId>) {
        if people.is_empty() {
            self.imported.orphaned += answers.len() as u64;
            return;
        }
        let new: Vec<&PastMessage> = people.iter().filter(|said| !known.contains(&said.message)).collect();
        self.imported.known += (people.len() - new.len()) as u64;
        if new.is_empty() {
            return;
        }
        let turn = TurnId::from(format!("t{}", self.accepted + 1));
        let first_seq = self.next_seq;
        let mut messages = Vec::new();
        for said in new {
            let Some(author) = said.author.clone() else { continue };
            messages.push(said.message.clone());
            let pending = self.pending(said, author, !answers.is_empty());
            self.imported.events.push(Event::Message(MessageEvent::Accepted(pending)));
            self.next_seq = self.next_seq.next();
        }
        self.imported.messages += messages.len() as u64;
        self.imported.events.push(Event::Turn(TurnEvent::Started {
            turn: turn.clone(),
            messages,
            first_seq,
        }));
        let outcome = self.answer(&turn, answers);
        let end = TurnEnd { turn, outcome, model: None, usage: Usage::default(), recalled: Vec::new() };
        self.imported.events.push(Event::Turn(TurnEvent::Ended(end)));
    }

    fn pending(&mut self, said: &PastMessage, author: Author, addressed: bool) -> Pending {
        self.accepted += 1;
        let parts = vec![Part::text(said.text.clone())];
        let mut pending = Pending {
            message: said.message.clone(),
            turn: TurnId::from(format!("t{}", self.accepted)),
            at: said.at,
            fingerprint: fingerprint(&author, &parts),
            author,
            parts,
            addressed,
            direct: said.direct,
            chat_name: None,
            language: None,
            provenance: Provenance::default(),
            spoken: false,
            reminder: None,
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        pending
    }

    /// Joins the answers of a turn into one entry, because the window shows only the last answer of a turn.
    fn answer(&mut self, turn: &TurnId, answers: &[PastMessage]) -> TurnOutcome {
        let Some(last) = answers.last() else { return TurnOutcome::Unanswered };
        let words: Vec<&str> = answers.iter().map(|said| said.text.as_str()).collect();
        let reply = self.next_seq;
        let mut entry = Entry {
            parts: vec![Part::text(words.join("\n\n"))],
            ..Entry::new(reply, turn, self.conversation.generation, last.at, Role::Assistant)
        };
        entry.tokens = entry_tokens(&entry);
        self.imported.events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
        self.imported.answers += answers.len() as u64;
        self.next_seq = reply.next();
        TurnOutcome::Answered { reply }
    }
}

/// Rewrites an emergency as an ordinary slide of the window, so that the chat is not warned: nobody has seen the imported
/// messages there.
pub fn room_made(events: Vec<Event>) -> Vec<Event> {
    let quietly = |event| match event {
        Event::Compaction(CompactionEvent::EmergencyApplied {
            marker,
            messages,
            tokens_before,
            tokens_after,
        }) => {
            Event::Compaction(CompactionEvent::WindowSlid { marker, messages, tokens_before, tokens_after })
        }
        event => event,
    };
    events.into_iter().map(quietly).collect()
}

#[cfg(test)]
mod tests {
    use cairn_types::event::Record;

    use super::*;

    /// `a hello` is a message by `a`, `> hello` an answer.
    fn said(lines: &[&str]) -> Vec<PastMessage> {
        let one = |(n, line): (usize, &&str)| {
            let (who, text) = line.split_once(' ').unwrap();
            let author = (who != ">").then(|| Author { id: format!("local/{who}"), name: who.to_owned() });
            let at = Timestamp::from_second(n as i64 * 60).unwrap();
            PastMessage { message: format!("m{n}").into(), at, author, text: text.to_owned(), direct: false }
        };
        lines.iter().enumerate().map(one).collect()
    }

    fn fold(conversation: &mut Conversation, events: Vec<Event>) {
        for event in events {
            let (n, channel) = (conversation.last_n + 1, Some(conversation.channel.clone()));
            conversation.apply(&Record { n, at: Timestamp::UNIX_EPOCH, channel, event }).unwrap();
        }
    }

    fn texts(conversation: &Conversation) -> Vec<String> {
        let shown = |entry: &Entry| {
            let who = entry.author.as_ref().map_or(">", |author| author.name.as_str());
            format!("{} {who} {}", entry.turn, entry.text())
        };
        conversation.live.iter().map(|entry| shown(entry)).collect()
    }

    #[test]
    fn messages_become_turns_with_their_answers_and_are_imported_once() {
        let mut conversation = Conversation::new("main/local/main".parse().unwrap());
        let talk = said(&["> welcome", "a hello", "b hi", "> good day", "> both", "a and now?"]);
        let first = import(&conversation, &talk, &BTreeSet::new());
        assert_eq!((first.messages, first.answers, first.known, first.orphaned), (3, 2, 0, 1));
        fold(&mut conversation, first.events);
        let expected = ["t1 a hello", "t1 b hi", "t1 > good day\n\nboth", "t3 a and now?"];
        assert_eq!(texts(&conversation), expected);
        assert!(conversation.open_turn.is_none() && conversation.pending.is_empty());
        let known: BTreeSet<MessageId> = ["m1", "m2", "m5"].map(MessageId::from).into();
        let more =
            said(&["> welcome", "a hello", "b hi", "> good day", "> both", "a and now?", "b tea", "> yes"]);
        let again = import(&conversation, &more[..6], &known);
        assert_eq!((again.events.len(), again.known, again.answers), (0, 3, 0));
        // What came since, in the same turn as what is known, comes in with its answer.
        let longer = import(&conversation, &more, &known);
        assert_eq!((longer.messages, longer.answers, longer.known), (1, 1, 3));
        fold(&mut conversation, longer.events);
        assert_eq!(texts(&conversation)[4..], ["t4 b tea", "t4 > yes"]);
    }

    #[test]
    fn a_long_stretch_without_answers_becomes_several_turns() {
        let lines: Vec<String> = (0..45).map(|n| format!("a words {n}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut conversation = Conversation::new("main/local/main".parse().unwrap());
        let imported = import(&conversation, &said(&lines), &BTreeSet::new());
        fold(&mut conversation, imported.events);
        let turns: BTreeSet<_> = conversation.live.iter().map(|entry| entry.turn.clone()).collect();
        assert_eq!((conversation.live.len(), turns.len()), (45, 3));
    }
}
