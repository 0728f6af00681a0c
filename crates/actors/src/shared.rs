//! The runtime's parts, which the actors share. Each has one job; code takes only those that it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::agent::RuntimeLimits;
use cairn_core::limits::{Price, TalkLimits};
use cairn_core::registry::UsageDay;
use cairn_core::store_port::Store;
use cairn_types::ports::{ArgumentCheck, Clock, Platform, Speaker, Toolset};

use crate::agent::AgentRuntime;
use crate::budgets::Budgets;
use crate::directory::Directory;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::ports::Ports;

/// What a runtime starts with.
pub struct RuntimeDeps {
    pub store: Arc<dyn Store>,
    /// Tools beside those that are built in.
    pub tools: Arc<dyn Toolset>,
    /// Checks the arguments of all calls.
    pub arguments: Arc<dyn ArgumentCheck>,
    pub clock: Arc<dyn Clock>,
    /// The agents; the first is the default one.
    pub agents: Vec<AgentRuntime>,
    /// The chat networks. A delivery to any other waits until a daemon runs that has it.
    pub platforms: Vec<Arc<dyn Platform>>,
    /// What speaks answers to voice messages; `None`: they are text alone.
    pub speaker: Option<Arc<dyn Speaker>>,
    pub limits: RuntimeLimits,
    /// How much people may talk to the bot.
    pub talk: TalkLimits,
    /// Prices of the models, by their ids in the configuration.
    pub prices: BTreeMap<String, Price>,
    pub usage_day: UsageDay,
    /// Whether the previous runtime stopped cleanly: its stop is journalled, or [`crate::Runtime::shutdown`] returned true
    /// in this process, or there was none. False: turns found open count as interrupted by a crash.
    pub clean_stop: bool,
}

/// All parts, for actors that need most of them or pass them on.
#[derive(Clone)]
pub(crate) struct Shared {
    /// As given at the start: store, tools, clock, chat networks.
    pub(crate) ports: Arc<Ports>,
    /// Changed by a reload: limits and agents.
    pub(crate) live: Arc<Live>,
    /// How channels, router, outbox and watchers are reached.
    pub(crate) directory: Arc<Directory>,
    /// How much people may use.
    pub(crate) budgets: Arc<Budgets>,
    /// Phase, background tasks, stop.
    pub(crate) lifecycle: Arc<Lifecycle>,
}

impl Shared {
    pub(crate) fn new(deps: RuntimeDeps) -> Self {
        let RuntimeDeps { store, tools, arguments, clock, agents, platforms, speaker, limits, .. } = deps;
        let admitted = limits.admitted_messages;
        let (live, lifecycle) = (Arc::new(Live::new(limits, agents)), Arc::new(Lifecycle::new()));
        Self {
            ports: Arc::new(Ports::new(store, tools, arguments, clock, platforms, speaker)),
            budgets: Arc::new(Budgets::new(deps.talk, deps.prices, deps.usage_day, admitted)),
            directory: Arc::new(Directory::new(Arc::clone(&live), Arc::clone(&lifecycle))),
            live,
            lifecycle,
        }
    }
}
