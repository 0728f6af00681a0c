//! The approvals of tool servers, folded from the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ServerPin;
use crate::event::{Event, Record, RegistryEvent};

/// What operators approved, by the servers' ids: a fold of the journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins(pub BTreeMap<String, ServerPin>);

impl Pins {
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::Registry(RegistryEvent::ServerApproved { pin }) => {
                drop(self.0.insert(pin.server.clone(), pin.clone()))
            }
            Event::Registry(RegistryEvent::ServerRevoked { server }) => drop(self.0.remove(server)),
            _ => {}
        }
    }
}
