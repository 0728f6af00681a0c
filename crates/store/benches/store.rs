//! Appending with its sync, in a folder and in a database, restoring a channel of 2,000 entries, and recalling from 50,000
//! memories.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's failure")]

use std::sync::Arc;

use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store as _;
use cairn_store::{DatabaseOptions, Store, StoreOptions};
use cairn_testkit::postgres::Postgres;
use cairn_types::event::{Event, MemoryEvent, NewRecord, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId, Generation, Seq, TurnId};
use cairn_types::memory::{MemoryKind, MemorySave, Reach, Replaces, Scope, Source};
use cairn_types::message::{Entry, Part, Role};
use divan::{Bencher, black_box};
use jiff::Timestamp;

fn main() {
    divan::main();
}

fn record(seq: u64) -> NewRecord {
    let entry = Entry {
        seq: Seq(seq),
        turn: TurnId::from("t1"),
        generation: Generation(1),
        at: Timestamp::UNIX_EPOCH,
        role: Role::Assistant,
        author: None,
        message: None,
        parts: vec![Part::text(
            "A sentence such as people write in chats, with a word or two more. ".repeat(3),
        )],
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
        tokens: 40,
    };
    let channel: ChannelId = "main/local/main".parse().unwrap();
    NewRecord {
        channel: Some(channel),
        at: Timestamp::UNIX_EPOCH,
        event: Event::Turn(TurnEvent::EntryAdded { entry }),
    }
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    store: Store,
    _dir: tempfile::TempDir,
}

fn open() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    Bench { runtime: tokio::runtime::Runtime::new().unwrap(), store, _dir: dir }
}

/// The disk's own cost: what an append cannot beat.
#[divan::bench(sample_count = 200)]
fn write_and_fdatasync(bencher: Bencher) {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    bencher.bench_local(|| {
        file.write_all(&[b'x'; 400]).unwrap();
        file.sync_data().unwrap();
    });
}

#[divan::bench(sample_count = 200)]
fn append_one_and_sync(bencher: Bencher) {
    let bench = open();
    let mut seq = 0;
    bencher.bench_local(|| {
        seq += 1;
        bench.runtime.block_on(bench.store.append(vec![record(seq)])).unwrap()
    });
}

#[divan::bench(sample_count = 50)]
fn append_64_at_once(bencher: Bencher) {
    let bench = open();
    let mut seq = 0;
    bencher.counter(64u32).bench_local(|| {
        let appends: Vec<_> = (0..64)
            .map(|_| {
                seq += 1;
                bench.store.append(vec![record(seq)])
            })
            .collect();
        bench.runtime.block_on(futures::future::join_all(appends))
    });
}

/// Appends of one record that each of the tasks makes, one after another.
const IN_A_ROW: u64 = 50;

/// So many tasks append beside each other. Says how many appends a commit took with it.
fn append_beside(bencher: Bencher, bench: &Bench, tasks: u64) {
    let (mut appends, before) = (0, bench.runtime.block_on(bench.store.stats()).unwrap().syncs);
    bencher.counter(tasks * IN_A_ROW).bench_local(|| {
        appends += tasks * IN_A_ROW;
        let task = async |task: u64| {
            for n in 0..IN_A_ROW {
                bench.store.append(vec![record(appends + task * IN_A_ROW + n)]).await.unwrap();
            }
        };
        bench.runtime.block_on(futures::future::join_all((0..tasks).map(task)))
    });
    let commits = bench.runtime.block_on(bench.store.stats()).unwrap().syncs - before;
    eprintln!("{tasks} tasks: {:.1} appends in a commit", appends as f64 / commits as f64);
}

#[divan::bench(args = [1, 32], sample_count = 20, sample_size = 1)]
fn append_to_a_folder(bencher: Bencher, tasks: u64) {
    append_beside(bencher, &open(), tasks);
}

/// Over loopback, with every commit synced. Nothing is measured where no server is installed.
#[divan::bench(args = [1, 32], sample_count = 20, sample_size = 1)]
fn append_to_a_database(bencher: Bencher, tasks: u64) {
    if !Postgres::is_installed() {
        return;
    }
    let server = Postgres::start(true);
    let dir = tempfile::tempdir().unwrap();
    let (url, node, address) = (server.database().into(), "a".to_owned(), "a.example:80".to_owned());
    let database = Some(DatabaseOptions { url, node, address });
    let store = Store::open(StoreOptions { database, ..StoreOptions::new(dir.path()) }).unwrap();
    let bench = Bench { runtime: tokio::runtime::Runtime::new().unwrap(), store, _dir: dir };
    append_beside(bencher, &bench, tasks);
    bench.runtime.block_on(bench.store.clone().close());
}

fn with_2000_entries() -> (Bench, Conversation) {
    let bench = open();
    let channel: ChannelId = "main/local/main".parse().unwrap();
    let conversation = bench.runtime.block_on(async {
        bench.store.append((1..=2000).map(record).collect()).await.unwrap();
        bench.store.restore(&channel).await.unwrap().unwrap()
    });
    (bench, conversation)
}

#[divan::bench(sample_count = 20)]
fn restore_2000_entries_from_events(bencher: Bencher) {
    let (bench, conversation) = with_2000_entries();
    bencher.bench_local(|| {
        black_box(bench.runtime.block_on(bench.store.restore(&conversation.channel)).unwrap())
    });
}

#[divan::bench(sample_count = 20)]
fn restore_2000_entries_from_a_head(bencher: Bencher) {
    let (bench, conversation) = with_2000_entries();
    bench.runtime.block_on(bench.store.keep_snapshot(Arc::new(conversation.clone()))).unwrap();
    bencher.bench_local(|| {
        black_box(bench.runtime.block_on(bench.store.restore(&conversation.channel)).unwrap())
    });
}

/// Every memory has most words of the question.
#[divan::bench(sample_count = 50)]
fn recall_from_50000_memories(bencher: Bencher) {
    const N: usize = 50_000;
    let bench = open();
    let agent = AgentId::from("main");
    let saved = (0..N).map(|n| {
        let text = format!(
            "Anna looked at flat number {n} in Lisbon, with {} balconies and a view of the river",
            n % 7
        );
        let source = Source {
            channel: None,
            from_seq: None,
            to_seq: None,
            summary: None,
            model: "typed".to_owned(),
            by: None,
            said_at: None,
            told_by: None,
        };
        let save = MemorySave {
            agent: agent.clone(),
            scope: Scope::Agent,
            kind: MemoryKind::Fact,
            text,
            subject: None,
            importance: 0.5,
            source,
            sighting: format!("typed:{n}"),
            explicit: true,
            replaces: Replaces::default(),
        };
        NewRecord { channel: None, at: Timestamp::UNIX_EPOCH, event: Event::Memory(MemoryEvent::Saved(save)) }
    });
    let saved: Vec<NewRecord> = saved.collect();
    let asked = "We looked at flat number 12 in Lisbon; it has two balconies and a view of the river, and Anna liked it";
    let reach = [Reach::Scope(Scope::Agent)];
    let recall = || bench.runtime.block_on(bench.store.recall(&agent, &reach, asked, 8)).unwrap();
    bench.runtime.block_on(async {
        for some in saved.chunks(1_000) {
            bench.store.append(some.to_vec()).await.unwrap();
        }
        while bench.store.stats().await.unwrap().indexed_n < N as u64 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    bencher.bench_local(|| black_box(recall()));
}
