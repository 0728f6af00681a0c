//! `/context` and `/status`: the window of this conversation, and how the bot is.

use crate::api::statuses::spend_status;
use std::sync::Arc;

use cairn_actors::{AgentRuntime, Runtime};
use cairn_config::Config;
use cairn_core::agent::AgentSettings;
use cairn_core::chain::ModelState;
use cairn_core::conversation::Conversation;
use cairn_core::registry::day_of;
use cairn_core::spend::{SpendKey, SpendPurpose, amount, summed_up};
use cairn_core::store_port::Store as _;
use cairn_core::window::Region;
use cairn_types::command::CommandCall;
use cairn_types::ids::ChannelId;
use cairn_types::texts::{Key, Saying, Texts};

use crate::api::statuses::agent_statuses;
use crate::chat::paint::{ROWS, paint};
use crate::chat::{CommandError, Runner};
use cairn_api::records::{ChainStatus, ContextRecord};
use cairn_api::show::bar::{self, REGIONS};
use cairn_api::show::{Block, window};
use cairn_api::text::{grouped, percent, quoted};

/// Columns of the drawing: what a narrow screen shows of a code block.
const WIDTH: usize = 32;

impl Runner {
    /// `/context`.
    pub(super) async fn context(&self, call: &CommandCall) -> Result<String, CommandError> {
        let (conversation, settings) = self.conversation(call).await?;
        let answering = self.agent(call)?.serving_settings(&conversation);
        let artifacts = self.deps.store.artifacts(&call.channel, false).await?;
        let record = ContextRecord::of(&conversation, &settings, &answering.model, &artifacts);
        Ok(drawn(&record, &self.texts(call)))
    }

    /// `/status`.
    pub(super) async fn status(&self, call: &CommandCall) -> Result<String, CommandError> {
        let agent = self.agent(call)?;
        let found = self.deps.runtime.conversation(&call.channel).await?;
        let settings = match &found {
            Some((conversation, _awake)) => agent.serving_settings(conversation),
            None => Arc::clone(agent.first_settings()),
        };
        let up = self.deps.clock.now().duration_since(self.deps.started_at).as_secs();
        let texts = self.texts(call);
        let item = |saying: Saying| format!("- {}", texts.say(saying));
        let model = Key::StatusModel.with("model", settings.model.as_str());
        let model = model.with("tokens", grouped(settings.window.window_tokens));
        let mut lines = vec![
            texts.say(Key::StatusWell.with("agent", settings.id.as_str())),
            item(model.with("source", texts.label(settings.window.source.origin()))),
            item(Key::StatusUp.with("span", span(u64::try_from(up).unwrap_or(0), &texts))),
        ];
        lines.splice(2..2, chain(&self.deps.runtime, &agent, &texts));
        if let Some((conversation, _awake)) = found {
            let entries = conversation.next_seq.0 - conversation.first_seq.0;
            let messages = Key::CountMessages.count(entries);
            let mut line = item(Key::StatusMessages.with("messages", messages));
            if !conversation.pending.is_empty() {
                line.push_str(&texts.say(Key::StatusWaiting.with("n", conversation.pending.len())));
            }
            if conversation.open_turn.is_some() {
                line.push_str(&texts.say(Key::StatusAnswering));
            }
            lines.push(line);
        }
        lines.extend(self.privacy(call));
        let config = &self.deps.config.now().config;
        let spend = spend_status(&self.deps.runtime, config);
        if let Some(spend) = spend.filter(|_| config.commands.is_operator(&call.caller.id)) {
            lines.push(item(Key::StatusSpent.with("spend", spend.described())));
            let on = self.spent_today(&call.channel, config).await?;
            lines.push(format!("  - {}", texts.say(on)));
        }
        Ok(lines.join("\n"))
    }

