//! A channel without a world: events go into a journal that is a vector, and from there into the fold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cairn_core::agent::{AgentSettings, WindowSize, WindowSource};
use cairn_core::artifact;
use cairn_core::compaction::{self, AfterFailure, Decision, SummaryDraft};
use cairn_core::conversation::{self, Conversation, EntryPlace, Outline};
use cairn_core::prune::{self, LargeMessage};
use cairn_core::settings::CompactionSettings;
use cairn_core::summary::StackSizes;
use cairn_core::window::{self, Assembled, Frame, Tail};
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, PruneCause, Record, Run, RunOutcome, TurnEnd, TurnEvent,
    TurnOutcome,
};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, Generation, MessageId, RunId, Seq};
use cairn_types::message::{Amendment, Artifact, Author, Change, Entry, Part, Pending, Role, ToolCall};
use cairn_types::model::Usage;
use cairn_types::ports::OutboxItem;
use cairn_types::summary::{MADE_BY_DIGEST, StackItem, Summary};
use cairn_types::tier::Tier;
use jiff::{SignedDuration, Timestamp};

pub(crate) struct Sim {
    pub(crate) agent: AgentSettings,
    pub(crate) conversation: Conversation,
    pub(crate) journal: Vec<Record>,
    pub(crate) now: Timestamp,
    pub(crate) n_messages: u64,
    pub(crate) n_calls: u64,
    pub(crate) n_corrections: u64,
    /// Everything that was ever said, as the archive has it.
    pub(crate) spoken: BTreeMap<Seq, Arc<Entry>>,
    /// Deliveries, as the view has them.
    pub(crate) items: Vec<OutboxItem>,
    /// Messages that were deleted, and those that were before the window's prefix last changed.
    pub(crate) deleted: BTreeSet<MessageId>,
    /// Runs that ended, whose results may come in late.
    pub(crate) ended: Vec<RunId>,
    /// The sessions before this one: first entry and last.
    pub(crate) sessions: Vec<(Seq, Seq)>,
    /// All artifacts, as the view has them.
    pub(crate) artifacts: BTreeMap<ArtifactId, Artifact>,
}

pub(crate) fn agent(window_tokens: u64) -> AgentSettings {
    AgentSettings {
        id: AgentId::from("main"),
        system_prompt: "You are a careful assistant.".to_owned(),
        compactor_prompt: "Summarise the transcript.".to_owned(),
        window: WindowSize {
            window_tokens,
            output_reserve_tokens: window_tokens / 4,
            source: WindowSource::Agent,
        },
        growth: None,
        compaction: CompactionSettings::default(),
        pruning: cairn_core::settings::PruningSettings::default(),
        result_guard: cairn_core::settings::ResultGuardSettings::default(),
        window_guard: cairn_core::settings::WindowGuard::default(),
        engine: cairn_core::engine::STANDARD.to_owned(),
        cache_ttl_secs: 300,
        model: "offline".to_owned(),
        tools: cairn_types::tool::defs::ToolDefs::default(),
        recall_limit: 5,
        quote_tokens: 0,
        memory: cairn_core::settings::MemorySettings::default(),
        trust: cairn_core::trust::TrustSettings::default(),
        mid_turn_messages: true,
        max_rounds: 8,
        timezone: "UTC".to_owned(),
        languages: cairn_types::texts::Languages::default(),
    }
}

impl Sim {
    pub(crate) fn new(window_tokens: u64) -> Self {
        let agent = agent(window_tokens);
        let channel = ChannelId::local(&agent.id, "main").unwrap();
        Self {
            agent,
            conversation: Conversation::new(channel),
            journal: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            n_messages: 0,
            n_calls: 0,
            n_corrections: 0,
            spoken: BTreeMap::new(),
            items: Vec::new(),
            deleted: BTreeSet::new(),
            ended: Vec::new(),
            sessions: Vec::new(),
            artifacts: BTreeMap::new(),
        }
    }

