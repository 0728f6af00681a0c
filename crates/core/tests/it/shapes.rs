//! The persisted shapes: journals are read for years, so that a change of one must be seen and meant.

use std::collections::BTreeSet;

use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, Checkpoint, CompactionEvent, DeliveryEvent, ErasureFigures, Event,
    MaintenanceEvent, MemoryEvent, MessageEvent, ModelNews, PruneCause, PruneForm, PrunedResult, Receipt,
    Record, RegistryEvent, Removal, Run, RunEnd, RunOutcome, RunRequest, RunWork, Trigger, TurnEnd,
    TurnEvent, TurnOutcome,
};
use cairn_types::ids::{Generation, MemoryId, Seq, SeqRange};
use cairn_types::memory::{
    DraftMemory, MemoryKind, MemorySave, Quote, Replaces, Scope, Source, TYPED_BY_MEMBER,
};
use cairn_types::message::{Artifact, Author, Entry, Finish, Part, Pending, Provenance, Role, ToolCall};
use cairn_types::model::{ChatMessage, Usage};
use cairn_types::people::access::{AccessPolicy, DirectPolicy, Respond};
use cairn_types::summary::{DigestLine, Marker, MarkerKind, Summary};
use cairn_types::tier::Tier;
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use cairn_types::tool::mcp::{ServerPin, ServerSource, ToolPin};
use cairn_types::tool::{Effect, ToolOutcome, ToolUse};
use cairn_types::trace::{CallTrace, FailedTry, RunCall};
use cairn_types::window_bounds::WindowBounds;
use jiff::Timestamp;

fn at() -> Timestamp {
    Timestamp::from_second(1_770_000_000).unwrap_or_default()
}

fn hello(author: Author, direct: bool) -> Pending {
    Pending {
        message: "m1".into(),
        turn: "t1".into(),
        at: at(),
        author,
        parts: vec![Part::text("hello")],
        addressed: true,
        direct,
        chat_name: None,
        language: None,
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        reminder: None,
        fingerprint: "f1".into(),
        tokens: 12,
    }
}

fn settled(receipt: Receipt) -> Event {
    Event::Delivery(DeliveryEvent::Settled { id: "o1".into(), receipt })
}

fn recalled(scores: Vec<f64>, near: Vec<(MemoryId, f64)>) -> Event {
    let quotes = near.iter().map(|(_, score)| Quote { seq: Seq(3), from: 0, to: 9, score: *score }).collect();
    Event::Memory(MemoryEvent::Recalled { ids: vec!["m0".into()], tokens: 40, scores, near, quotes })
}

fn spent(usage: Usage, is_estimate: bool, trace: Option<CallTrace>) -> Event {
    let (model, trace) = ("small".into(), trace.map(Box::new));
    Event::Compaction(CompactionEvent::UsageSpent { model, usage, is_estimate, trace })
}

fn reply_intended() -> Event {
    Event::Delivery(DeliveryEvent::Intended {
        id: "o1".into(),
        turn: "t1".into(),
        seq: Seq(2),
        note: None,
        approval: None,
        reply_to: None,
        edits: None,
        draft: false,
        files: Vec::new(),
    })
}

