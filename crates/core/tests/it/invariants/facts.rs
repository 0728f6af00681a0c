//! What of planted facts stands in the window's summaries, where no model makes them.

use cairn_core::compaction::SummaryDraft;
use cairn_types::event::{Event, MessageEvent, RunWork};
use cairn_types::message::Author;
use cairn_types::summary::{StackItem, Summary};
use rstest::rstest;

use crate::invariants::planted::{Talk, talk};
use crate::invariants::sim::Sim;

/// The conversation after all of it was said at that window, summarised by digests alone.
fn summarised(talk: &Talk, window_tokens: u64) -> Sim {
    let mut sim = Sim::new(window_tokens);
    for said in &talk.said {
        let mut pending = sim.pending(&said.text);
        pending.author = Author { id: format!("local/{}", said.who), name: said.who.to_owned() };
        sim.journal(Event::Message(MessageEvent::Accepted(pending)));
        sim.start_turn();
        sim.answer(&said.answer);
        while let Some(run) = sim.watch() {
            let spoken = sim.spoken.values();
            let (entries, sources): (Vec<_>, Vec<Summary>) = match &run.work {
                RunWork::Merge { sources, .. } => {
                    let summaries = sim.conversation.stack.summaries();
                    (Vec::new(), summaries.filter(|one| sources.contains(&one.id)).cloned().collect())
                }
                _ => {
                    let (from, to) = (run.from_seq, run.to_seq);
                    (spoken.filter(|one| from <= one.seq && one.seq <= to).cloned().collect(), Vec::new())
                }
            };
            // The offline model's summaries are final, as any model's.
            let draft =
                SummaryDraft { made_by: "offline".to_owned(), ..sim.digest(&run, &entries, &sources) };
            sim.commit_draft(&run.id, draft);
        }
    }
    sim
}

/// How many of the facts stand in the summaries, and how many are still in the live history.
fn kept(talk: &Talk, sim: &Sim) -> (usize, usize) {
    let summaries: Vec<&str> = sim.conversation.stack.summaries().map(|one| one.text.as_str()).collect();
    let (summaries, live) =
        (summaries.join("\n"), sim.live().iter().map(|one| one.text()).collect::<Vec<_>>().join("\n"));
    let count =
        |text: &str| talk.facts.iter().filter(|words| words.iter().all(|word| text.contains(word))).count();
    (count(&summaries), count(&live))
}

#[rstest]
#[case::of_16_000(16_000, 15)]
#[case::of_32_000(32_000, 20)]
fn of_25_facts_amid_small_talk_most_stand_in_the_digests(#[case] window_tokens: u64, #[case] least: usize) {
    for seed in 1..=8 {
        let talk = talk(seed);
        let sim = summarised(&talk, window_tokens);
        assert!(sim.conversation.stack.items().iter().all(|item| matches!(item, StackItem::Summary(_))));
        let (kept, live) = kept(&talk, &sim);
        println!(
            "window {window_tokens}, seed {seed}: {kept} of {} in {} tokens",
            talk.facts.len(),
            sim.conversation.stack.tokens()
        );
        assert!(live <= talk.facts.len() - kept, "facts that have not left say nothing");
        assert!(kept >= least, "window {window_tokens}, seed {seed}: {kept} facts");
    }
}