    pub(crate) fn journal(&mut self, event: Event) {
        self.now = self.now.checked_add(SignedDuration::from_secs(7)).unwrap();
        let channel = Some(self.conversation.channel.clone());
        let record = Record { n: self.journal.len() as u64 + 1, at: self.now, channel, event };
        self.check_batch(&record.event);
        match &record.event {
            Event::Turn(TurnEvent::SessionStarted { .. }) => {
                let Conversation { first_seq, next_seq, .. } = self.conversation;
                self.sessions.push((first_seq, Seq(next_seq.0 - 1)));
            }
            Event::Artifact(event) => artifact::fold(&mut self.artifacts, record.at, event),
            _ => {}
        }
        self.conversation.apply(&record).unwrap();
        if let Event::Compaction(CompactionEvent::ResultsPruned { tokens_after, .. }) = &record.event {
            assert_eq!(*tokens_after, window::measure(&self.conversation, &self.agent).tokens);
        }
        self.observe(&record);
        self.journal.push(record);
    }

    fn observe(&mut self, record: &Record) {
        for entry in &self.conversation.live {
            self.spoken.entry(entry.seq).or_insert_with(|| entry.clone());
        }
        if let Event::Message(MessageEvent::Deleted { message, .. }) = &record.event {
            self.deleted.insert(message.clone());
        }
        let channel = &self.conversation.channel;
        if let Some(item) = OutboxItem::intended(channel, record) {
            self.items.push(item);
        } else {
            self.items.retain_mut(|item| item.apply(record));
        }
    }

    /// The entries of a message and its corrections, as the archive shows them.
    fn said(&self, message: &MessageId) -> Vec<Arc<Entry>> {
        let of_message = |entry: &&Arc<Entry>| entry.message.as_ref().is_some_and(|id| id.is_of(message));
        let is_deleted = self.deleted.contains(message);
        let shown = |entry: &Arc<Entry>| if is_deleted { Arc::new(entry.deleted()) } else { entry.clone() };
        self.spoken.values().filter(of_message).map(shown).collect()
    }

    fn change(&mut self, n: u64, change: Change) -> Option<Event> {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        let message = MessageId::from(format!("m{n}"));
        let channel = self.conversation.channel.clone();
        let amendment = Amendment { channel, message, at: self.now, change };
        let said = self.said(&amendment.message);
        let event = conversation::amend(&self.conversation, &amendment, &said);
        if let Some(event) = event.clone() {
            self.n_corrections += u64::from(matches!(event, Event::Message(MessageEvent::Accepted(_))));
            self.journal(event);
            let said = self.said(&amendment.message);
            let again = conversation::amend(&self.conversation, &amendment, &said);
            assert_eq!(again, None, "the same change was taken in twice");
        }
        event
    }

    /// Message `n` says something else from now on.
    pub(crate) fn edit(&mut self, n: u64, text: &str) -> Option<Event> {
        self.edit_by("local/anna", n, text)
    }

    pub(crate) fn edit_by(&mut self, person: &str, n: u64, text: &str) -> Option<Event> {
        let author = Author { id: person.to_owned(), name: "Anna".to_owned() };
        self.change(n, Change::Edited { author, parts: vec![Part::text(text)], addressed: true })
    }

    pub(crate) fn delete(&mut self, n: u64) -> Option<Event> {
        self.change(n, Change::Deleted)
    }

    pub(crate) fn undo(&mut self) -> Result<(), conversation::UndoError> {
        conversation::undo(&self.conversation).map(|event| self.journal(event))
    }

    pub(crate) fn accept(&mut self, text: &str) {
        let pending = self.pending(text);
        self.journal(Event::Message(MessageEvent::Accepted(pending)));
    }

    pub(crate) fn pending(&mut self, text: &str) -> Pending {
        self.n_messages += 1;
        let mut pending = Pending {
            message: MessageId::from(format!("m{}", self.n_messages)),
            turn: self.conversation.next_turn(),
            at: self.now,
            author: Author { id: "local/anna".to_owned(), name: "Anna".to_owned() },
            parts: vec![Part::text(text)],
            addressed: true,
            direct: false,
            chat_name: None,
            language: None,
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            reminder: None,
            fingerprint: String::new(),
            tokens: 0,
        };
        pending.tokens = window::pending_tokens(&pending);
        pending
    }