fn messages() -> Vec<Event> {
    let parts = vec![
        Part::text("hello"),
        Part::Image { name: Some("a.png".into()), media_type: "image/png".into(), data: "aGk=".into() },
        Part::File { name: "b.txt".into(), media_type: None, text: Some("inside".into()) },
    ];
    let pending = Pending { parts, ..hello(Author { id: "local/anna".into(), name: "Anna".into() }, false) };
    let entry = Entry {
        role: Role::Assistant,
        reasoning: Some("because".into()),
        tool_calls: vec![ToolCall {
            id: "c1".into(),
            name: "history_search".into(),
            arguments: serde_json::json!({ "query": "flowers" }),
        }],
        tool_call_id: None,
        artifact: None,
        files: Vec::new(),
        provenance: cairn_types::message::Provenance::default(),
        quotes: true,
        author: None,
        message: None,
        ..pending.to_entry(Seq(2), &"t1".into(), Generation(1))
    };
    let cut = Entry { finish: Some(Finish::ContextWindow), ..entry.clone() };
    let usage = Usage { input_tokens: 100, output_tokens: 7, cached_tokens: 60, cache_write_tokens: 0 };
    let end = |outcome| {
        Event::Turn(TurnEvent::Ended(TurnEnd {
            turn: "t1".into(),
            outcome,
            model: Some("main".into()),
            usage,
            recalled: vec!["m0".into()],
        }))
    };
    vec![
        Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0".into() }),
        Event::Message(MessageEvent::Accepted(pending)),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages: vec!["m1".into()], first_seq: Seq(1) }),
        recalled(Vec::new(), Vec::new()),
        Event::Turn(TurnEvent::EntryAdded { entry }),
        Event::Turn(TurnEvent::UsageReported {
            model: "main".into(),
            estimated: 90,
            usage,
            disbelieved: None,
            is_estimate: false,
            set_window: Some(16_000),
            caused_by: BTreeSet::from(["telegram/7".into()]),
            trace: None,
        }),
        end(TurnOutcome::Answered { reply: Seq(2) }),
        end(TurnOutcome::Unanswered),
        end(TurnOutcome::Failed { code: "turn_failed".into(), message: "no model answers".into() }),
        end(TurnOutcome::Stopped),
        end(TurnOutcome::DeadLettered),
        Event::Turn(TurnEvent::Interrupted { turn: "t1".into() }),
        reply_intended(),
        settled(Receipt::Delivered { messages: Vec::new() }),
        settled(Receipt::Dead { reason: "gone".into() }),
        Event::Maintenance(MaintenanceEvent::DaemonStopped),
        Event::Turn(TurnEvent::EntryAdded { entry: cut }),
    ]
}

fn save() -> MemorySave {
    MemorySave {
        agent: "main".into(),
        scope: Scope::Chat { platform: "local".into(), chat: "main".into() },
        kind: MemoryKind::Decision,
        text: "Anna takes the third flat.".into(),
        subject: Some("Anna".into()),
        importance: 0.7,
        source: Source {
            channel: "main/local/main".parse().ok(),
            from_seq: Some(Seq(1)),
            to_seq: Some(Seq(4)),
            summary: Some("s1".into()),
            model: "main".into(),
            by: None,
            said_at: None,
            told_by: None,
        },
        sighting: "main/local/main/s1/0".into(),
        explicit: true,
        replaces: Replaces::default(),
    }
}

fn run(work: RunWork, trigger: Trigger) -> Event {
    Event::Compaction(CompactionEvent::RunStarted {
        run: Run {
            id: "r1".into(),
            trigger,
            tier: Tier::Background,
            work,
            from_seq: Seq(1),
            to_seq: Seq(4),
            messages: 4,
            instruction: Some("names".into()),
            started_at: at(),
            attempt: 1,
            retry_at: Some(at()),
            tokens_before: 5_000,
            checkpoint: None,
            tell: false,
            failure: None,
            replaces: None,
            spent: Default::default(),
        },
    })
}

fn compaction() -> Vec<Event> {
    let summary = Summary {
        id: "s1".into(),
        level: 0,
        from_seq: Seq(1),
        to_seq: Seq(4),
        from_at: at(),
        to_at: at(),
        messages: 4,
        tokens: 20,
        made_by: "main".into(),
        text: "Anna takes the third flat.".into(),
        identifiers: Vec::new(),
        provisional: false,
    };
    let end = RunEnd {
        run: "r1".into(),
        trigger: Trigger::Threshold,
        outcome: RunOutcome::Committed,
        reason: None,
        summary: Some(summary),
        memories: vec![save()],
        messages: 4,
        tokens_before: 5_000,
        tokens_after: 3_000,
        first_kept_seq: Some(Seq(5)),
        duration_ms: 900,
        owes_run: false,
        attempts: 0,
        spent: Default::default(),
    };
    let marker =
        |kind, digest| Marker { kind, from_seq: Seq(1), to_seq: Seq(4), messages: 4, digest, tokens: 30 };
    let line = DigestLine { seq: Seq(2), text: "Anna: the third one".into() };
    let retired = marker(MarkerKind::Retired, Vec::new());
    let request = RunRequest { trigger: Trigger::Manual, instruction: None, tell: false };
    vec![
        run(RunWork::Sealed, Trigger::Threshold),
        run(RunWork::Truncated, Trigger::Emergency),
        run(RunWork::Merge { sources: vec!["s1".into(), "s2".into()], level: 0 }, Trigger::Merge),
        Event::Compaction(CompactionEvent::RunQueued { request }),
        Event::Compaction(CompactionEvent::RunAttemptFailed {
            run: "r1".into(),
            attempt: 1,
            reason: "timeout".into(),
            retry_at: at(),
        }),
        Event::Compaction(CompactionEvent::RunEnded(end)),
        Event::Compaction(CompactionEvent::EmergencyApplied {
            marker: marker(MarkerKind::Truncated, vec![line]),
            messages: 4,
            tokens_before: 9_000,
            tokens_after: 4_000,
        }),
        Event::Compaction(CompactionEvent::StackRetired { marker: retired }),
        Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) }),
        Event::Compaction(CompactionEvent::RunQueued {
            request: RunRequest { trigger: Trigger::Manual, instruction: Some("names".into()), tell: true },
        }),
    ]
}

