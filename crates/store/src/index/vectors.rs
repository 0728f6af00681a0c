//! The thread that has a model make vectors of what is said, behind the views; and how these are mixed with the ranking by words.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use cairn_types::event::{Event, Record};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::message::{Entry, Role};
use cairn_types::ports::{Embedder, HitKind, Query, StoreError};
use tantivy::schema::{IndexRecordOption, Value as _};
use tantivy::{DocAddress, DocSet, Searcher, TERMINATED, TantivyDocument, Term};
use tokio::sync::watch;

use super::schema::{Fields, Subject};
use super::search::{Scored, best_first};
use super::search_index::{index_error, readable};
use crate::files::disk::lower_priority;
use crate::journal::Durable;
use crate::journal::open::holds;
use crate::journal::reader::{Follower, Reader};
use crate::views::archive::Reads;
use crate::views::codec::view_error;
use crate::views::vectors::{self, Vector, VectorState, quantized};
use crate::views::{Command, KeptVectors, Views};

/// Vectors that are kept together, and records that are gone through for them at most.
const VECTORS_AT_ONCE: usize = 16;
const RECORDS_AT_ONCE: usize = 2000;

/// How nice the thread is.
const NICE: i32 = 10;

/// After a failure it is tried again this often.
const RETRY: Duration = Duration::from_secs(5);

/// Longest that the views are waited for.
const KEPT_WITHIN: Duration = Duration::from_secs(30);

/// The best by words, and the nearest, that are weighed by both.
const MIXED: usize = 200;

/// How much nearness counts beside words (`docs/design/figures.md`, "Search").
const WEIGHT: f64 = 0.35;

/// Makes vectors of entries, a few at a time, with a pause after each as long as it took.
pub(crate) struct Embedding {
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) views: Arc<Views>,
    pub(crate) commands: SyncSender<Command>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) journal: PathBuf,
    pub(crate) durable: watch::Receiver<Durable>,
    pub(crate) ending: Arc<AtomicBool>,
}