    pub(crate) fn start_turn(&mut self) {
        if self.conversation.open_turn.is_some() {
            return;
        }
        let Some(first) = self.conversation.pending.front() else { return };
        let (turn, messages) = (first.turn.clone(), vec![first.message.clone()]);
        self.journal(Event::Turn(TurnEvent::Started {
            turn,
            messages,
            first_seq: self.conversation.next_seq,
        }));
    }

    fn entry(&self, role: Role, text: &str) -> Option<Entry> {
        let open = self.conversation.open_turn.as_ref()?;
        Some(Entry {
            seq: self.conversation.next_seq,
            turn: open.id.clone(),
            generation: self.conversation.generation,
            at: self.now,
            role,
            author: None,
            message: None,
            parts: vec![Part::text(text)],
            reasoning: None,
            provider_state: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            artifact: None,
            files: Vec::new(),
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            quotes: false,
            finish: None,
            tokens: 0,
        })
    }

    fn add(&mut self, mut entry: Entry) {
        entry.tokens = window::entry_tokens(&entry);
        self.journal(Event::Turn(TurnEvent::EntryAdded { entry }));
    }

    /// A call and, unless the turn is interrupted there, its result.
    pub(crate) fn call_tool(&mut self, result: Option<&str>) {
        self.use_tool("history_search", result);
    }

    pub(crate) fn use_tool(&mut self, name: &str, result: Option<&str>) {
        self.use_tool_for(name, result.map(|text| vec![Part::text(text)]));
    }

    /// The same with a result of these parts.
    pub(crate) fn use_tool_for(&mut self, name: &str, result: Option<Vec<Part>>) {
        let Some(mut call) = self.entry(Role::Assistant, "") else { return };
        self.n_calls += 1;
        let id = format!("call{}", self.n_calls);
        let arguments = serde_json::json!({ "query": "flowers" });
        call.tool_calls = vec![ToolCall { id: id.clone(), name: name.to_owned(), arguments }];
        self.add(call);
        if let Some((parts, mut entry)) = result.and_then(|parts| Some((parts, self.entry(Role::Tool, "")?)))
        {
            entry.parts = parts;
            entry.tokens = window::entry_tokens(&entry);
            entry.tool_call_id = Some(id);
            self.add(entry);
        }
    }

    pub(crate) fn answer(&mut self, text: &str) {
        let Some(open) = self.conversation.open_turn.clone() else { return };
        self.shorten();
        self.emergency();
        let reply = self.conversation.next_seq;
        if let Some(entry) = self.entry(Role::Assistant, text) {
            self.add(entry);
        }
        self.end_turn(open.id, TurnOutcome::Answered { reply });
    }

    pub(crate) fn stop(&mut self) {
        if let Some(open) = self.conversation.open_turn.clone() {
            self.end_turn(open.id, TurnOutcome::Stopped);
        }
    }

    fn end_turn(&mut self, turn: cairn_types::ids::TurnId, outcome: TurnOutcome) {
        let (model, usage, recalled) = (None, Usage::default(), Vec::new());
        self.journal(Event::Turn(TurnEvent::Ended(TurnEnd { turn, outcome, model, usage, recalled })));
    }

    pub(crate) fn turn(&mut self, question: &str, answer: &str) {
        self.accept(question);
        self.start_turn();
        self.answer(answer);
    }

    pub(crate) fn report(&mut self, ratio: f64) {
        let estimated = window::measure(&self.conversation, &self.agent).estimated_tokens;
        let input_tokens = (estimated as f64 * ratio) as u64;
        let usage = Usage { input_tokens, output_tokens: 10, cached_tokens: 0, cache_write_tokens: 0 };
        self.journal(Event::Turn(TurnEvent::UsageReported {
            model: self.agent.model.clone(),
            estimated,
            usage,
            disbelieved: None,
            is_estimate: false,
            set_window: None,
            caused_by: BTreeSet::new(),
            trace: None,
        }));
    }