fn memories() -> Vec<Event> {
    vec![
        Event::Memory(MemoryEvent::Saved(save())),
        Event::Memory(MemoryEvent::Edited {
            id: "m0".into(),
            text: Some("Anna takes the fourth flat.".into()),
            kind: Some(MemoryKind::Fact),
            importance: Some(0.9),
        }),
        Event::Memory(MemoryEvent::Forgotten { id: "m0".into(), wished: false }),
        Event::Maintenance(MaintenanceEvent::LinesQuarantined { from_n: 7, to_n: 9, next_seq: None }),
        Event::Maintenance(MaintenanceEvent::LinesQuarantined {
            from_n: 10,
            to_n: 12,
            next_seq: Some(Seq(8)),
        }),
        Event::Memory(MemoryEvent::Saved(MemorySave {
            source: Source {
                model: TYPED_BY_MEMBER.into(),
                by: Some(Author { id: "telegram/7".into(), name: "Anna".into() }),
                said_at: Some(at()),
                told_by: None,
                ..save().source
            },
            ..save()
        })),
    ]
}

fn reacted(by: Author) -> Event {
    let (message, seq, emoji) = ("901".into(), Seq(2), "👍".into());
    Event::Message(MessageEvent::Reacted { message, seq, by, emoji, removed: false })
}

fn usage() -> Usage {
    Usage { input_tokens: 100, output_tokens: 7, cached_tokens: 60, cache_write_tokens: 0 }
}

