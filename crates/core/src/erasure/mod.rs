//! Erasing a person: what is to stand in the place of each event of the journal, so that nothing of theirs is left.
//!
//! It goes by identity: by ids, and by the names that the journal has with them. Two walks over all records, in their order:
//! [`Survey::hear`] learns who they are called and where they talked, [`Eraser::erase`] says what becomes of each record. It
//! keeps numbers, turns and ranges: the rewritten journal folds like the one before. What they said, and what was said in
//! answer to them, gives way to [`ERASED`]; in all other texts a pseudonym stands in the place of their names and ids.
//! Summaries over such a range are made again from what is left. Their private chats, their memories and pairings go
//! altogether.
//!
//! Pure and without a state of its own on disk: whoever is interrupted begins again with the journal as it was.

mod channel;
mod events;
mod mask;
mod rewrite;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use cairn_types::event::{
    ArtifactEvent, CompactionEvent, DeliveryEvent, ErasureFigures, Event, MaintenanceEvent, MemoryEvent,
    MessageEvent, NewRecord, Record, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ArtifactId, ChannelId, MemoryId};
use cairn_types::message::Part;
use cairn_types::model::Usage;
use channel::ChannelErasure;
use mask::Mask;

pub use survey::Survey;

/// The words that stand in the place of those of an erased person.
pub const ERASED: &str = "[erased]";

/// Stands for a range of which nothing is left.
pub(crate) const NOTHING_LEFT: &str = "What was said here has been erased.";