    /// What is due before a call of the model; whether messages left the window.
    pub(crate) fn emergency(&mut self) -> bool {
        let events = compaction::relieve(&self.conversation, &self.agent, self.now);
        let happened = events
            .iter()
            .any(|event| matches!(event, Event::Compaction(CompactionEvent::EmergencyApplied { .. })));
        events.into_iter().for_each(|event| self.journal(event));
        happened
    }

    /// Messages of the open turn that are too large are sent shorter, each with an artifact; how many.
    pub(crate) fn shorten(&mut self) -> usize {
        let large = prune::too_large(&self.conversation, &self.agent);
        let mut stored: Vec<(LargeMessage, Option<Artifact>)> = Vec::new();
        for message in large {
            let artifact = message.artifact.is_none().then(|| Artifact {
                id: artifact::next_id(&self.conversation, stored.len()),
                tool: String::new(),
                message: Some(message.entry.seq),
                sent_in: None,
                bytes: message.words().len() as u64,
                lines: cairn_types::text::edges::count_lines(&message.words()),
                stored_at: self.now,
                used_at: self.now,
                expired_at: None,
                sha256: None,
                lost: false,
                file: None,
            });
            stored.push((message, artifact));
        }
        let events = prune::shorten(&self.conversation, &self.agent, stored);
        events.into_iter().map(|event| self.journal(event)).count()
    }

    /// What is due when the model refuses the request.
    pub(crate) fn overflow(&mut self) {
        let events = compaction::relieve_on_overflow(&self.conversation, &self.agent, self.now);
        events.into_iter().for_each(|event| self.journal(event));
    }

    /// Results are pruned after a call has seen them, each to less than before and to no form twice.
    fn check_batch(&self, event: &Event) {
        let Event::Compaction(CompactionEvent::ResultsPruned { cause, results, tokens_before, .. }) = event
        else {
            return;
        };
        let conversation = &self.conversation;
        assert_eq!(*tokens_before, window::measure(conversation, &self.agent).tokens);
        assert!(!results.is_empty(), "an empty batch");
        for pruned in results {
            let entry = conversation.live.iter().find(|entry| entry.seq == pruned.seq).unwrap();
            let is_message = *cause == PruneCause::Message;
            assert_eq!(entry.role, if is_message { Role::User } else { Role::Tool });
            assert!(u64::from(pruned.tokens) < conversation.weight(entry), "a pruned result grew");
            let spoken = |later: &&Arc<Entry>| later.seq > entry.seq && later.role == Role::Assistant;
            let seen = is_message || conversation.live.iter().any(|later| spoken(&later));
            assert!(seen, "no call has seen {}", pruned.seq);
            let form = conversation.pruned.get(&pruned.seq).map(|before| before.form);
            assert_ne!(form, Some(pruned.form), "{} was pruned twice to the same form", pruned.seq);
        }
    }

    /// What is measured is what is sent, and what is kept is whole.
    pub(crate) fn check_weights(&self) {
        let conversation = &self.conversation;
        for entry in &conversation.live {
            let sent = conversation.sent(entry);
            assert_eq!(u64::from(sent.tokens), conversation.weight(entry));
            assert_eq!(window::entry_tokens(&sent), sent.tokens, "{} weighs something else", entry.seq);
            assert_eq!((sent.seq, &sent.tool_call_id), (entry.seq, &entry.tool_call_id));
            let raw = &self.spoken[&entry.seq];
            assert!(entry.is_deleted() || entry == raw, "{} is not what was said", entry.seq);
        }
        for seq in conversation.pruned.keys() {
            assert!(conversation.live.iter().any(|entry| entry.seq == *seq), "{seq} is pruned and gone");
        }
        let (outline, gauge) = (Outline::of(conversation), window::measure(conversation, &self.agent));
        let hollow = outline.clone().without_entries(conversation.channel.clone());
        let correction = hollow.correction(&self.agent.model);
        let usage = outline.sizes.usage(Frame::of(&self.agent), &correction, &self.agent);
        assert_eq!(usage, (gauge.usage_ratio, gauge.tier), "lists show another window");
    }