fn chats() -> Vec<Event> {
    let person = Author { id: "telegram/7".into(), name: "Anna".into() };
    let id = || "o1".into();
    let intended = |note: Option<&str>, edits: Option<&str>, draft| {
        Event::Delivery(DeliveryEvent::Intended {
            id: id(),
            turn: "t1".into(),
            seq: Seq(2),
            note: note.map(Into::into),
            approval: None,
            reply_to: Some("m1".into()),
            edits: edits.map(Into::into),
            draft,
            files: Vec::new(),
        })
    };
    vec![
        Event::Message(MessageEvent::Accepted(hello(person.clone(), true))),
        Event::Message(MessageEvent::Edited {
            message: "m1".into(),
            parts: vec![Part::text("hullo")],
            addressed: true,
            fingerprint: "f2".into(),
            tokens: 13,
        }),
        Event::Message(MessageEvent::Deleted { message: "m1".into(), seqs: Vec::new() }),
        Event::Message(MessageEvent::Deleted { message: "m1".into(), seqs: vec![Seq(1), Seq(5)] }),
        Event::Turn(TurnEvent::Undone { turn: "t1".into(), from_seq: Seq(1), to_seq: Seq(2) }),
        reacted(person.clone()),
        Event::Message(MessageEvent::CommandTaken {
            message: "m2".into(),
            command: "new".into(),
            caller: person.clone(),
        }),
        intended(None, None, true),
        intended(None, Some("900"), false),
        intended(Some("The models are down; your message is kept."), None, false),
        Event::Delivery(DeliveryEvent::Attempted { id: id(), part: 1 }),
        Event::Delivery(DeliveryEvent::PutOff { id: id(), part: 1, reason: "too many requests".into() }),
        Event::Delivery(DeliveryEvent::Sent { id: id(), part: 1, message: "901".into() }),
        settled(Receipt::Delivered { messages: vec!["901".into()] }),
        settled(Receipt::Unknown { part: 1, reason: "cut off".into() }),
        Event::Delivery(DeliveryEvent::Retried { id: id() }),
        Event::Delivery(DeliveryEvent::Dropped { id: id() }),
        spent(usage(), true, None),
        Event::Registry(RegistryEvent::PairingRequested {
            user: person,
            chat: "7".into(),
            code: "KIWI-42".into(),
        }),
        Event::Registry(RegistryEvent::PairingApproved { user: "telegram/7".into() }),
        Event::Registry(RegistryEvent::PairingRevoked { user: "telegram/7".into() }),
        Event::Registry(RegistryEvent::ChatMigrated {
            platform: "telegram".into(),
            from: "-7".into(),
            to: "-1007".into(),
        }),
        Event::Message(MessageEvent::Refused { message: "m3".into() }),
        Event::Turn(TurnEvent::Reopened { turn: "t1".into(), messages: vec!["m1".into()] }),
        Event::Turn(TurnEvent::Joined { turn: "t1".into(), messages: vec!["m2".into()], first_seq: Seq(4) }),
        Event::Turn(TurnEvent::UsageReported {
            model: "main".into(),
            estimated: 90,
            usage: usage(),
            disbelieved: Some(Usage { input_tokens: u64::MAX, ..usage() }),
            is_estimate: true,
            set_window: None,
            caused_by: BTreeSet::new(),
            trace: None,
        }),
    ]
}

fn bans() -> Vec<Event> {
    vec![
        Event::Registry(RegistryEvent::BanSet {
            user: "telegram/7".into(),
            reason: None,
            until: None,
            by: "local/operator".into(),
        }),
        Event::Registry(RegistryEvent::BanSet {
            user: "telegram/7".into(),
            reason: Some("spam".into()),
            until: Some(at()),
            by: "telegram/8".into(),
        }),
        Event::Registry(RegistryEvent::BanLifted { user: "telegram/7".into() }),
        Event::Registry(RegistryEvent::AccessSet {
            platform: "discord".into(),
            access: AccessPolicy {
                agent: "main".into(),
                direct: DirectPolicy::Pairing,
                users: BTreeSet::new(),
                servers: BTreeSet::from(["100".to_owned()]),
                chats: BTreeSet::new(),
                members: BTreeSet::from(["7".to_owned()]),
                respond: Respond::Mention,
                bots: false,
                places: Vec::new(),
            },
        }),
    ]
}

fn learnt(news: ModelNews) -> Event {
    let window_of = news.window_tokens.map(|_| 128_000);
    Event::Turn(TurnEvent::ModelLearnt(ModelNews { model: "main".into(), window_of, ..news }))
}