impl Embedding {
    /// Runs until it is told to end, or nobody is left who could wake it.
    pub(crate) fn run(self, wakes: &Receiver<()>) {
        lower_priority(NICE);
        let (mut follower, mut is_told) = (None, false);
        while !self.ending.load(Ordering::Acquire) {
            match self.step(&mut follower, wakes) {
                Ok(true) => is_told = false,
                Ok(false) => {
                    is_told = false;
                    if wakes.recv().is_err() {
                        return;
                    }
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        metrics::counter!("cairn_embedding_failures_total").increment(1);
                        tracing::warn!(%error,
                            "entries get no vectors for now; trying again; searches use only words");
                    }
                    follower = None;
                    self.pause(RETRY, wakes);
                }
            }
        }
    }

    /// Waits, unless it is told to end.
    fn pause(&self, pause: Duration, wakes: &Receiver<()>) {
        let until = Instant::now() + pause;
        while !self.ending.load(Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || wakes.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    /// Goes on a little. False: all that the views show has its vectors.
    fn step(&self, follower: &mut Option<Follower>, wakes: &Receiver<()>) -> Result<bool, StoreError> {
        let model = self.embedder.model();
        let db = self.views.db()?;
        let state = VectorState::of(&db)?.filter(|state| state.model == model);
        let Some(mut state) = state else {
            self.views.release(db);
            *follower = None;
            return self.keep(VectorState::begin(model), Vec::new()).map(|()| true);
        };
        // Views that were made again, or a journal that was written again, have it begin anew; what is there stays.
        let follows = follower.take().filter(|follower| follower.checkpoint().n >= state.n);
        let mut at = follows.unwrap_or_else(|| {
            let at = state.checkpoint();
            Follower::new(&self.journal, if holds(&self.journal, &at) { at } else { Default::default() })
        });
        let (applied, tail) = (self.views.applied().borrow().n, self.durable.borrow().tail);
        let (mut texts, mut n_records) = (Vec::new(), 0);
        while at.checkpoint().n < applied.min(tail.n)
            && texts.len() < VECTORS_AT_ONCE
            && n_records < RECORDS_AT_ONCE
        {
            let Some((record, _)) = at.next(&tail)? else { break };
            n_records += 1;
            self.texts(&Reads { db: &db, journal: &self.reader }, &record, &mut texts)?;
        }
        self.views.release(db);
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(self.embedder.at_once().max(1)) {
            if self.ending.load(Ordering::Acquire) {
                return Err(StoreError::Closed);
            }
            let began = Instant::now();
            let texts: Vec<&str> = some.iter().map(|(_, _, text)| text.as_str()).collect();
            let made = self.embedder.embed(&texts).map_err(|why| view_error(format!("no vectors: {why}")))?;
            let places = some.iter().map(|(channel, seq, _)| (channel.clone(), *seq));
            vectors.extend(
                places
                    .zip(made)
                    .map(|((channel, seq), numbers)| (channel, Vector { seq, numbers: quantized(&numbers) })),
            );
            self.pause(began.elapsed(), wakes);
        }
        // What led to nothing need not be remembered each time.
        if !vectors.is_empty() || n_records == RECORDS_AT_ONCE {
            state.advance(at.checkpoint());
            self.keep(state, vectors)?;
        }
        *follower = Some(at);
        Ok(n_records > 0)
    }

    /// What people and models say in the entries that a record brings, where these have no vectors yet.
    fn texts(
        &self,
        reads: &Reads<'_>,
        record: &Record,
        texts: &mut Vec<(ChannelId, Seq, String)>,
    ) -> Result<(), StoreError> {
        let (Some(channel), Event::Turn(event)) = (&record.channel, &record.event) else { return Ok(()) };
        let Some((from, to)) = event.numbers() else { return Ok(()) };
        let n = (to.0 - from.0) as usize + 1;
        let entries = readable(reads.entries(channel, from, to, n))?.unwrap_or_default();
        let is_said = |entry: &&Arc<Entry>| {
            matches!(entry.role, Role::User | Role::Assistant)
                && !(entry.quotes || entry.is_deleted() || entry.is_expired())
        };
        for entry in entries.iter().filter(is_said) {
            let text = entry.text();
            if !text.trim().is_empty() && !vectors::has(reads.db, channel, entry.seq)? {
                texts.push((channel.clone(), entry.seq, text));
            }
        }
        Ok(())
    }

    fn keep(&self, state: VectorState, vectors: Vec<(ChannelId, Vector)>) -> Result<(), StoreError> {
        let (reply, kept) = sync_channel(1);
        let command = Command::KeepVectors(Box::new(KeptVectors { state, vectors, reply }));
        self.commands.send(command).map_err(|_| StoreError::Closed)?;
        kept.recv_timeout(KEPT_WITHIN).unwrap_or_else(|_| Err(view_error("it keeps no vectors")))
    }
}

/// Weighs the best by words, and the nearest by their vectors, by both: each from 0 to 1 between the least and the most of them.
/// What has no vector stands by its words.
pub(super) fn mix(
    searcher: &Searcher,
    fields: &Fields,
    held: &mut Vec<Scored>,
    (query, asked): (&Query, &[i8]),
    reads: &Reads<'_>,
) -> Result<(), StoreError> {
    if query.kind.is_some_and(|kind| kind != HitKind::Entry) {
        return Ok(());
    }
    let mut known: HashMap<vectors::At, DocAddress> = HashMap::new();
    for (address, _) in held.iter().take(MIXED) {
        let doc: TantivyDocument = searcher.doc(*address).map_err(|error| index_error(&error))?;
        let subject = doc.get_first(fields.key).and_then(|key| key.as_str()).and_then(Subject::of);
        if let Some(Subject::Entry(channel, seq)) = subject {
            known.insert((channel, seq), *address);
        }
    }
    let wanted: HashSet<vectors::At> = known.keys().cloned().collect();
    let near = vectors::nearest(reads.db, query.channel.as_ref(), asked, (MIXED, &wanted))?;
    let least = near.values().copied().fold(f64::INFINITY, f64::min);
    let span = near.values().copied().fold(f64::MIN, f64::max) - least;
    let best = held.first().map_or(1.0, |(_, score)| *score);
    let mut by_address = HashMap::new();
    for (at, near) in near {
        let address = match known.get(&at) {
            Some(address) => Some(*address),
            None => address_of(searcher, fields, &Subject::Entry(at.0, at.1))?,
        };
        let share = if span > 0.0 { (near - least) / span } else { 1.0 };
        by_address.extend(address.map(|address| (address, share)));
    }
    for (idx, (address, score)) in held.iter_mut().enumerate() {
        match by_address.remove(address) {
            Some(share) => *score = (1.0 - WEIGHT) * *score + WEIGHT * share * best,
            None if idx >= MIXED => *score *= 1.0 - WEIGHT,
            None => {}
        }
    }
    held.extend(by_address.into_iter().map(|(address, share)| (address, WEIGHT * share * best)));
    held.sort_unstable_by(best_first);
    Ok(())
}

/// Where the index has what stands for a subject.
fn address_of(
    searcher: &Searcher,
    fields: &Fields,
    subject: &Subject,
) -> Result<Option<DocAddress>, StoreError> {
    let term = Term::from_field_text(fields.key, &subject.key());
    let find = || -> tantivy::Result<Option<DocAddress>> {
        for (ord, segment) in (0_u32..).zip(searcher.segment_readers()) {
            let index = segment.inverted_index(fields.key)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                if !segment.is_deleted(postings.doc()) {
                    return Ok(Some(DocAddress::new(ord, postings.doc())));
                }
                postings.advance();
            }
        }
        Ok(None)
    };
    find().map_err(|error| index_error(&error))
}