    /// What the compactor does when it looks.
    pub(crate) fn watch(&mut self) -> Option<Run> {
        match compaction::next_run(&self.conversation, &self.agent, self.now) {
            Decision::Start(run) => {
                self.journal(Event::Compaction(CompactionEvent::RunStarted { run: (*run).clone() }));
                Some(*run)
            }
            Decision::Idle => None,
            Decision::Apply(events) => {
                events.into_iter().for_each(|event| self.journal(event));
                None
            }
            Decision::WaitUntil(until) => {
                self.now = until;
                None
            }
        }
    }

    pub(crate) fn manual(&mut self) {
        let event = compaction::request_manual(&self.conversation, &self.agent, None, false, self.now);
        if let Some(event) = event {
            self.journal(event);
        }
    }

    pub(crate) fn draft(text: &str) -> SummaryDraft {
        SummaryDraft { text: text.to_owned(), made_by: "fake".to_owned(), ..SummaryDraft::default() }
    }

    /// Sizes of the stack as they are now.
    pub(crate) fn sizes(&self) -> StackSizes {
        StackSizes::of(
            &self.agent,
            &self.conversation.correction(&self.agent.model),
            self.conversation.stack.tokens(),
        )
    }

    /// What the worker makes where no model can.
    pub(crate) fn digest(&self, run: &Run, entries: &[Arc<Entry>], sources: &[Summary]) -> SummaryDraft {
        let channel = &self.conversation.channel;
        compaction::digest_draft(channel, &self.agent, &self.sizes(), run, entries, sources)
    }

    pub(crate) fn commit(&mut self, text: &str) {
        let Some(run) = self.conversation.run.as_ref().map(|run| run.id.clone()) else { return };
        self.commit_run(&run, text);
    }

    /// The same by extraction, after all models have failed.
    pub(crate) fn commit_digest(&mut self, text: &str) {
        let Some(run) = self.conversation.run.as_ref().map(|run| run.id.clone()) else { return };
        let draft = SummaryDraft { made_by: MADE_BY_DIGEST.to_owned(), ..Self::draft(text) };
        let events = compaction::commit(&self.conversation, &self.agent, &run, draft, self.now);
        events.into_iter().flatten().for_each(|event| self.journal(event));
        self.ended.push(run);
    }

    pub(crate) fn commit_run(&mut self, run: &RunId, text: &str) {
        self.commit_draft(run, Self::draft(text));
    }

    pub(crate) fn commit_draft(&mut self, run: &RunId, draft: SummaryDraft) {
        let events = compaction::commit(&self.conversation, &self.agent, run, draft, self.now);
        for event in events.into_iter().flatten() {
            self.journal(event);
        }
        self.ended.push(run.clone());
    }

    pub(crate) fn fail_attempt(&mut self) {
        let Some(run) = self.conversation.run.clone() else { return };
        let (event, next) = compaction::fail_attempt(&run, &self.agent, "no answer", None, self.now);
        match next {
            AfterFailure::Retry { .. } => self.journal(event),
            AfterFailure::Digest if run.takes_digest() => self.commit_digest("digest"),
            AfterFailure::Digest => self.give_up(),
        }
    }

    pub(crate) fn give_up(&mut self) {
        let Some(run) = self.conversation.run.as_ref().map(|run| run.id.clone()) else { return };
        let (outcome, reason) = (RunOutcome::Failed, "gave up");
        let event = compaction::give_up(&self.conversation, &self.agent, outcome, reason, self.now);
        self.journal(event.unwrap());
        self.ended.push(run);
    }