    /// What the day was spent on, as in `answers 0.12, compaction 0.0034; this conversation 0.05`.
    async fn spent_today(&self, channel: &ChannelId, config: &Config) -> Result<Saying, CommandError> {
        let today = day_of(self.deps.clock.now());
        let rows = self.deps.store.spent(today, today).await?;
        let prices = config.prices();
        let cost = |is_of: &dyn Fn(&SpendKey) -> bool| {
            let of = rows.iter().filter(|(key, _)| is_of(key)).cloned();
            let spent = summed_up(of, &[], &prices).iter().filter_map(|line| line.cost).sum();
            amount(spent, &config.limits.currency)
        };
        let of = |purpose| cost(&|key: &SpendKey| key.purpose == purpose);
        let here = cost(&|key: &SpendKey| key.channel.as_ref() == Some(channel));
        let (answers, compaction) = (of(SpendPurpose::Answer), of(SpendPurpose::Compaction));
        let on = Key::StatusSpentOn.with("answers", answers).with("compaction", compaction);
        Ok(on.with("here", here))
    }

    /// The conversation of a call, with the settings of its agent.
    pub(super) async fn conversation(
        &self,
        call: &CommandCall,
    ) -> Result<(Arc<Conversation>, Arc<AgentSettings>), CommandError> {
        let agent = self.agent(call)?;
        let found = self.deps.runtime.conversation(&call.channel).await?;
        let (conversation, _awake) = found.ok_or(CommandError::NothingYet)?;
        let settings = agent.settings(&conversation);
        Ok((conversation, settings))
    }

    fn agent(&self, call: &CommandCall) -> Result<Arc<AgentRuntime>, CommandError> {
        let agent = self.deps.runtime.agent(&call.channel.agent());
        agent.ok_or_else(|| CommandError::Told(Key::AgentGone.into()))
    }
}

/// The models of a chain of several, in the order in which they are tried.
fn chain(runtime: &Runtime, agent: &AgentRuntime, texts: &Texts) -> Vec<String> {
    let statuses = agent_statuses(std::slice::from_ref(agent), Some(runtime));
    let models = statuses.into_iter().flat_map(|agent| agent.chain).collect::<Vec<_>>();
    if models.len() == 1 && models[0].state == ModelState::Answers {
        return Vec::new();
    }
    let line = |one: &ChainStatus| {
        let saying = Key::StatusChain.with("model", one.model.as_str());
        let saying = saying.with("tokens", grouped(one.window_tokens));
        let saying = saying.with("source", texts.label(one.window_source.origin()));
        format!("  - {}", texts.say(saying.with("state", quoted(&one.described_in_public()))))
    };
    models.iter().map(line).collect()
}

/// The window as a chat shows it: a drawing in a code block, then its figures.
fn drawn(record: &ContextRecord, texts: &Texts) -> String {
    let bar = bar::bar(record, WIDTH - 2);
    let cells: String = bar.cells.iter().map(|cell| cell.sign).collect();
    let mut drawing = vec![format!("[{cells}]"), format!(" {}", bar.ticks)];
    let usable = record.usable_tokens() as f64;
    for (region, (name, sign)) in bar::amounts(record).iter().zip(REGIONS) {
        drawing.push(row(&format!("{sign} {name}"), *region, usable));
    }
    let used: u64 = bar::amounts(record).iter().map(|region| region.tokens).sum();
    let head = Key::ContextUsed.with("used", grouped(used)).with("usable", grouped(record.usable_tokens()));
    let head = head.with("share", percent(record.usage_ratio)).with("tier", texts.label(record.tier.name()));
    let tiers = Key::ContextTiers
        .with("background", percent(record.thresholds.background))
        .with("aggressive", percent(record.thresholds.aggressive))
        .with("emergency", percent(record.thresholds.emergency));
    let mut lines = vec![texts.say(head), format!("```\n{}\n```", drawing.join("\n")), texts.say(tiers)];
    lines.push(String::new());
    lines.push(paint(&[Block::Facts(window(record))], ROWS, texts));
    lines.join("\n")
}

fn row(name: &str, region: Region, usable: f64) -> String {
    let share = percent(region.tokens as f64 / usable);
    format!("{name:<12}{:>10}{share:>9}", grouped(region.tokens))
}

/// A length of time in its two largest units.
fn span(seconds: u64, texts: &Texts) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{} {hours} h", texts.say(Key::CountDays.count(days))),
    }
}
