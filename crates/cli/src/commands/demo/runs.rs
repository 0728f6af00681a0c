//! What the demo has seen of compaction runs: told when one begins and when it ends, with the answers that came beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use cairn_types::event::{RunOutcome, RunReport, Trigger};
use cairn_types::ids::RunId;
use console::style;

use crate::commands::demo::stage::beside;
use cairn_api::records::ContextRecord;
use cairn_api::text::{counted, grouped};

#[derive(Default)]
pub(super) struct Runs {
    /// Answers that came while a run was at work, by run.
    answers: BTreeMap<RunId, u64>,
    told: Vec<RunReport>,
    slowest_beside: Duration,
}

impl Runs {
    /// Takes in the window as it is, and whether an answer has just come: what there is to tell.
    pub(super) fn observe(&mut self, context: &ContextRecord, answered: Option<Duration>) -> Vec<String> {
        let mut lines = Vec::new();
        for end in &context.outcomes {
            if self.told.iter().all(|told| told.run != end.run) {
                lines.push(beside(&self.end(end)));
                self.told.push(end.clone());
            }
        }
        if let Some(run) = &context.run {
            match self.answers.get_mut(&run.id) {
                None => {
                    self.answers.insert(run.id.clone(), 0);
                    let what = match run.trigger {
                        Trigger::Merge => "merge the summaries of",
                        _ => "compact",
                    };
                    lines.push(beside(&format!(
                        "{} begins to {what} entries {} to {}",
                        run.id, run.from_seq, run.to_seq
                    )));
                }
                // It was at work before the answer came, and still is.
                Some(n_answers) => {
                    *n_answers += u64::from(answered.is_some());
                    self.slowest_beside = self.slowest_beside.max(answered.unwrap_or_default());
                }
            }
        }
        lines
    }

    fn end(&self, end: &RunReport) -> String {
        let took = Duration::from_millis(end.duration_ms).as_secs_f64();
        let size = end.summary_size.filter(|_| end.outcome == RunOutcome::Committed);
        let what = size.map_or_else(
            || match end.outcome {
                RunOutcome::Committed => "an extract stands in, since the model made no summary".to_owned(),
                outcome => outcome.name().to_owned(),
            },
            |size| format!("{} -> {} tokens", grouped(size.source_tokens), grouped(u64::from(size.tokens))),
        );
        let meanwhile = match self.answers.get(&end.run) {
            None | Some(0) => String::new(),
            Some(n) => format!(", {} meanwhile", counted(*n, "answer", "answers")),
        };
        format!("{} ends after {took:.1} s: {what}{meanwhile}", end.run)
    }

    /// What they were, all in all.
    pub(super) fn told(&self, n_messages: usize, slowest: Duration) -> String {
        let committed = self.told.iter().filter(|end| end.outcome == RunOutcome::Committed).count() as u64;
        let beside: u64 = self.answers.values().sum();
        let slow = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let mut told = format!(
            "{n_messages} messages, {n_messages} answers, {} beside them. Slowest answer: {}",
            counted(committed, "compaction", "compactions"),
            slow(slowest)
        );
        if beside > 0 {
            told += &format!(
                ";\n{} came while a compaction was at work, the slowest after {}",
                style(counted(beside, "answer", "answers")).bold(),
                slow(self.slowest_beside)
            );
        }
        told + "."
    }
}
