//! `[[schedules]]`: each is a reminder of its channel, in the operator's name. The journal says when it fires next, so that a
//! restart repeats nothing.

use std::time::Duration;

use cairn_actors::{Runtime, RuntimeError};
use cairn_config::{Config, Live, ScheduleConfig};
use cairn_core::reminder::{NewReminder, When, rule_of};
use cairn_types::ids::{ChannelId, ReminderId};
use cairn_types::message::{Author, Provenance};
use cairn_types::reminder::Reminder;

use crate::api::reminders::OPERATOR;

const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Sets the schedules now and after each reload.
pub async fn keep_schedules(runtime: Runtime, live: Live) {
    let mut changes = live.changes();
    loop {
        changes.borrow_and_update();
        match set_all(&runtime, &live.now().config).await {
            Ok(()) => {
                if changes.changed().await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot set the schedules; trying again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Sets what is new or different, and cancels what is gone. A schedule that stays as it is keeps its time.
async fn set_all(runtime: &Runtime, config: &Config) -> Result<(), RuntimeError> {
    let mut known = runtime.reminders(None, usize::MAX).await?;
    known.retain(|(_, reminder)| reminder.id.is_schedule());
    for schedule in &config.schedules {
        // They were checked when they were read.
        let (Ok(channel), Ok(rule)) = (schedule.channel(config), rule_of(&schedule.every)) else { continue };
        let new = reminder(schedule, config, &channel, rule);
        let before = known.len();
        known.retain(|(of, set)| !(*of == channel && is_same(set, &new)));
        if known.len() == before {
            known.retain(|(of, set)| !(*of == channel && Some(&set.id) == new.id.as_ref()));
            if let Err(error) = runtime.set_reminder(&channel, new, true).await {
                tracing::error!(schedule = schedule.id, %channel, %error, "a schedule is not set");
            }
        }
    }
    for (channel, gone) in known {
        runtime.cancel_reminder(&channel, &gone.id, OPERATOR, None).await?;
    }
    Ok(())
}

fn is_same(set: &Reminder, new: &NewReminder) -> bool {
    let rule = match &new.when {
        When::Every(rule) => Some(rule),
        When::Once(_) => None,
    };
    Some(&set.id) == new.id.as_ref()
        && (set.text.as_str(), set.rule.as_ref(), set.zone.as_str())
            == (new.text.as_str(), rule, new.zone.as_str())
}

fn reminder(schedule: &ScheduleConfig, config: &Config, channel: &ChannelId, rule: String) -> NewReminder {
    let of_agent = config.agent(channel.agent().as_str()).map(|agent| agent.timezone.clone());
    let zone = schedule.timezone.clone().or(of_agent).unwrap_or_else(|| "UTC".to_owned());
    NewReminder {
        id: Some(ReminderId::of_schedule(&schedule.id)),
        by: Author { id: OPERATOR.to_owned(), name: "the operator".to_owned() },
        text: schedule.prompt.trim().to_owned(),
        when: When::Every(rule),
        zone,
        provenance: Provenance::default(),
    }
}
