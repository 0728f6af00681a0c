//! Lists as clients send them, table by table and generated, against what is stored.

use cairn_types::event::Record;
use cairn_types::summary::{Marker, MarkerKind};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const ANN: &str = "openai/ann";

fn author(id: &str) -> Author {
    Author { id: id.to_owned(), name: "ann".to_owned() }
}

/// `> hello` is an answer, anything else the person's.
fn listed(line: &str) -> Listed {
    let text = line.strip_prefix("> ");
    Listed { by_agent: text.is_some(), parts: vec![Part::text(text.unwrap_or(line))] }
}

/// A conversation, and a client that talks to it.
struct Talk {
    conversation: Conversation,
    n_requests: usize,
}

impl Talk {
    fn new() -> Self {
        Self { conversation: Conversation::new("main/local/openai.ann/x".parse().unwrap()), n_requests: 0 }
    }

    fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let (n, channel) = (self.conversation.last_n + 1, Some(self.conversation.channel.clone()));
            let record = Record { n, at: Timestamp::UNIX_EPOCH, channel, event };
            self.conversation.apply(&record).unwrap_or_else(|error| panic!("{error}: {record:?}"));
        }
    }

    /// Somebody says something by another way, and gets an answer.
    fn aside(&mut self, person: &str, message: &str, answer: &str) {
        let (at, direct) = (Timestamp::UNIX_EPOCH, false);
        let of = |message: String, author, text: &str| PastMessage {
            message: message.into(),
            at,
            author,
            text: text.to_owned(),
            direct,
        };
        let id = format!("aside{}", self.conversation.accepted);
        let said = [of(id, Some(author(person)), message), of(String::new(), None, answer)];
        let events = import(&self.conversation, &said, &BTreeSet::new()).events;
        self.fold(events);
    }

    /// A request with that list, and its answer; `None`: the turn fails.
    fn ask(&mut self, lines: &[&str], answer: Option<&str>) -> Reconciled {
        self.n_requests += 1;
        let list = ClientList {
            channel: self.conversation.channel.clone(),
            message: format!("q{}", self.n_requests).into(),
            author: author(ANN),
            at: Timestamp::UNIX_EPOCH,
            system: String::new(),
            greeting: String::new(),
            tools: Vec::new(),
            listed: lines.iter().map(|line| listed(line)).collect(),
        };
        let reconciled = reconcile(&self.conversation, &list.listed, ANN);
        let events = catch_up(&self.conversation, &list, &reconciled);
        self.fold(events);
        let asked = list.asked();
        let of =
            |message, author, text: String| PastMessage { message, at: list.at, author, text, direct: false };
        let said = [Some(of(asked.message, Some(asked.author), text_of(&asked.parts)))];
        let answer = answer.map(|answer| of("".into(), None, answer.to_owned()));
        let said: Vec<_> = said.into_iter().chain([answer]).flatten().collect();
        let events = import(&self.conversation, &said, &BTreeSet::new()).events;
        self.fold(events);
        reconciled
    }

    /// All up to that many entries leaves the window, for a digest.
    fn summarise(&mut self, n: usize) {
        let gone: Vec<_> = self.conversation.live.iter().take(n).map(|entry| entry.seq).collect();
        let marker = Marker::new(MarkerKind::Truncated, gone[0], *gone.last().unwrap(), Vec::new());
        self.fold(vec![Event::Compaction(cairn_types::event::CompactionEvent::WindowSlid {
            marker,
            messages: n as u64,
            tokens_before: 10,
            tokens_after: 5,
        })]);
    }

    fn texts(&self) -> Vec<String> {
        let shown = |entry: &Entry| match entry.role {
            Role::Assistant => format!("> {}", entry.text()),
            _ => entry.text(),
        };
        self.conversation.live.iter().map(|entry| shown(entry)).collect()
    }
}

