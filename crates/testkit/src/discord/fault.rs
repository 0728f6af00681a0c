//! What may go wrong on the way to an answer, as a test scripts it.

use std::collections::{HashMap, VecDeque};

use super::Route;

/// What happens to a request instead of what should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This status with Discord's JSON for it; nothing is done.
    Status(u16),
    /// This status with a page in HTML, as proxies send them; nothing is done.
    Html(u16),
    /// This body with status 200; nothing is done.
    Garbage(String),
    /// The connection closes without an answer; nothing is done.
    Nothing,
    /// No answer ever comes; nothing is done.
    Hang,
    /// It is done, and the connection closes without an answer.
    LostAnswer,
    /// It is done, and no answer ever comes.
    HungAnswer,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    next: HashMap<Route, VecDeque<Fault>>,
    standing: HashMap<Route, Fault>,
    everywhere: Option<Fault>,
}

impl Faults {
    pub(super) fn push(&mut self, route: Route, fault: Fault) {
        self.next.entry(route).or_default().push_back(fault);
    }

    pub(super) fn stand(&mut self, route: Option<Route>, fault: Option<Fault>) {
        match (route, fault) {
            (Some(route), Some(fault)) => drop(self.standing.insert(route, fault)),
            (Some(route), None) => drop(self.standing.remove(&route)),
            (None, fault) => self.everywhere = fault,
        }
    }

    /// What happens to a request that arrives now.
    pub(super) fn take(&mut self, route: Route) -> Option<Fault> {
        let next = self.next.get_mut(&route).and_then(VecDeque::pop_front);
        next.or_else(|| self.standing.get(&route).cloned()).or_else(|| self.everywhere.clone())
    }

    /// Scripted faults of a route that nobody has met yet.
    pub(super) fn unused(&self, route: Route) -> usize {
        self.next.get(&route).map_or(0, VecDeque::len)
    }
}
