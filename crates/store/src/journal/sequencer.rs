//! Who says that a batch may be written to the journal. With a journal in the state folder alone, nobody else. With a copy of a
//! database's journal, the database.

use cairn_types::ports::StoreError;

/// Events to be appended together.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    /// For each event, how many events of the same append follow it.
    pub(crate) follows: Vec<i32>,
    pub(crate) channels: Vec<Option<&'a str>>,
    pub(crate) bodies: Vec<&'a str>,
}

/// Decides what the writer of a journal may write.
pub(crate) trait Sequencer: Send {
    /// Whether the journal is a copy, which can be fetched again: then only closed segments are synced.
    fn is_copy(&self) -> bool;

    /// Returns once the batch may be written, its first record with number `first_n`. Blocks. `waits` is called with the
    /// reason when this takes long.
    ///
    /// # Errors
    /// Nothing of the batch may be written.
    fn append(
        &mut self,
        first_n: u64,
        batch: &Batch<'_>,
        waits: &dyn Fn(StoreError),
    ) -> Result<(), StoreError>;

    /// The sequencer allowed a batch, and writing it failed. Returns the error that the callers get.
    fn not_written(&self, error: StoreError) -> StoreError;

    /// The last segment of a copy could not be synced when it was closed, and may lose its end.
    fn not_synced(&self);
}

/// The journal is in the state folder alone: every batch may be written, and is synced at once.
pub(crate) struct Alone;

impl Sequencer for Alone {
    fn is_copy(&self) -> bool {
        false
    }

    fn append(&mut self, _: u64, _: &Batch<'_>, _: &dyn Fn(StoreError)) -> Result<(), StoreError> {
        Ok(())
    }

    fn not_written(&self, error: StoreError) -> StoreError {
        error
    }

    fn not_synced(&self) {}
}