/// A conversation of these lines.
fn talk(lines: &str) -> Talk {
    let lines: Vec<&str> = lines.split(", ").filter(|line| !line.is_empty()).collect();
    let mut talk = Talk::new();
    for at in 0..lines.len() {
        if !lines[at].starts_with("> ") {
            let answer = lines.get(at + 1).and_then(|line| line.strip_prefix("> "));
            talk.aside(ANN, lines[at], answer.unwrap_or("?"));
        }
    }
    talk
}

/// What is stored, the client's list, and what is stored then.
#[rstest]
#[case::first_message("", "a", "a, > new", true)]
#[case::a_history_from_elsewhere("", "a, > 1, b, > 2, c", "a, > 1, b, > 2, c, > new", true)]
#[case::next_message("a, > 1", "a, > 1, b", "a, > 1, b, > new", true)]
#[case::white_space("a b, > 1 2", "a  b, > 1\n2, c", "a b, > 1 2, c, > new", true)]
#[case::regenerated("a, > 1, b, > 2", "a, > 1, b", "a, > 1, b, > new", true)]
#[case::the_only_turn_again("a, > 1", "a", "a, > new", true)]
#[case::last_message_edited("a, > 1, b, > 2", "a, > 1, c", "a, > 1, c, > new", true)]
#[case::earlier_message_edited("a, > 1, b, > 2, c, > 3", "a, > 1, d", "a, > 1, d, > new", true)]
#[case::answer_edited("a, > 1, b, > 2", "a, > 1, b, > two, c", "a, > 1, b, > two, c, > new", true)]
#[case::first_answer_edited("a, > 1, b, > 2", "a, > one, c", "a, > 1, b, > 2, a, > one, c, > new", false)]
#[case::branch_of_before("a, > 1, b, > 2", "a, > 1, b, > old, c", "a, > 1, b, > old, c, > new", true)]
#[case::oldest_trimmed(
    "a, > 1, b, > 2, c, > 3",
    "b, > 2, c, > 3, d",
    "a, > 1, b, > 2, c, > 3, d, > new",
    true
)]
#[case::trimmed_and_regenerated("a, > 1, b, > 2, c, > 3", "b, > 2, c", "a, > 1, b, > 2, c, > new", true)]
#[case::trimmed_within_a_turn("a, > 1, b, > 2", "> 1, b, > 2, c", "a, > 1, b, > 2, c, > new", true)]
#[case::only_the_newest("a, > 1, b, > 2", "c", "a, > 1, b, > 2, c, > new", false)]
#[case::only_the_newest_said_before("a, > 1, b, > 2", "a", "a, > 1, b, > 2, a, > new", false)]
#[case::said_twice("a, > 1, a, > 1", "a, > 1, a, > 1, a", "a, > 1, a, > 1, a, > new", true)]
#[case::said_twice_and_regenerated("a, > 1, a, > 1", "a, > 1, a", "a, > 1, a, > new", true)]
#[case::all_alike("a, > a, a, > a", "a, > a, a, > a, a, > a, a", "a, > a, a, > a, a, > a, a, > new", true)]
#[case::two_in_a_row("a, > 1", "a, > 1, b, c", "a, > 1, b, c, > new", true)]
#[case::several_missed("a, > 1", "a, > 1, b, > 2, c, > 3, d", "a, > 1, b, > 2, c, > 3, d, > new", true)]
#[case::more_before_the_first("b, > 2", "a, > 1, b, > 2, c", "b, > 2, c, > new", true)]
#[case::an_answer_with_words_before_it("a, > 1", "a, > I look 1, b", "a, > 1, b, > new", true)]
#[case::an_answer_that_was_cut(
    "a, > so far [cut short here: x]",
    "a, > so, b",
    "a, > so far [cut short here: x], b, > new",
    true
)]
#[case::an_answer_not_cut("a, > so far", "a, > so, b", "a, > so, b, > new", true)]
fn a_list_is_laid_beside_what_is_stored(
    #[case] stored: &str,
    #[case] list: &str,
    #[case] expected: &str,
    #[case] fits: bool,
) {
    let mut talk = talk(stored);
    let list: Vec<&str> = list.split(", ").collect();
    let reconciled = talk.ask(&list, Some("new"));
    assert_eq!(talk.texts().join(", "), expected);
    assert_eq!(reconciled.fits, fits);
}

