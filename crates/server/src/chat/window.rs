//! `/context` and `/status`: the window of this conversation, and how the bot is.

use crate::api::statuses::spend_status;
use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_actors::{AgentRuntime, Runtime};
use cairn_core::agent::AgentSettings;
use cairn_core::chain::ModelState;
use cairn_core::conversation::Conversation;
use cairn_core::limits::Price;
use cairn_core::registry::day_of;
use cairn_core::spend::{SpendKey, SpendPurpose, money, summed_up};
use cairn_core::store_port::Store as _;
use cairn_core::window::Region;
use cairn_types::command::CommandCall;
use cairn_types::ids::ChannelId;

use crate::api::statuses::agent_statuses;
use crate::chat::paint::{ROWS, paint};
use crate::chat::{CommandError, NO_AGENT, Runner};
use cairn_api::records::{ChainStatus, ContextRecord};
use cairn_api::show::bar::{self, REGIONS};
use cairn_api::show::{Block, window};
use cairn_api::text::{counted, grouped, percent, quoted};

/// Columns of the drawing: what a narrow screen shows of a code block.
const WIDTH: usize = 32;

impl Runner {
    /// `/context`.
    pub(super) async fn context(&self, call: &CommandCall) -> Result<String, CommandError> {
        let (conversation, settings) = self.conversation(call).await?;
        let answering = self.agent(call)?.serving_settings(&conversation);
        let artifacts = self.deps.store.artifacts(&call.channel, false).await?;
        Ok(drawn(&ContextRecord::of(&conversation, &settings, &answering.model, &artifacts)))
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
        let mut lines = vec![
            format!("**{}** is well.", settings.id),
            format!(
                "- model `{}`, window {} tokens ({})",
                settings.model,
                grouped(settings.window.window_tokens),
                settings.window.source.origin()
            ),
            format!("- up {}", span(u64::try_from(up).unwrap_or(0))),
        ];
        lines.splice(2..2, chain(&self.deps.runtime, &agent));
        if let Some((conversation, _awake)) = found {
            let entries = conversation.next_seq.0 - conversation.first_seq.0;
            let mut line = format!("- {} in this conversation", counted(entries, "message", "messages"));
            if !conversation.pending.is_empty() {
                line.push_str(&format!(", {} waiting", conversation.pending.len()));
            }
            if conversation.open_turn.is_some() {
                line.push_str(", an answer under way");
            }
            lines.push(line);
        }
        lines.extend(self.privacy(call));
        let config = &self.deps.config.now().config;
        let spend = spend_status(&self.deps.runtime, config);
        if let Some(spend) = spend.filter(|_| config.commands.is_operator(&call.caller.id)) {
            lines.push(format!("- spent today {}", spend.described()));
            lines.push(format!("  - {}", self.spent_today(&call.channel, &config.prices()).await?));
        }
        Ok(lines.join("\n"))
    }

    /// What the day was spent on, as in `answers 0.12, compaction 0.0034; this conversation 0.05`.
    async fn spent_today(
        &self,
        channel: &ChannelId,
        prices: &BTreeMap<String, Price>,
    ) -> Result<String, CommandError> {
        let today = day_of(self.deps.clock.now());
        let rows = self.deps.store.spent(today, today).await?;
        let cost = |is_of: &dyn Fn(&SpendKey) -> bool| {
            let of = rows.iter().filter(|(key, _)| is_of(key)).cloned();
            money(summed_up(of, &[], prices).iter().filter_map(|line| line.cost).sum())
        };
        let of = |purpose| cost(&|key: &SpendKey| key.purpose == purpose);
        let here = cost(&|key: &SpendKey| key.channel.as_ref() == Some(channel));
        let (answers, compaction) = (of(SpendPurpose::Answer), of(SpendPurpose::Compaction));
        Ok(format!("answers {answers}, compaction {compaction}; this conversation {here}"))
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
        agent.ok_or_else(|| CommandError::Told(NO_AGENT.to_owned()))
    }
}

/// The models of a chain of several, in the order in which they are tried.
fn chain(runtime: &Runtime, agent: &AgentRuntime) -> Vec<String> {
    let statuses = agent_statuses(std::slice::from_ref(agent), Some(runtime));
    let models = statuses.into_iter().flat_map(|agent| agent.chain).collect::<Vec<_>>();
    if models.len() == 1 && models[0].state == ModelState::Answers {
        return Vec::new();
    }
    let line = |one: &ChainStatus| {
        let (window, origin) = (grouped(one.window_tokens), one.window_source.origin());
        format!("  - `{}`, {window} tokens ({origin}): {}", one.model, quoted(&one.described_in_public()))
    };
    models.iter().map(line).collect()
}

/// The window as a chat shows it: a drawing in a code block, then its figures.
fn drawn(record: &ContextRecord) -> String {
    let bar = bar::bar(record, WIDTH - 2);
    let cells: String = bar.cells.iter().map(|cell| cell.sign).collect();
    let mut drawing = vec![format!("[{cells}]"), format!(" {}", bar.ticks)];
    let usable = record.usable_tokens() as f64;
    for (region, (name, sign)) in bar::amounts(record).iter().zip(REGIONS) {
        drawing.push(row(&format!("{sign} {name}"), *region, usable));
    }
    let used: u64 = bar::amounts(record).iter().map(|region| region.tokens).sum();
    let mut lines = vec![
        format!(
            "**{}** of {} tokens, {}, tier **{}**",
            grouped(used),
            grouped(record.usable_tokens()),
            percent(record.usage_ratio),
            record.tier.name()
        ),
        format!("```\n{}\n```", drawing.join("\n")),
        format!(
            "Tiers: b background {}, a aggressive {}, e emergency {}",
            percent(record.thresholds.background),
            percent(record.thresholds.aggressive),
            percent(record.thresholds.emergency)
        ),
    ];
    lines.push(String::new());
    lines.push(paint(&[Block::Facts(window(record))], ROWS));
    lines.join("\n")
}

fn row(name: &str, region: Region, usable: f64) -> String {
    let share = percent(region.tokens as f64 / usable);
    format!("{name:<12}{:>10}{share:>9}", grouped(region.tokens))
}

/// A length of time in its two largest units.
fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{} {hours} h", counted(days, "day", "days")),
    }
}