#[expect(clippy::too_many_lines, reason = "one of each kind")]
fn windows() -> Vec<Event> {
    let bounds = WindowBounds { taken: 7_000, refused: 7_100, overflows: 2, blameless: 0 };
    let artifact = Artifact {
        id: "a1".into(),
        tool: "fetch".into(),
        message: None,
        sent_in: None,
        bytes: 90_000,
        lines: 1_200,
        stored_at: at(),
        used_at: at(),
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    };
    let memory = DraftMemory {
        kind: MemoryKind::Fact,
        text: "Anna lives in Lyon.".into(),
        subject: Some("Anna".into()),
        importance: 0.5,
        by: None,
        said_at: Some(at()),
        told_by: None,
        replaces: Replaces { ids: vec!["m1".into()], from: Some(at()) },
    };
    let checkpoint = Checkpoint {
        chunks: 2,
        to_seq: Seq(40),
        text: "so far".into(),
        made_by: "main".into(),
        memories: vec![memory],
        left_out: vec![Seq(12)],
    };
    let marker = Marker::new(MarkerKind::Retired, Seq(1), Seq(4), Vec::new());
    let pruned = |seq, form| PrunedResult {
        seq: Seq(seq),
        form,
        tokens: 30,
        tool: "fetch".into(),
        whole_bytes: 90_000,
        artifact: None,
    };
    let results = vec![
        pruned(3, PruneForm::Shrunk { bytes: 3_000 }),
        pruned(5, PruneForm::Edges { chars: 1_500 }),
        pruned(7, PruneForm::Cleared),
    ];
    vec![
        Event::Compaction(CompactionEvent::RunCheckpointed { run: "r1".into(), checkpoint }),
        Event::Compaction(CompactionEvent::WindowSlid {
            marker,
            messages: 4,
            tokens_before: 9_000,
            tokens_after: 4_000,
        }),
        Event::Compaction(CompactionEvent::ResultsPruned {
            cause: PruneCause::CacheTtl,
            results,
            scanned: 9,
            tokens_before: 9_000,
            tokens_after: 4_000,
        }),
        Event::Artifact(ArtifactEvent::Stored { artifact }),
        Event::Artifact(ArtifactEvent::Used { id: "a1".into() }),
        Event::Artifact(ArtifactEvent::Expired { ids: vec!["a1".into()], lost: false }),
        Event::Turn(TurnEvent::ModelChosen { model: "spare".into(), reason: "`main` is overloaded".into() }),
        learnt(ModelNews { window_tokens: Some(32_768), ..ModelNews::default() }),
        learnt(ModelNews { no_tools: Some(true), ..ModelNews::default() }),
        learnt(ModelNews { no_tools: Some(false), ..ModelNews::default() }),
        learnt(ModelNews { window_tokens: Some(9_000), bounds: Some(bounds), ..ModelNews::default() }),
        learnt(ModelNews { window_tokens: Some(3_185), cut: true, ..ModelNews::default() }),
        learnt(ModelNews { forgets: true, ..ModelNews::default() }),
        Event::Turn(TurnEvent::HistoryWithheld {
            model: "main".into(),
            range: Some(SeqRange { from_seq: Seq(3), to_seq: Seq(9) }),
        }),
        Event::Turn(TurnEvent::HistoryWithheld { model: "main".into(), range: None }),
    ]
}

/// A message that is larger than the window, and its copy.
fn long_message() -> [Event; 2] {
    let artifact = Artifact {
        id: "a2".into(),
        tool: String::new(),
        message: Some(Seq(9)),
        sent_in: None,
        bytes: 90_000,
        lines: 1_200,
        stored_at: at(),
        used_at: at(),
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    };
    let sent = PrunedResult {
        seq: Seq(9),
        form: PruneForm::Shrunk { bytes: 20_000 },
        tokens: 5_000,
        tool: String::new(),
        whole_bytes: 90_000,
        artifact: Some("a2".into()),
    };
    let (cause, results) = (PruneCause::Message, vec![sent]);
    let pruned = Event::Compaction(CompactionEvent::ResultsPruned {
        cause,
        results,
        scanned: 1,
        tokens_before: 90_000,
        tokens_after: 12_000,
    });
    [Event::Artifact(ArtifactEvent::Stored { artifact }), pruned]
}

fn pins() -> (ServerPin, ServerPin) {
    let tool = ToolPin {
        name: "write".into(),
        title: Some("Write a file".into()),
        description: "Writes a file.".into(),
        schema: serde_json::json!({ "type": "object" }),
        read_only: Some(false),
        destructive: Some(true),
        idempotent: None,
        open_world: None,
    };
    let pin = |source| ServerPin {
        server: "files".into(),
        source,
        name: "filesystem".into(),
        version: "1.0".into(),
        tools: vec![tool.clone()],
    };
    let child = ServerSource::Stdio {
        command: "mcp-files".into(),
        args: vec!["/srv".into()],
        env: BTreeSet::from(["PATH".to_owned()]),
        cwd: None,
    };
    let http = ServerSource::Http {
        url: "https://tools.example/mcp".into(),
        headers: BTreeSet::from(["Authorization".to_owned()]),
    };
    (pin(child), pin(http))
}

