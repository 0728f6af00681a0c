//! Provenance: whose text a window holds, and what may be done without approval because of that.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use cairn_types::memory::{Memory, Scope};
use cairn_types::message::Provenance;
use cairn_types::texts::{Key, Saying};
use cairn_types::tool::{Closeness, Effect, closest};

/// The provenance of a conversation's whole window: live entries, what summaries and markers represent, a client's system
/// message, the people whose reactions it shows, and these memories.
pub fn window_provenance<'a>(
    conversation: &Conversation,
    memories: impl IntoIterator<Item = &'a Memory>,
) -> Provenance {
    let mut provenance = conversation.left.clone();
    conversation.live.iter().for_each(|entry| provenance.join(&Provenance::of_entry(entry)));
    let reactions = conversation.shown_reactions().iter();
    reactions.for_each(|reaction| provenance.join(&Provenance::of_person(&reaction.by.id)));
    let client = conversation.client_system.iter();
    client.for_each(|system| provenance.join(&Provenance::of_person(&system.by)));
    memories.into_iter().for_each(|memory| provenance.join(&memory_provenance(memory, conversation)));
    provenance
}

/// The provenance of a memory that is read in a conversation. Memories by an operator are only theirs; one learnt in a chat
/// may come from anybody who was ever heard there.
pub fn memory_provenance(memory: &Memory, conversation: &Conversation) -> Provenance {
    let Some(learnt_in) = &memory.source.channel else { return Provenance::default() };
    match (&memory.scope, memory.speaker()) {
        (Scope::Agent, _) => Provenance::default(),
        // In their very words.
        (_, Some(speaker)) if memory.source.is_typed() => Provenance::of_person(speaker),
        (Scope::User { platform, user }, _) => {
            let heard = &conversation.heard;
            let here = *learnt_in == conversation.channel;
            let elsewhere = learnt_in.chat() != conversation.channel.chat();
            let (strangers, tools) = (elsewhere || (here && heard.strangers), here && heard.tools);
            Provenance { strangers, tools, ..Provenance::of_person(&format!("{platform}/{user}")) }
        }
        (Scope::Chat { .. }, _) if *learnt_in == conversation.channel => conversation.heard.clone(),
        (Scope::Chat { .. }, _) => Provenance::of_strangers(),
    }
}

/// Whom an agent trusts, and who may approve for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(rustdoc::broken_intra_doc_links, reason = "[commands] is a table of the configuration")]
pub struct TrustSettings {
    /// People you trust: calls that change something need no approval while the window holds only their text, and no
    /// tool results. "PLATFORM/USER", or "PLATFORM/*" for everybody on a platform, such as "local/*". Default: nobody,
    /// so each such call waits for approval.
    pub trusted: BTreeSet<String>,
    /// People who may approve in a chat, written in the same way, in addition to the operators of [commands]. Everybody
    /// with access to the socket may approve.
    pub approvers: BTreeSet<String>,
    /// The operators of [commands], who are filled in.
    #[serde(skip)]
    pub operators: BTreeSet<String>,
    /// Seconds after which an approval request expires. 10 to 86400.
    #[schemars(range(min = 10, max = 86_400))]
    pub approval_secs: u64,
    /// Calls that never need approval: "SERVER/TOOL", "SERVER/*", "TOOL" of any server, or "*". Tools marked as
    /// destructive, `memory_save` and `memory_forget` must be named exactly. `cairn tools log` marks calls that this list permitted.
    pub always_allow: BTreeSet<String>,
}

impl Default for TrustSettings {
    fn default() -> Self {
        Self {
            trusted: BTreeSet::new(),
            approvers: BTreeSet::new(),
            operators: BTreeSet::new(),
            approval_secs: 300,
            always_allow: BTreeSet::new(),
        }
    }
}

fn names(list: &BTreeSet<String>, person: &str) -> bool {
    let all = person.split_once('/').map(|(platform, _)| format!("{platform}/*"));
    list.contains(person) || all.is_some_and(|all| list.contains(&all))
}

impl TrustSettings {
    pub fn trusts(&self, person: &str) -> bool {
        names(&self.trusted, person)
    }

    pub fn may_approve(&self, person: &str) -> bool {
        names(&self.approvers, person)
    }

    /// The entry of `always_allow` that permits a call without approval. `exact`: the entry has to name the tool, which
    /// destroys something or saves memories.
    pub fn allowed_by(&self, tool: &str, exact: bool) -> Option<&str> {
        let (entry, closeness) = closest(&self.always_allow, tool)?;
        (!exact || closeness == Closeness::Exact).then_some(entry)
    }

