//! What a reload of the configuration changes: limits and agents, with what is known of the agents' models.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::agent::RuntimeLimits;
use cairn_types::ids::AgentId;
use parking_lot::RwLock;

use crate::agent::{AgentRuntime, Models};

/// The current limits and agents. A turn keeps the agent that it started with; limits are read when they are needed.
pub(crate) struct Live {
    limits: RwLock<Arc<RuntimeLimits>>,
    agents: RwLock<BTreeMap<AgentId, Arc<AgentRuntime>>>,
    pub(crate) models: Models,
}

impl Live {
    pub(crate) fn new(limits: RuntimeLimits, agents: Vec<AgentRuntime>) -> Self {
        Self {
            models: Models::new(limits.cool_downs),
            limits: RwLock::new(Arc::new(limits)),
            agents: RwLock::new(by_id(agents)),
        }
    }

    pub(crate) fn limits(&self) -> Arc<RuntimeLimits> {
        Arc::clone(&self.limits.read())
    }

    pub(crate) fn set_limits(&self, limits: RuntimeLimits) {
        self.models.set_cool_downs(limits.cool_downs);
        *self.limits.write() = Arc::new(limits);
    }

    pub(crate) fn agent(&self, id: &AgentId) -> Option<Arc<AgentRuntime>> {
        self.agents.read().get(id).cloned()
    }

    /// Adds these agents, or replaces them. The others keep their settings.
    pub(crate) fn set_agents(&self, agents: Vec<AgentRuntime>) {
        self.agents.write().extend(by_id(agents));
    }
}

fn by_id(agents: Vec<AgentRuntime>) -> BTreeMap<AgentId, Arc<AgentRuntime>> {
    agents.into_iter().map(|agent| (agent.id.clone(), Arc::new(agent))).collect()
}
