//! Outlines: what the list of channels shows of a conversation, small enough to be kept for very many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AnsweredBy, Conversation, Learnt};
use crate::window::Sizes;
use cairn_types::ids::ChannelId;
use cairn_types::tokens::Correction;

/// A conversation without its entries. With the settings of its agent it tells how full the window is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outline {
    /// Number of the last journal record folded in. If the channel has a later one, the outline is out of date.
    pub n: u64,
    pub summaries: u64,
    /// What the conversation puts into its window.
    pub sizes: Sizes,
    /// What people see as the name of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model that answers, by its id in the configuration; `None`: the first of the chain that can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that answered last, and how many turns in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweredBy>,
    /// What was learnt of models, by their ids in the configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learnt: BTreeMap<String, Learnt>,
    /// Running correction of estimates, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub corrections: BTreeMap<String, Correction>,
}

impl Outline {
    pub fn of(conversation: &Conversation) -> Self {
        Self {
            n: conversation.last_n,
            summaries: conversation.stack.summaries().count() as u64,
            sizes: Sizes::of(conversation),
            name: conversation.name.clone(),
            model: conversation.model.clone(),
            answered_by: conversation.answered_by.clone(),
            learnt: conversation.learnt.clone(),
            corrections: conversation.corrections.clone(),
        }
    }

    /// A conversation without entries that has the outline's knowledge of models, so that the same settings hold in it.
    pub fn without_entries(self, channel: ChannelId) -> Conversation {
        let Self { name, model, answered_by, learnt, corrections, .. } = self;
        Conversation { name, model, answered_by, learnt, corrections, ..Conversation::new(channel) }
    }
}