fn tools() -> Vec<Event> {
    let arguments = serde_json::json!({ "path": "/srv/notes.txt" });
    let caused_by = BTreeSet::from(["telegram/7".to_owned()]);
    let used = |outcome, error: Option<&str>, approval: Option<&str>| ToolUse {
        turn: "t1".into(),
        call: "c1".into(),
        tool: "files__write".into(),
        effect: Effect::Changes,
        caused_by: caused_by.clone(),
        arguments: arguments.clone(),
        outcome,
        error: error.map(Into::into),
        duration_ms: 12,
        bytes: 40,
        approval: approval.map(Into::into),
        allowed_by: None,
    };
    let approval = Approval {
        id: "k7p2xm".into(),
        turn: "t1".into(),
        call: "c1".into(),
        tool: "files__write".into(),
        arguments: arguments.clone(),
        caused_by: caused_by.clone(),
        reason: "results of tools".into(),
        asked_at: at(),
        expires_at: at(),
    };
    let settled = |outcome, by: Option<&str>| {
        Event::Approval(ApprovalEvent::Settled { id: "k7p2xm".into(), outcome, by: by.map(Into::into) })
    };
    let result = Entry {
        tool_call_id: Some("c1".into()),
        provenance: Provenance { people: caused_by.clone(), strangers: true, tools: true },
        ..Entry::lost(Seq(3), &"t1".into(), Generation(1), at())
    };
    vec![
        Event::Turn(TurnEvent::EntryAdded { entry: Entry { role: Role::Tool, ..result } }),
        Event::Turn(TurnEvent::ToolUsed(used(ToolOutcome::Done, None, Some("k7p2xm")))),
        Event::Turn(TurnEvent::ToolUsed(used(ToolOutcome::TimedOut, Some("it took longer than 60 s"), None))),
        Event::Approval(ApprovalEvent::Asked { approval }),
        settled(ApprovalOutcome::Granted, Some("telegram/7")),
        settled(ApprovalOutcome::Expired, None),
        Event::Registry(RegistryEvent::ServerApproved { pin: pins().0 }),
        Event::Registry(RegistryEvent::ServerApproved { pin: pins().1 }),
        Event::Registry(RegistryEvent::ServerRevoked { server: "files".into() }),
        Event::Turn(TurnEvent::ToolUsed(ToolUse {
            allowed_by: Some("files/*".into()),
            ..used(ToolOutcome::Done, None, None)
        })),
    ]
}

fn lines(events: Vec<Event>) -> String {
    let line = |(idx, event)| {
        let channel = "main/local/main".parse().ok();
        let record = Record { n: idx as u64 + 1, at: at(), channel, event };
        let json = serde_json::to_string(&record).unwrap_or_default();
        let back = serde_json::from_str::<Record>(&json);
        assert_eq!(back.ok().as_ref(), Some(&record), "does not read back: {json}");
        json
    };
    events.into_iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn events_of_tools_keep_their_shape() {
    insta::assert_snapshot!(lines(tools()));
}

#[test]
fn events_of_the_window_keep_their_shape() {
    insta::assert_snapshot!(lines(windows().into_iter().chain(long_message()).collect()));
}

#[test]
fn events_of_messages_keep_their_shape() {
    insta::assert_snapshot!(lines(messages()));
}

#[test]
fn events_of_compaction_keep_their_shape() {
    insta::assert_snapshot!(lines(compaction()));
}

#[test]
fn events_of_memories_keep_their_shape() {
    insta::assert_snapshot!(lines(memories()));
}

#[test]
fn events_of_erasures_keep_their_shape() {
    let figures = ErasureFigures { entries: 2, answers: 1, seconds: 0.5, ..ErasureFigures::default() };
    let events = vec![
        Event::Maintenance(MaintenanceEvent::PersonErased { pseudonym: "local/erased-1".into(), figures }),
        Event::Maintenance(MaintenanceEvent::RecordsRemoved { from_n: 2, to_n: 9, by: Removal::Erasure }),
        Event::Maintenance(MaintenanceEvent::WordsExpired {
            channel: "main/local/main".parse().unwrap(),
            entries: vec![(Seq(1), Seq(4)), (Seq(7), Seq(7))],
            summaries: vec!["s1".into()],
        }),
    ];
    insta::assert_snapshot!(lines(events), @r#"
    {"n":1,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"person_erased","pseudonym":"local/erased-1","figures":{"entries":2,"answers":1,"memories":0,"summaries":0,"artifacts":0,"mentions":0,"conversations":0,"seconds":0.5}}}
    {"n":2,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"records_removed","from_n":2,"to_n":9,"by":"erasure"}}
    {"n":3,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"words_expired","channel":"main/local/main","entries":[[1,4],[7,7]],"summaries":["s1"]}}
    "#);
}