    pub(crate) fn pass(&mut self, secs: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(secs)).unwrap();
    }

    pub(crate) fn new_generation(&mut self) {
        self.stop();
        self.give_up();
        let generation = Generation(self.conversation.generation.0 + 1);
        self.journal(Event::Turn(TurnEvent::SessionStarted { generation }));
    }

    /// Restores from a snapshot taken at `n` and the records since, as the store does.
    pub(crate) fn restored_from(&self, n: usize) -> Conversation {
        let mut at_snapshot = Conversation::new(self.conversation.channel.clone());
        self.journal[..n].iter().for_each(|record| at_snapshot.apply(record).unwrap());
        let json = serde_json::to_string(&at_snapshot.to_snapshot()).unwrap();
        let mut restored: Conversation = serde_json::from_str(&json).unwrap();
        let raw = at_snapshot.live.iter().map(|entry| self.spoken[&entry.seq].clone()).collect();
        let filled = restored.fill(raw, at_snapshot.pending.iter().cloned().collect());
        assert!(filled, "a snapshot could not be filled from its own words");
        self.journal.iter().for_each(|record| restored.apply(record).unwrap());
        restored
    }

    pub(crate) fn assemble(&self) -> Assembled {
        let tail = Tail {
            now: self.now,
            zone: jiff::tz::TimeZone::UTC,
            recalled: Vec::new(),
            quotes: Vec::new(),
            last_call: false,
        };
        window::assemble(&self.conversation, &self.agent, &tail).unwrap()
    }

    pub(crate) fn tier(&self) -> Tier {
        window::measure(&self.conversation, &self.agent).tier
    }

    /// Invariant 1: every number is in exactly one place; ranges are in order, and contiguous but for undone turns.
    pub(crate) fn check_coverage(&self) {
        let conversation = &self.conversation;
        let mut next = Seq(1);
        for (from, to) in &self.sessions {
            assert_eq!(*from, next);
            next = to.next();
        }
        assert_eq!(conversation.first_seq, next);
        let is_undone = |seq: Seq| {
            conversation.undone.iter().any(|undone| undone.from_seq <= seq && seq <= undone.to_seq)
        };
        let skip_undone = |mut next: Seq| {
            while is_undone(next) {
                next = next.next();
            }
            next
        };
        for item in conversation.stack.items() {
            let (from, to) = item.range();
            assert!(from == next || from == skip_undone(next), "the stack has a gap or an overlap");
            assert!(to >= from);
            let counted = (from.0..=to.0).filter(|seq| !is_undone(Seq(*seq))).count();
            assert_eq!(item.messages(), counted as u64);
            next = to.next();
        }
        for entry in &conversation.live {
            next = skip_undone(next);
            assert_eq!(entry.seq, next, "the live history has a gap or an overlap");
            next = next.next();
        }
        assert_eq!(conversation.next_seq, skip_undone(next), "the newest entries are nowhere");
        for seq in 1..conversation.next_seq.0 {
            let place = conversation.place(Seq(seq)).unwrap_or_else(|| panic!("{seq} has no place"));
            let is_archived = Seq(seq) < conversation.first_seq || is_undone(Seq(seq));
            assert_eq!(place == EntryPlace::Archived, is_archived, "{seq} is {place}");
        }
        assert_eq!(conversation.place(conversation.next_seq), None);
    }

    /// What is owed is what the view lists as owed.
    pub(crate) fn check_owed(&self) {
        let owed: BTreeSet<_> = self.conversation.owed.iter().cloned().collect();
        let listed = self.items.iter().filter(|item| item.is_owed()).map(|item| item.id.clone());
        assert_eq!(owed, listed.collect());
        assert_eq!(owed.len(), self.conversation.owed.len());
    }

    /// Every accepted message is pending or in a turn.
    pub(crate) fn check_messages(&self) {
        let pending = self.conversation.pending.iter().map(|pending| pending.message.clone());
        let mut placed: BTreeSet<MessageId> = pending.collect();
        for record in &self.journal {
            if let Event::Turn(TurnEvent::Started { messages, .. }) = &record.event {
                placed.extend(messages.iter().cloned());
            }
        }
        assert_eq!(placed.len() as u64, self.n_messages + self.n_corrections);
    }

    pub(crate) fn sealed_places(&self) -> usize {
        let seqs = 1..self.conversation.next_seq.0;
        seqs.filter(|seq| self.conversation.place(Seq(*seq)) == Some(EntryPlace::Sealed)).count()
    }

    pub(crate) fn live(&self) -> Vec<Arc<Entry>> {
        self.conversation.live.iter().cloned().collect()
    }

    pub(crate) fn n_markers(&self) -> usize {
        let is_marker = |item: &&StackItem| matches!(item, StackItem::Marker(_));
        self.conversation.stack.items().iter().filter(is_marker).count()
    }
}
