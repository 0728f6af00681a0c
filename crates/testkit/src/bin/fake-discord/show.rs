//! Tells what the bot does, as it happens.

use std::collections::HashMap;

use cairn_testkit::discord::{Act, Answer, FakeDiscord};

#[derive(Default)]
pub(crate) struct Shown {
    acts: HashMap<u64, usize>,
    answers: HashMap<u64, Answer>,
    wordings: HashMap<u64, usize>,
    n_violations: usize,
    n_ready: usize,
}

impl Shown {
    pub(crate) fn news(&mut self, discord: &FakeDiscord, names: &HashMap<u64, String>) -> Vec<String> {
        let mut out = Vec::new();
        if self.n_ready != discord.n_ready() {
            self.n_ready = discord.n_ready();
            out.push(match self.n_ready {
                0 => "-- the bot is away".to_owned(),
                1 => "-- the bot is there".to_owned(),
                n => format!("-- the bot is there, with {n} shards"),
            });
        }
        let all = discord.all_sent();
        for channel in discord.channels() {
            let name = names.get(&channel).cloned().unwrap_or_else(|| channel.to_string());
            let acts = discord.acts(channel);
            let told = self.acts.insert(channel, acts.len()).unwrap_or_default();
            for act in &acts[told.min(acts.len())..] {
                let wording = |id: u64, nth: usize| {
                    let sent = all.iter().find(|sent| sent.id == id);
                    let text = sent.and_then(|sent| sent.wordings.get(nth)).cloned().unwrap_or_default();
                    let reply = sent.and_then(|sent| sent.reply_to.filter(|_| nth == 0));
                    let reply = reply.map(|reply| format!(" (answers {reply})")).unwrap_or_default();
                    let buttons = sent.into_iter().flat_map(|sent| &sent.buttons);
                    let buttons: String = buttons.map(|(label, _)| format!(" [{label}]")).collect();
                    format!("[{id}]{reply}{buttons}\n{}", indented(&text))
                };
                out.push(match act {
                    Act::Typing => format!("{name} the bot is typing …"),
                    Act::Sent(id) => {
                        self.wordings.insert(*id, 1);
                        format!("{name} the bot says {}", wording(*id, 0))
                    }
                    Act::Edited(id) => {
                        let nth = self.wordings.entry(*id).or_insert(1);
                        *nth += 1;
                        format!("{name} the bot edits {}", wording(*id, *nth - 1))
                    }
                    Act::Deleted(id) => format!("{name} the bot deletes [{id}]"),
                });
            }
        }
        for interaction in discord.interactions() {
            let answer = discord.answer(interaction);
            let told = self.answers.insert(interaction, answer.clone()).unwrap_or_default();
            if told.words() != answer.words() {
                let whom = if answer.ephemeral { "to the caller alone" } else { "to all" };
                out.push(format!("the bot answers, {whom}\n{}", indented(&answer.words())));
            }
        }
        let violations = discord.violations();
        out.extend(violations[self.n_violations..].iter().map(|violation| format!("!! {violation}")));
        self.n_violations = violations.len();
        out
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<String>>().join("\n")
}