/// What is in view behind a digest of the first entries, the list, and what is in view then.
#[rstest]
#[case::goes_on(4, "a, > 1, b, > 2, c, > 3, d", "c, > 3, d, > new")]
#[case::regenerated(4, "a, > 1, b, > 2, c", "c, > new")]
#[case::trimmed(4, "b, > 2, c, > 3, d", "c, > 3, d, > new")]
#[case::all_of_it_is_summarised(6, "a, > 1, b, > 2, c, > 3, d", "d, > new")]
#[case::what_is_summarised_was_edited(4, "a, > 1, x", "c, > 3, x, > new")]
fn the_start_of_a_list_may_be_summarised(#[case] n: usize, #[case] list: &str, #[case] expected: &str) {
    let mut talk = talk("a, > 1, b, > 2, c, > 3");
    talk.summarise(n);
    talk.ask(&list.split(", ").collect::<Vec<_>>(), Some("new"));
    assert_eq!(talk.texts().join(", "), expected);
}

#[test]
fn a_message_whose_turn_failed_is_asked_again() {
    let mut talk = Talk::new();
    talk.ask(&["a"], None);
    assert_eq!(talk.ask(&["a"], Some("1")).undone.len(), 1);
    talk.ask(&["a", "> 1", "b"], None);
    assert_eq!(talk.texts(), ["a", "> 1", "b"]);
    talk.ask(&["a", "> 1", "b"], Some("2"));
    assert_eq!(talk.texts(), ["a", "> 1", "b", "> 2"]);
    // Or the person goes on without an answer.
    talk.ask(&["a", "> 1", "b", "> 2", "c"], None);
    talk.ask(&["a", "> 1", "b", "> 2", "c", "d"], Some("3"));
    assert_eq!(talk.texts(), ["a", "> 1", "b", "> 2", "c", "d", "> 3"]);
}

#[test]
fn what_came_by_another_way_stays() {
    let mut talk = talk("a, > 1");
    talk.aside("local/bob", "who is there?", "ann is");
    talk.ask(&["a", "> 1", "b"], Some("2"));
    assert_eq!(talk.texts(), ["a", "> 1", "who is there?", "> ann is", "b", "> 2"]);
    talk.ask(&["c"], Some("3"));
    talk.ask(&["a", "> one", "b"], Some("2"));
    assert!(talk.texts().contains(&"> ann is".to_owned()));
}

#[test]
fn after_a_new_conversation_the_old_list_is_not_taken_again() {
    let mut talk = talk("a, > 1");
    let generation = Generation(2);
    talk.fold(vec![Event::Turn(TurnEvent::SessionStarted { generation })]);
    talk.ask(&["a", "> 1", "b"], Some("2"));
    talk.ask(&["a", "> 1", "b", "> 2", "c"], Some("3"));
    assert_eq!(talk.texts(), ["b", "> 2", "c", "> 3"]);
}