#[test]
fn events_of_chats_keep_their_shape() {
    insta::assert_snapshot!(lines(chats().into_iter().chain(bans()).collect()));
}

#[test]
fn events_of_traces_keep_their_shape() {
    let usage = Usage { input_tokens: 100, output_tokens: 7, ..Usage::default() };
    let short = CallTrace {
        at_n: 41,
        asked_at: at(),
        frame: "f0".into(),
        body: None,
        last_call: false,
        first_ms: None,
        total_ms: 4_200,
        waited_ms: 0,
        cost: None,
        failure: None,
        tried: Vec::new(),
        work: Some(RunCall {
            run: "r1".into(),
            round: 2,
            entries: Some((Seq(1), Seq(8))),
            target_tokens: 600,
            tools_withdrawn: false,
            masked: true,
            added: vec![
                ChatMessage::Assistant {
                    text: String::new(),
                    tool_calls: vec![ToolCall {
                        id: "c1".into(),
                        name: "memory_save".into(),
                        arguments: serde_json::json!({}),
                    }],
                    provider_state: None,
                },
                ChatMessage::Tool { call_id: "c1".into(), text: "saved".into(), images: Vec::new() },
                ChatMessage::User { parts: vec![Part::text("again")] },
            ],
        }),
    };
    let long = CallTrace {
        body: Some("b0".into()),
        last_call: true,
        first_ms: Some(310),
        waited_ms: 12,
        cost: Some(0.0012),
        failure: Some("timeout".into()),
        tried: vec![FailedTry { model: "other".into(), error: "overloaded".into(), n: 2 }],
        work: None,
        ..short.clone()
    };
    let events = vec![
        Event::Maintenance(MaintenanceEvent::TextKept { id: "f0".into(), text: "{}".into() }),
        recalled(vec![2.5], vec![("m1".into(), 0.5)]),
        Event::Turn(TurnEvent::UsageReported {
            model: "main".into(),
            estimated: 90,
            usage,
            disbelieved: None,
            is_estimate: true,
            set_window: None,
            caused_by: BTreeSet::new(),
            trace: Some(Box::new(long)),
        }),
        spent(usage, false, Some(short)),
    ];
    insta::assert_snapshot!(lines(events), @r#"
    {"n":1,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"text_kept","id":"f0","text":"{}"}}
    {"n":2,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"memories_recalled","ids":["m0"],"tokens":40,"scores":[2.5],"near":[["m1",0.5]],"quotes":[{"seq":3,"from":0,"to":9,"score":0.5}]}}
    {"n":3,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"usage_reported","model":"main","estimated":90,"usage":{"input_tokens":100,"output_tokens":7,"cached_tokens":0},"is_estimate":true,"trace":{"at_n":41,"asked_at":1770000000000,"frame":"f0","body":"b0","last_call":true,"first_ms":310,"total_ms":4200,"waited_ms":12,"cost":0.0012,"failure":"timeout","tried":[{"model":"other","error":"overloaded","n":2}]}}}
    {"n":4,"at":"2026-02-02T02:40:00Z","channel":"main/local/main","event":{"type":"usage_spent","model":"small","usage":{"input_tokens":100,"output_tokens":7,"cached_tokens":0},"trace":{"at_n":41,"asked_at":1770000000000,"frame":"f0","total_ms":4200,"work":{"run":"r1","round":2,"entries":[1,8],"target_tokens":600,"masked":true,"added":[{"role":"assistant","text":"","tool_calls":[{"id":"c1","name":"memory_save","arguments":{}}]},{"role":"tool","call_id":"c1","text":"saved"},{"role":"user","parts":[{"type":"text","text":"again"}]}]}}}}
    "#);
}
