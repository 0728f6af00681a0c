//! Checks of `[[schedules]]`.

use cairn_core::reminder::{TEXT_MAX, rule_of};
use cairn_types::texts::{Key, Saying};
use jiff::tz::TimeZone;

use super::{Check, IdRule, below, key_path};
use crate::types::Config;

const IDS: IdRule = IdRule {
    table: "schedules",
    one: "a schedule",
    many: "schedules",
    example: "morning",
    longest: 24,
    signs: "-",
};

pub(crate) fn check_schedules(check: &mut Check<'_, '_>, config: &Config) {
    for (idx, schedule) in config.schedules.iter().enumerate() {
        let at = key_path!["schedules", idx];
        let ids: Vec<&str> = config.schedules[..=idx].iter().map(|one| one.id.as_str()).collect();
        check.id(&IDS, &ids);
        match schedule.channel(config) {
            Err(error) => {
                check.wrong(&below(&at, "channel"), error.to_string(), "`cairn channels` lists them")
            }
            Ok(channel) if config.agent(channel.agent().as_str()).is_none() && !config.agents.is_empty() => {
                let message = format!("`channel` = \"{channel}\" is of an agent that is not configured");
                check.wrong(&below(&at, "channel"), message, "a channel's name begins with its agent");
            }
            Ok(_) => {}
        }
        if let Err(why) = rule_of(&schedule.every) {
            let hint = "such as every = \"weekday 7:00\" or every = \"0 9 1 * *\"";
            let why = if why == Saying::from(Key::ReminderHow) {
                "it is no recurrence".to_owned()
            } else {
                why.to_string()
            };
            check.wrong(&below(&at, "every"), format!("`every` = \"{}\": {why}", schedule.every), hint);
        }
        let n_chars = schedule.prompt.trim().chars().count();
        if n_chars == 0 || n_chars > TEXT_MAX {
            let message = format!("`prompt` has {n_chars} characters");
            check.wrong(&below(&at, "prompt"), message, &format!("write 1 to {TEXT_MAX} characters"));
        }
        if let Some(zone) = schedule.timezone.as_ref().filter(|zone| TimeZone::get(zone).is_err()) {
            let message = format!("`timezone` = \"{zone}\" is not a known time zone");
            let hint = "write an IANA name, such as \"Europe/Berlin\" or \"UTC\"";
            check.wrong(&below(&at, "timezone"), message, hint);
        }
    }
}
