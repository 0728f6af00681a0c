//! What to do after the gateway closes a connection.

use cairn_types::ports::AdapterFailure;

/// The next step after a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Resume the session over a new connection.
    Resume,
    Fresh,
    /// Resume, but after a pause: too much was sent.
    Slowly,
    /// Discord refuses this number of shards.
    Number,
    Fail(AdapterFailure),
}

/// The page with the settings for intents and tokens.
const PORTAL: &str = "https://discord.com/developers/applications";

/// The next step for a close code; `None` means that the connection broke without a close frame.
pub(super) fn after_close(code: Option<u16>) -> Next {
    let fail = |reason: String, hint: String| Next::Fail(AdapterFailure { reason, hint, lasting: true });
    match code {
        Some(4004) => Next::Fail(bad_token()),
        Some(4008) => Next::Slowly,
        // Not authenticated, session no longer valid, or unknown sequence number.
        Some(4003 | 4006 | 4007 | 4009) => Next::Fresh,
        Some(4010 | 4011) => Next::Number,
        Some(4012) => fail(
            "Discord no longer speaks version 10 of its gateway".to_owned(),
            "install a newer version of cairn".to_owned(),
        ),
        Some(4013) => fail(
            "Discord does not know the intents that were asked for (4013)".to_owned(),
            "install a newer version of cairn".to_owned(),
        ),
        Some(4014) => fail(
            "the bot may not read messages: the Message Content intent is off (4014)".to_owned(),
            format!(
                "switch on Message Content Intent under Bot, Privileged Gateway Intents, at {PORTAL}; then restart the daemon or wait"
            ),
        ),
        // 1000 and 1001 from the server end the connection but not the session; other codes are transient faults.
        _ => Next::Resume,
    }
}

/// A description of a close code, for the log and the status.
pub(super) fn meaning(code: u16) -> &'static str {
    match code {
        1000 | 1001 => "it goes away",
        1006 => "the connection broke",
        4000 => "a fault of Discord's own",
        4001 | 4002 | 4005 => "it could not read what was sent",
        4003 => "the session had not begun",
        4004 => "the token is refused",
        4007 => "the session's place is unknown",
        4008 => "too much was sent",
        4009 => "the session timed out",
        4010 => "there is no such shard",
        4011 => "the bot is in too many servers for so few shards",
        4012 => "the gateway's version is no longer served",
        4013 => "intents are unknown",
        4014 => "an intent is not allowed",
        _ => "no known reason",
    }
}

pub(crate) fn bad_token() -> AdapterFailure {
    AdapterFailure {
        reason: "Discord refuses the bot's token".to_owned(),
        hint: format!("copy a new token under Bot, Reset Token, at {PORTAL} into the configuration"),
        lasting: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_close_code_leads_on_as_discord_documents_it() {
        for code in [None, Some(1000), Some(1001), Some(1006), Some(4000), Some(4001), Some(4002), Some(4005)]
        {
            assert_eq!(after_close(code), Next::Resume, "{code:?}");
        }
        for code in [4003, 4007, 4009] {
            assert_eq!(after_close(Some(code)), Next::Fresh, "{code}");
        }
        assert_eq!(after_close(Some(4008)), Next::Slowly);
        for code in [4010, 4011] {
            assert_eq!(after_close(Some(code)), Next::Number, "{code}");
        }
        for code in [4004, 4012, 4013, 4014] {
            let Next::Fail(failure) = after_close(Some(code)) else { panic!("{code} lasts") };
            assert!(failure.lasting && !failure.hint.is_empty(), "{code}");
        }
    }

    #[test]
    fn a_missing_intent_names_its_switch() {
        let Next::Fail(failure) = after_close(Some(4014)) else { panic!("lasts") };
        assert!(failure.hint.contains("Message Content Intent"), "{failure}");
    }
}
