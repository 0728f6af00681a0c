//! Gates: requests of a kind wait until the test lets them through.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Holds requests of a kind; opened when dropped.
#[must_use = "a gate that is dropped is open"]
pub struct Gate {
    places: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn closed() -> (Self, Arc<Semaphore>) {
        let places = Arc::new(Semaphore::new(0));
        (Self { places: places.clone() }, places)
    }

    /// Lets all requests through, those that wait and those to come.
    pub fn open(self) {
        // Dropping opens it.
    }

    /// Lets so many requests through, and holds the rest.
    pub fn pass(&self, n: usize) {
        self.places.add_permits(n);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.places.close();
    }
}

/// The gates of a fake server, one for each kind of request.
pub(crate) struct Gates<K> {
    kinds: Mutex<HashMap<K, Arc<Semaphore>>>,
}

impl<K> Default for Gates<K> {
    fn default() -> Self {
        Self { kinds: Mutex::default() }
    }
}

impl<K: Eq + Hash> Gates<K> {
    pub(crate) fn close(&self, kind: K) -> Gate {
        let (gate, places) = Gate::closed();
        self.kinds.lock().insert(kind, places);
        gate
    }

    /// The gate that a request which arrives now must pass.
    pub(crate) fn of(&self, kind: &K) -> Option<Arc<Semaphore>> {
        self.kinds.lock().get(kind).cloned()
    }
}

/// Waits until there is a place, or until the gate is open for good.
pub(crate) async fn pass(gate: Option<Arc<Semaphore>>) {
    if let Some(places) = gate
        && let Ok(place) = places.acquire().await
    {
        place.forget();
    }
}