#[test]
fn a_system_message_is_told_when_it_changes() {
    let mut talk = Talk::new();
    let mut list = ClientList {
        channel: talk.conversation.channel.clone(),
        message: "q1".into(),
        author: author(ANN),
        at: Timestamp::UNIX_EPOCH,
        system: "be brief".to_owned(),
        greeting: String::new(),
        tools: Vec::new(),
        listed: vec![listed("a")],
    };
    let told = |talk: &mut Talk, list: &ClientList| {
        let reconciled = reconcile(&talk.conversation, &list.listed, ANN);
        let events = catch_up(&talk.conversation, list, &reconciled);
        let n = events.len();
        talk.fold(events);
        (n, talk.conversation.client_system.as_ref().map(|system| system.text.to_string()))
    };
    let brief = Some("be brief".to_owned());
    assert_eq!(told(&mut talk, &list), (1, brief.clone()));
    assert_eq!(told(&mut talk, &list), (0, brief));
    // A greeting begins a conversation, and stays told. In a list that was trimmed to an answer it is no news.
    list.greeting = "Welcome!".to_owned();
    let greeted = Some("be brief\n\nYou have opened the conversation with these words:\nWelcome!".to_owned());
    assert_eq!(told(&mut talk, &list), (1, greeted.clone()));
    talk.aside(ANN, "a", "1");
    list.listed = vec![listed("a"), listed("> 1"), listed("b")];
    assert_eq!(told(&mut talk, &list), (0, greeted));
    list.greeting = "1".to_owned();
    list.listed = vec![listed("b")];
    let reconciled = reconcile(&talk.conversation, &list.listed, ANN);
    let told_now = catch_up(&talk.conversation, &list, &reconciled);
    assert!(!format!("{told_now:?}").contains("with these words"), "{told_now:?}");
    list.greeting.clear();
    list.system.clear();
    list.listed = vec![listed("a"), listed("> 1"), listed("b")];
    assert_eq!(told(&mut talk, &list), (1, None));
    assert_eq!(told(&mut talk, &list), (0, None));
}

#[derive(Debug, Clone)]
enum Step {
    Say(u8),
    Again,
    /// The message so many before the newest, as another one.
    Edit(usize, u8),
    /// So many of the oldest are not sent any more.
    Trim(usize),
    /// An answer of before in the place of the newest.
    Rewrite(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_u8).prop_map(Step::Say),
        2 => Just(Step::Again),
        2 => (0..4_usize, 0..4_u8).prop_map(|(back, text)| Step::Edit(back, text)),
        1 => (1..4_usize).prop_map(Step::Trim),
        1 => (0..4_u8).prop_map(Step::Rewrite),
    ]
}

proptest! {
    /// Few texts, so that many are alike. Whatever the client does, what is in view ends with its list and the answer.
    #[test]
    fn what_is_in_view_ends_with_the_list(steps in proptest::collection::vec((step(), 0..3_u8), 1..24)) {
        let (mut talk, mut list) = (Talk::new(), Vec::<String>::new());
        for (step, answer) in steps {
            let messages: Vec<usize> = (0..list.len()).filter(|at| !list[*at].starts_with('>')).collect();
            match step {
                Step::Say(text) => list.push(format!("m{text}")),
                Step::Again => drop(list.pop()),
                Step::Edit(back, text) => {
                    list.truncate(messages.iter().rev().nth(back).copied().unwrap_or_default());
                    list.push(format!("m{text}"));
                }
                Step::Trim(n) => {
                    let from = messages.get(n.min(messages.len().saturating_sub(1))).copied();
                    list.drain(..from.unwrap_or_default());
                    list.push("m0".to_owned());
                }
                Step::Rewrite(text) => {
                    list.pop();
                    list.extend([format!("> {text}"), "m1".to_owned()]);
                }
            }
            while list.last().is_some_and(|line| line.starts_with('>')) || list.first().is_some_and(|line| line.starts_with('>')) {
                if list.first().is_some_and(|line| line.starts_with('>')) { list.remove(0); } else { list.pop(); }
            }
            if list.is_empty() {
                continue;
            }
            let lines: Vec<&str> = list.iter().map(String::as_str).collect();
            talk.ask(&lines, Some(&answer.to_string()));
            list.push(format!("> {answer}"));
            let texts = talk.texts();
            prop_assert!(texts.ends_with(&list), "{texts:?} does not end with {list:?}");
        }
    }
}
