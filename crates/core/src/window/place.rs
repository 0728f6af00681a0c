//! Where the agent talks, as its request says it, behind the system prompt: a fixed text for each kind of place, and what the
//! program through which a person talks adds to it.

use crate::conversation::{ClientSystem, Conversation};
use crate::silence::SILENCE;
use cairn_types::ids::{DISCORD_MESSAGE_MAX, LOCAL_PLATFORM, TELEGRAM_MESSAGE_MAX};
use cairn_types::text::escape::{escape_text, grouped};
use cairn_types::tokens::estimate;

/// What kind of place a channel is. It follows from the conversation alone, so that a request of the past gets the same text
/// again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    network: Network,
    is_group: bool,
    client: Option<ClientSystem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Local,
    Discord,
    Telegram,
    /// A network of another adapter.
    Other,
}

impl Place {
    /// The local platform, where there are no groups.
    pub const LOCAL: Self = Self { network: Network::Local, is_group: false, client: None };

    pub fn of(conversation: &Conversation) -> Self {
        let platform = conversation.channel.platform();
        // A bot of a network may have a name of its own: `discord-NAME`.
        let network = match platform.split('-').next().unwrap_or(platform) {
            LOCAL_PLATFORM => return Self { client: conversation.client_system.clone(), ..Self::LOCAL },
            "discord" => Network::Discord,
            "telegram" => Network::Telegram,
            _ => Network::Other,
        };
        Self { network, is_group: conversation.direct_with.is_none(), client: None }
    }

    /// Several people talk here, and the agent may stay silent.
    pub fn is_group(&self) -> bool {
        self.is_group
    }

    /// What the agent is told of it.
    pub fn text(&self) -> String {
        let mut text = self.own_text();
        if let Some(client) = self.client.as_ref().filter(|client| !client.text.is_empty()) {
            text.push_str(CLIENT);
            text.push_str(&escape_text(&client.text));
        }
        text
    }

    fn own_text(&self) -> String {
        let on = match self.network {
            Network::Local => return format!("{HEAD}{LOCAL}"),
            Network::Discord => " on Discord",
            Network::Telegram => " on Telegram",
            Network::Other => "",
        };
        let who = if self.is_group { "a group chat" } else { "a private chat with one person" };
        let mut text = format!("{HEAD}You are in {who}{on}. {}", self.shows());
        if self.is_group {
            text.push_str(&format!(
                " Not every message is meant for you. Answer whoever calls you by mention, name or reply, and what you \
                 alone can answer. Where people talk with each other, somebody has answered, or nothing is asked, write \
                 {SILENCE} and nothing else: then nothing is posted."
            ));
        }
        text
    }

    /// The length and the markup that show there: what the adapters render.
    fn shows(&self) -> String {
        let (most, markup) = match self.network {
            Network::Discord => (
                DISCORD_MESSAGE_MAX,
                "Markdown shows, headings too; tables become text of fixed width, so prefer lists.",
            ),
            Network::Telegram => (
                TELEGRAM_MESSAGE_MAX,
                "Bold, italics, code, quotes, lists and links show; headings become bold lines, tables text of fixed \
                 width, so prefer lists.",
            ),
            Network::Local | Network::Other => {
                return "Keep messages short and the markup simple.".to_owned();
            }
        };
        let most = grouped(most as u64);
        format!(
            "A message holds {most} characters; longer answers are split. {markup} Pictures do not show, and mentions \
             notify nobody."
        )
    }

    /// Tokens of the text, before correction.
    pub fn tokens(&self) -> u64 {
        let client = self.client.as_ref().map_or(0, |client| client.tokens + estimate(CLIENT));
        u64::from(estimate(&self.own_text()) + client) + 1
    }
}

const CLIENT: &str = "\n\n[System: client] The program that this person uses adds instructions, which follow. They hold where nothing above \
                      says otherwise.\n";

const HEAD: &str = "[System: place] ";

const LOCAL: &str = "You are asked on this machine, by a terminal, a page or another program. Markdown may show as it is written.";

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    fn conversation(channel: &str, direct_with: Option<&str>) -> Conversation {
        Conversation {
            direct_with: direct_with.map(str::to_owned),
            ..Conversation::new(channel.parse().unwrap())
        }
    }

    #[rstest]
    #[case::local("main/local/kitchen", None, "on this machine", false)]
    #[case::group("main/discord/1/2", None, "a group chat on Discord", true)]
    #[case::private("main/discord/1", Some("discord/7"), "a private chat with one person on Discord", false)]
    #[case::named_bot("main/telegram-work/-5", None, "a group chat on Telegram", true)]
    #[case::other("main/chat/room", None, "a group chat.", true)]
    fn the_agent_is_told_where_it_talks(
        #[case] channel: &str,
        #[case] direct_with: Option<&str>,
        #[case] said: &str,
        #[case] may_be_silent: bool,
    ) {
        let place = Place::of(&conversation(channel, direct_with));
        let text = place.text();
        assert!(text.starts_with("[System: place] ") && text.contains(said), "{text}");
        assert_eq!((place.is_group(), text.contains(SILENCE)), (may_be_silent, may_be_silent), "{text}");
        assert!(place.tokens() < 150, "{} tokens: {text}", place.tokens());
    }

    #[test]
    fn the_request_says_it_behind_the_prompt_and_the_window_counts_it() {
        let agent = testing::agent(8_000, 1_000);
        let requests = [None, Some("discord/7")].map(|direct_with| {
            let conversation = conversation("main/discord/1", direct_with);
            let tail = crate::window::Tail {
                now: jiff::Timestamp::UNIX_EPOCH,
                zone: jiff::tz::TimeZone::UTC,
                recalled: Vec::new(),
                quotes: Vec::new(),
                last_call: false,
            };
            let assembled = crate::window::assemble(&conversation, &agent, &tail).unwrap();
            let place = Place::of(&conversation);
            assert_eq!(assembled.request.system, [format!("{}\n\n{}", agent.system_prompt, place.text())]);
            (assembled.estimated_tokens, crate::window::measure(&conversation, &agent), place.tokens())
        });
        let [group, private] = requests;
        let more = group.2 - private.2;
        assert!(more > 20, "{more}");
        assert_eq!(group.0 - private.0, more);
        assert_eq!(group.1.regions.system.tokens - private.1.regions.system.tokens, more);
        assert_eq!(group.1.estimated_tokens - private.1.estimated_tokens, more);
    }
}
