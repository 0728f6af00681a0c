//! The fold of what is known of models: what they reported, which of them answers, what their servers said.

use super::{Conversation, Reported};
use crate::event::{Event, Record};

impl Conversation {
    pub(super) fn fold_model(&mut self, record: &Record) {
        match &record.event {
            Event::UsageReported { model, estimated, usage, disbelieved } => {
                if disbelieved.is_none() {
                    let correction = self.corrections.entry(model.clone()).or_default();
                    correction.observe(*estimated, usage.input_tokens);
                    self.bounds.entry(model.clone()).or_default().take(usage.input_tokens);
                }
                self.usage_total += *usage;
                self.reported = Some(Reported {
                    model: model.clone(),
                    estimated: *estimated,
                    usage: *usage,
                    at: record.at,
                });
            }
            Event::ModelChosen { model, reason } => {
                self.model = Some(model.clone());
                self.model_reason = Some(reason.clone());
            }
            Event::ModelLearnt { model, window_tokens, no_tools, bounds } => {
                if let Some(bounds) = bounds {
                    self.bounds.insert(model.clone(), *bounds);
                }
                if window_tokens.is_some() || *no_tools {
                    let learnt = self.learnt.entry(model.clone()).or_default();
                    if window_tokens.is_some() {
                        (learnt.window_tokens, learnt.inferred) = (*window_tokens, bounds.is_some());
                    }
                    learnt.no_tools |= no_tools;
                }
            }
            Event::UsageSpent { usage, .. } => self.spend(record.at, *usage),
            _ => {}
        }
    }
}
