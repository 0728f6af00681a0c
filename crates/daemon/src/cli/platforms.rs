//! The chat networks in `cairn status`.

use cairn_core::ports::{LinkState, PlatformStatus};

use crate::text::{counted, minute, one_line};

/// Troubles that are drawn; `--json` has all.
const TROUBLES_DRAWN: usize = 5;

/// A platform in a few lines: its state, then what is wrong and what to do.
pub(crate) fn drawn(status: &PlatformStatus) -> Vec<String> {
    let state = match status.state {
        LinkState::Connecting => "connecting",
        LinkState::Connected => "connected",
        LinkState::Reconnecting => "reconnecting",
        LinkState::Failed => "failed",
        LinkState::Stopped => "stopped",
    };
    let mut head = vec![state.to_owned()];
    head.extend(status.name.as_deref().map(|name| format!("as {}", one_line(name))));
    head.extend(status.connected_since.map(|at| format!("since {}", minute(at))));
    head.extend(status.latency_ms.map(|ms| format!("{ms} ms")));
    let moment = |at: Option<jiff::Timestamp>| at.map_or_else(|| "never".to_owned(), minute);
    let mut lines = vec![
        format!("{:<10}{}", status.platform, head.join(", ")),
        format!(
            "          last in {}, last out {}, {} waiting",
            moment(status.last_inbound),
            moment(status.last_outbound),
            counted(status.queue, "event", "events")
        ),
    ];
    lines.extend(status.reason.iter().map(|reason| format!("          ! {}", one_line(reason))));
    lines.extend(status.hint.iter().map(|hint| format!("          > {}", one_line(hint))));
    let troubles = status.troubles.iter().take(TROUBLES_DRAWN);
    lines.extend(troubles.map(|trouble| format!("          ! {}", one_line(trouble))));
    let more = status.troubles.len().saturating_sub(TROUBLES_DRAWN);
    if more > 0 {
        lines.push(format!("          and {more} more; --json has all"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_platform_says_why_and_what_to_do() {
        let status = PlatformStatus {
            platform: "telegram".to_owned(),
            state: LinkState::Failed,
            name: Some("harbour_bot".to_owned()),
            reason: Some("401: the token is wrong".to_owned()),
            hint: Some("copy it again from @BotFather".to_owned()),
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            troubles: vec!["chat -5: may not write".to_owned()],
        };
        let text = drawn(&status).join("\n");
        assert_eq!(
            text,
            "telegram  failed, as harbour_bot\n          last in never, last out never, 0 events waiting\n          \
             ! 401: the token is wrong\n          > copy it again from @BotFather\n          ! chat -5: may not write"
        );
    }
}
