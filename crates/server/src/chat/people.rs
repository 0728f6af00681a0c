//! `/ban`, `/unban`, `/pair`: who is heard, for operators.

use cairn_types::command::{BanOrder, CommandCall};
use cairn_types::people::pairing::Pairing;
use cairn_types::texts::Key;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::chat::{CommandError, Runner};
use cairn_api::text::quoted;
use cairn_config::is_person;

impl Runner {
    /// `/ban WHO [for 3d] [REASON]`.
    pub(super) async fn ban(&self, call: &CommandCall, order: &BanOrder) -> Result<String, CommandError> {
        let user = person(call, &order.who)?;
        if self.deps.config.now().config.commands.is_operator(&user) {
            return Err(CommandError::Told(Key::BanOperator.into()));
        }
        let (reason, by) = (order.reason.clone(), call.caller.id.clone());
        let ban = self.deps.people.ban(user.clone(), order.lasts, reason, by).await?;
        let banned = match ban.until {
            None => Key::Banned.with("user", user),
            Some(at) => Key::BannedUntil.with("user", user).with("at", utc(at)),
        };
        Ok(self.texts(call).say(banned))
    }

    /// `/unban WHO`.
    pub(super) async fn unban(&self, call: &CommandCall, who: &str) -> Result<String, CommandError> {
        let user = person(call, who)?;
        match self.deps.people.unban(&user).await? {
            Some(_ban) => Ok(self.texts(call).say(Key::Unbanned.with("user", user))),
            None => {
                let banned: Vec<String> =
                    self.deps.people.bans().into_iter().map(|(user, _)| format!("`{user}`")).collect();
                Err(CommandError::Told(match banned.as_slice() {
                    [] => Key::NotBannedNobody.with("user", user),
                    banned => Key::NotBanned.with("user", user).with("others", banned.join(", ")),
                }))
            }
        }
    }

    /// `/pair [CODE]`.
    pub(super) async fn pair(&self, call: &CommandCall, code: Option<&str>) -> Result<String, CommandError> {
        let texts = self.texts(call);
        let Some(code) = code else {
            let waits = |pairing: &Pairing| pairing.approved_at.is_none() && pairing.revoked_at.is_none();
            let waiting = self.deps.people.pairings().into_iter().filter(waits);
            let lines: Vec<String> = waiting
                .map(|pairing| {
                    let (name, id) = (quoted(&pairing.user.name), &pairing.user.id);
                    let since = Key::PairSince.with("name", name).with("id", id.as_str());
                    format!("- {}", texts.say(since.with("at", utc(pairing.asked_at))))
                })
                .collect();
            return Ok(match lines.as_slice() {
                [] => texts.say(Key::PairNobody),
                _ => format!("{}\n\n{}", texts.say(Key::PairWaiting), lines.join("\n")),
            });
        };
        match self.deps.people.approve(code.trim_matches('`')).await? {
            Some(pairing) => {
                let paired = Key::Paired.with("name", quoted(&pairing.user.name));
                Ok(texts.say(paired.with("id", pairing.user.id)))
            }
            None => Err(CommandError::Told(Key::PairUnknown.into())),
        }
    }
}

/// The person (`PLATFORM/USER`) whom an operator means: by that name, by their id on this platform, or by a mention.
fn person(call: &CommandCall, who: &str) -> Result<String, CommandError> {
    let who = who.trim_matches('`');
    let bare = who.strip_prefix("<@").and_then(|rest| rest.strip_suffix('>')).unwrap_or(who);
    let bare = bare.strip_prefix('!').unwrap_or(bare);
    let user =
        if bare.contains('/') { bare.to_owned() } else { format!("{}/{bare}", call.channel.platform()) };
    if is_person(&user) {
        return Ok(user);
    }
    Err(CommandError::Told(Key::NamesNobody.with("who", quoted(who))))
}

/// A moment to the minute.
fn utc(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use cairn_types::message::Author;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("discord", "<@80351110224678912>", Some("discord/80351110224678912"))]
    #[case("discord", "<@!80351110224678912>", Some("discord/80351110224678912"))]
    #[case("telegram", "123456789", Some("telegram/123456789"))]
    #[case("local", "telegram/123456789", Some("telegram/123456789"))]
    #[case("local", "ann", None)]
    #[case("telegram", "@ann", None)]
    #[case("discord", "<@&80351110224678912>", None)]
    fn a_person_is_meant_by_id_or_mention(
        #[case] platform: &str,
        #[case] who: &str,
        #[case] user: Option<&str>,
    ) {
        let caller = Author { id: "local/user".to_owned(), name: "user".to_owned() };
        let call = CommandCall {
            channel: format!("main/{platform}/1").parse().unwrap(),
            message: "m1".into(),
            caller,
            direct: false,
            at: Timestamp::UNIX_EPOCH,
            language: None,
            command: Ok(cairn_types::command::Command::Help),
        };
        assert_eq!(person(&call, who).ok().as_deref(), user);
    }
}