fn is_picture(part: &Part) -> bool {
    matches!(part, Part::Image { .. })
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no person: write PLATFORM/USER, as in telegram/123456789 or local/anna")]
pub struct BadPerson(pub String);

/// Checks the id of a person, `PLATFORM/USER`.
///
/// # Errors
/// It has another shape.
pub fn check_person(text: &str) -> Result<&str, BadPerson> {
    let text = text.trim();
    let bad = || BadPerson(text.chars().take(80).collect());
    let (platform, user) = text.split_once('/').ok_or_else(bad)?;
    let fine = |part: &str| !part.is_empty() && part.len() <= 256 && !part.chars().any(char::is_control);
    if !fine(platform) || !fine(user) || platform.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok(text)
}

/// Rewrites the journal, record by record.
#[derive(Debug)]
pub struct Eraser {
    survey: Survey,
    mask: Mask,
    channels: HashMap<ChannelId, ChannelErasure>,
    /// Channels that were gone through, and of which nothing need be known any more.
    of_others: HashSet<ChannelId>,
    /// Artifacts whose files go: those of their turns.
    artifacts: HashSet<(ChannelId, ArtifactId)>,
    kept: HashSet<MemoryId>,
    /// Memories of a channel that is called otherwise.
    moved: HashMap<MemoryId, MemoryId>,
    dropped: BTreeSet<ChannelId>,
    forgotten: HashSet<MemoryId>,
    /// Memories that stay without their name.
    cleaned: HashSet<MemoryId>,
    /// Channels in which they had given instructions at the first record.
    n_instructed: usize,
    figures: ErasureFigures,
}

impl Eraser {
    /// After the walk of the survey.
    pub fn new(survey: Survey) -> Self {
        Self {
            mask: survey.mask(),
            channels: HashMap::new(),
            of_others: HashSet::new(),
            artifacts: HashSet::new(),
            kept: HashSet::new(),
            moved: HashMap::new(),
            dropped: BTreeSet::new(),
            forgotten: HashSet::new(),
            cleaned: HashSet::new(),
            n_instructed: survey.instructed.len(),
            figures: ErasureFigures::default(),
            survey,
        }
    }

    /// Learns what a record says that was journalled after the survey. To be told of all of them before the first of them is
    /// rewritten.
    pub fn hear(&mut self, record: &Record) {
        self.survey.hear(record);
    }

    /// Whether what was rewritten still stands, after all that was heard since: they are called the same, and took part in no
    /// more of those channels. If not, it must be rewritten from the first record on.
    pub fn still_holds(&self) -> bool {
        let survey = &self.survey;
        let holds = |channel: &ChannelId, took_part: bool| {
            !survey.is_private(channel) && survey.took_part(channel) == took_part
        };
        survey.mask().is_alike(&self.mask)
            && survey.instructed.len() == self.n_instructed
            && self.channels.iter().all(|(channel, state)| holds(channel, state.keeps_words()))
            && self.of_others.iter().all(|channel| holds(channel, false))
            && self.dropped.iter().all(|channel| survey.is_private(channel))
    }

    /// What stands in the place of their id.
    pub fn pseudonym(&self) -> &str {
        &self.mask.pseudonym
    }

    /// What stands in the place of a record; `None`: nothing.
    pub fn erase(&mut self, record: Record) -> Option<Record> {
        let Record { n, at, channel, mut event } = record;
        let Some(channel) = channel else {
            return self.outside(&mut event).then_some(Record { n, at, channel: None, event });
        };
        if self.survey.is_private(&channel) {
            self.drop_private(&channel, &event);
            return None;
        }
        let new = || ChannelErasure::new(self.survey.took_part(&channel));
        let mut state = self.channels.remove(&channel).unwrap_or_else(new);
        let stays = self.within(&mut state, &channel, at, &mut event);
        let renamed = self.mask.channel(&channel);
        if state.is_idle() {
            self.of_others.insert(channel);
        } else {
            self.channels.insert(channel, state);
        }
        stays.then_some(Record { n, at, channel: Some(renamed), event })
    }

    fn drop_private(&mut self, channel: &ChannelId, event: &Event) {
        if self.dropped.insert(channel.clone()) {
            self.figures.conversations += 1;
        }
        match event {
            Event::Message(MessageEvent::Accepted(pending)) if self.survey.is_theirs(&pending.author) => {
                self.figures.entries += 1
            }
            Event::Turn(TurnEvent::EntryAdded { .. }) => self.figures.answers += 1,
            Event::Compaction(CompactionEvent::RunEnded(end)) => {
                self.figures.memories += end.memories.len() as u64
            }
            Event::Memory(MemoryEvent::Saved(_)) => self.figures.memories += 1,
            Event::Artifact(ArtifactEvent::Stored { .. }) => self.figures.artifacts += 1,
            _ => {}
        }
    }

    /// Whether a channel is gone as a whole, and all files of its artifacts.
    pub fn is_dropped(&self, channel: &ChannelId) -> bool {
        self.survey.is_private(channel)
    }

    /// A channel that is called otherwise from now on.
    pub fn is_renamed(&self, channel: &ChannelId) -> bool {
        self.mask.channel(channel) != *channel
    }

    /// Artifacts whose files go, after all records.
    pub fn artifacts(&self) -> impl Iterator<Item = &(ChannelId, ArtifactId)> {
        self.artifacts.iter()
    }

    /// The text of an artifact that stays with stars for their names, as long as before; `None`: it does not name them.
    pub fn blanked(&self, text: &str) -> Option<String> {
        self.mask.blanked(text)
    }

    pub fn figures(&self) -> ErasureFigures {
        ErasureFigures { memories_cleaned: self.cleaned.len() as u64, ..self.figures }
    }

    /// What is appended behind the last record: their turn that is open ends, what is owed to them is dropped, artifacts that
    /// only turned out later to be theirs expire, and the erasure is told, without their id.
    pub fn closing(&self, at: Timestamp, seconds: f64) -> Vec<NewRecord> {
        let mut records = Vec::new();
        let mut channels: Vec<(&ChannelId, &ChannelErasure)> = self.channels.iter().collect();
        channels.sort_by_key(|(channel, _)| *channel);
        for (channel, state) in channels {
            let renamed = self.mask.channel(channel);
            let mut add = |event| records.push(NewRecord { channel: Some(renamed.clone()), at, event });
            if let Some(turn) = state.open.as_ref().filter(|_| state.is_open_theirs()) {
                add(Event::Turn(TurnEvent::Ended(TurnEnd {
                    turn: turn.clone(),
                    outcome: TurnOutcome::Stopped,
                    model: None,
                    usage: Usage::default(),
                    recalled: Vec::new(),
                })));
            }
            for id in state.owed.keys() {
                add(Event::Delivery(DeliveryEvent::Dropped { id: id.clone() }));
            }
            if !state.gone.is_empty() {
                add(Event::Artifact(ArtifactEvent::Expired { ids: state.gone.clone(), lost: false }));
            }
        }
        let figures = ErasureFigures { seconds, ..self.figures() };
        let event = Event::Maintenance(MaintenanceEvent::PersonErased {
            pseudonym: self.mask.pseudonym.clone(),
            figures,
        });
        records.push(NewRecord { channel: None, at, event });
        records
    }
}