    /// Why a call needs approval while the window has that provenance; `None`: it needs none.
    pub fn objection(&self, effect: Effect, provenance: &Provenance) -> Option<Saying> {
        if effect == Effect::Reads {
            return None;
        }
        let others: Vec<&str> =
            provenance.people.iter().map(String::as_str).filter(|person| !self.trusts(person)).collect();
        let mut whose = Vec::new();
        match others.as_slice() {
            [] => {}
            [one] => whose.push(Key::ReasonPerson.with("person", *one)),
            several => whose.push(Key::ReasonPeople.count(several.len() as u64)),
        }
        if provenance.strangers {
            whose.push(Key::ReasonStrangers.into());
        }
        if provenance.tools {
            whose.push(Key::ReasonTools.into());
        }
        whose.into_iter().reduce(|first, second| Key::ReasonBoth.with("first", first).with("second", second))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;
    use crate::testing;
    use cairn_types::ids::Seq;
    use cairn_types::message::{Entry, PEOPLE_MAX, Role};

    fn entry(role: Role, author: Option<&str>, provenance: Provenance) -> Arc<Entry> {
        let author = author.map(|id| testing::author(id, "somebody"));
        Arc::new(Entry { author, provenance, ..testing::entry(role, "x") })
    }

    fn conversation(entries: Vec<Arc<Entry>>) -> Conversation {
        let mut conversation = Conversation::new("main/telegram/7".parse().unwrap());
        conversation.live.extend(entries);
        conversation
    }

    fn trust() -> TrustSettings {
        let trusted = ["telegram/7", "local/*"].map(ToOwned::to_owned);
        TrustSettings { trusted: trusted.into(), ..TrustSettings::default() }
    }

    fn memory(scope: &str, learnt_in: Option<&str>) -> Memory {
        Memory { source: testing::source(learnt_in, ""), ..testing::memory(scope, "Rex is a dog.") }
    }

    #[rstest]
    #[case::trusted(vec![entry(Role::User, Some("telegram/7"), Provenance::default())], false)]
    #[case::all_of_a_platform(vec![entry(Role::User, Some("local/bob"), Provenance::default())], false)]
    #[case::another(vec![entry(Role::User, Some("telegram/8"), Provenance::default())], true)]
    #[case::nobody_knows_who(vec![entry(Role::User, None, Provenance::default())], true)]
    #[case::quoted(vec![entry(Role::User, Some("telegram/7"), Provenance::of_person("telegram/8"))], true)]
    #[case::forwarded(vec![entry(Role::User, Some("telegram/7"), Provenance::of_strangers())], true)]
    #[case::result(vec![entry(Role::Tool, None, Provenance::of_tools())], true)]
    #[case::own_result(vec![entry(Role::Tool, None, Provenance::default())], false)]
    #[case::said_again(vec![entry(Role::Assistant, None, Provenance::of_tools())], true)]
    fn what_changes_something_is_asked_for_while_others_are_heard(
        #[case] entries: Vec<Arc<Entry>>,
        #[case] asks: bool,
    ) {
        let provenance = window_provenance(&conversation(entries), []);
        assert_eq!(trust().objection(Effect::Changes, &provenance).is_some(), asks, "{provenance:?}");
        assert_eq!(trust().objection(Effect::Reads, &provenance), None);
    }

    #[rstest]
    #[case(&["files/write"], "files__write", Some("files/write"), Some("files/write"))]
    #[case(&["files/*"], "files__write", Some("files/*"), None)]
    #[case(&["write"], "files__write", Some("write"), None)]
    #[case(&["*"], "files__write", Some("*"), None)]
    #[case(&["*", "files/write"], "files__write", Some("files/write"), Some("files/write"))]
    #[case(&["memory_save"], "memory_save", Some("memory_save"), Some("memory_save"))]
    #[case(&["notes/*"], "files__write", None, None)]
    #[case(&[], "files__write", None, None)]
    fn what_is_always_allowed_needs_no_yes_and_what_destroys_has_to_be_named_by_itself(
        #[case] always_allow: &[&str],
        #[case] tool: &str,
        #[case] allowed_by: Option<&str>,
        #[case] if_exact: Option<&str>,
    ) {
        let always_allow = always_allow.iter().map(ToString::to_string).collect();
        let trust = TrustSettings { always_allow, ..TrustSettings::default() };
        assert_eq!((trust.allowed_by(tool, false), trust.allowed_by(tool, true)), (allowed_by, if_exact));
    }

    #[test]
    fn what_has_left_the_window_still_speaks() {
        let mut conversation =
            conversation(vec![entry(Role::User, Some("telegram/8"), Provenance::default())]);
        conversation.drop_live(Seq(1));
        assert!(conversation.live.is_empty());
        let provenance = window_provenance(&conversation, []);
        assert!(trust().objection(Effect::Changes, &provenance).unwrap().to_string().contains("telegram/8"));
    }

    #[rstest]
    #[case::of_an_operator("agent", None, false)]
    #[case::of_the_person("user:telegram/7", Some("main/telegram/7"), false)]
    #[case::of_another_person("user:telegram/8", Some("main/telegram/8"), true)]
    #[case::of_this_chat("chat:telegram/7", Some("main/telegram/7"), true)]
    #[case::of_a_chat_elsewhere("chat:telegram/9", Some("main/telegram/9"), true)]
    fn a_memory_speaks_for_those_it_may_be_of(
        #[case] scope: &str,
        #[case] learnt_in: Option<&str>,
        #[case] asks: bool,
    ) {
        let mut conversation = conversation(Vec::new());
        conversation.heard = Provenance::of_person("telegram/8");
        let provenance = window_provenance(&conversation, [&memory(scope, learnt_in)]);
        assert_eq!(trust().objection(Effect::Changes, &provenance).is_some(), asks, "{provenance:?}");
    }

    #[test]
    fn a_private_memory_of_a_chat_that_heard_tools_may_be_of_them() {
        let mut conversation = conversation(Vec::new());
        conversation.heard = Provenance::of_tools();
        let provenance =
            window_provenance(&conversation, [&memory("user:telegram/7", Some("main/telegram/7"))]);
        assert!(provenance.tools);
    }

    #[test]
    fn more_people_than_are_told_apart_are_strangers() {
        let mut provenance = Provenance::default();
        (0..=PEOPLE_MAX).for_each(|n| provenance.join(&Provenance::of_person(&format!("telegram/{n}"))));
        assert!(provenance.strangers && provenance.people.len() == PEOPLE_MAX);
    }
}
