//! Gates: requests of a kind wait until the test lets them through.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::Kind;

/// Holds requests of a kind; opened when dropped.
#[must_use = "a gate that is dropped is open"]
pub struct Gate {
    places: Arc<Semaphore>,
}

impl Gate {
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

#[derive(Default)]
pub(super) struct Gates {
    kinds: Mutex<[Option<Arc<Semaphore>>; 2]>,
}

impl Gates {
    pub(super) fn close(&self, kind: Kind) -> Gate {
        let places = Arc::new(Semaphore::new(0));
        self.kinds.lock()[kind as usize] = Some(places.clone());
        Gate { places }
    }

    /// The gate that a request which arrives now must pass.
    pub(super) fn of(&self, kind: Kind) -> Option<Arc<Semaphore>> {
        self.kinds.lock()[kind as usize].clone()
    }
}

/// Waits until there is a place, or until the gate is open for good.
pub(super) async fn pass(gate: Option<Arc<Semaphore>>) {
    if let Some(places) = gate
        && let Ok(place) = places.acquire().await
    {
        place.forget();
    }
}
