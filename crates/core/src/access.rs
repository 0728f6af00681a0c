//! Who may talk to the bot where, and when it answers. Fails closed: what no list names is not served.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::AgentId;
use crate::registry::Standing;

/// Who may write to the bot privately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectPolicy {
    /// Those on the list, and whom an operator lets in by a code.
    #[default]
    Pairing,
    /// Those on the list.
    Allowlist,
    /// Everybody.
    Open,
    /// Nobody.
    Off,
}

/// When the bot answers in a group that it serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Respond {
    /// When it is mentioned or replied to; the rest is context.
    #[default]
    Mention,
    /// Always.
    All,
    /// Never, and nothing is kept.
    Never,
}

/// A place with rules of its own. What it names must all fit: a server, a chat, a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceRule {
    /// A server's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// A chat's (channel's) id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// A thread's or topic's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The agent that talks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// When it answers there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respond: Option<Respond>,
    /// Who alone is heard there; ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeSet<String>>,
}

/// The rules of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPolicy {
    /// The agent that talks where no place says otherwise.
    pub agent: AgentId,
    /// Who may write privately.
    pub direct: DirectPolicy,
    /// People who may write privately; ids.
    pub users: BTreeSet<String>,
    /// Servers that are served, with all their channels; ids.
    pub servers: BTreeSet<String>,
    /// Chats (channels) that are served, with their threads; ids.
    pub chats: BTreeSet<String>,
    /// Who alone is heard in groups; empty: everybody there.
    pub members: BTreeSet<String>,
    /// When the bot answers in groups.
    pub respond: Respond,
    /// Other bots are heard, too.
    pub bots: bool,
    /// Places with rules of their own; a place that is named is served. The most specific one counts.
    pub places: Vec<PlaceRule>,
}

/// Where somebody speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A private chat with the bot.
    Direct,
    /// A group.
    Group {
        /// The server, where the platform has such.
        server: Option<&'a str>,
        /// The chat or channel; of a thread, the one it belongs to.
        chat: &'a str,
        /// The thread or topic.
        thread: Option<&'a str>,
    },
}

/// Somebody speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approach<'a> {
    /// The person's id on the platform, without its name.
    pub user: &'a str,
    /// How they stand with the registry.
    pub standing: Standing,
    /// It is the bot itself.
    pub myself: bool,
    /// It is another bot.
    pub bot: bool,
    /// The bot is mentioned, replied to, or given a command.
    pub calls_me: bool,
    /// Where.
    pub place: Place<'a>,
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken in.
    Serve {
        /// By this agent.
        agent: AgentId,
        /// It is to be answered.
        addressed: bool,
    },
    /// A stranger in a private chat: they are told a code.
    Pair,
    /// It is passed over; the word says why, for the log.
    Ignore(&'static str),
}

impl AccessPolicy {
    /// Whether somebody is heard, by whom, and whether they get an answer.
    pub fn judge(&self, approach: &Approach<'_>) -> Verdict {
        if approach.myself {
            return Verdict::Ignore("own message");
        }
        if approach.bot && !self.bots {
            return Verdict::Ignore("message of a bot");
        }
        match approach.place {
            Place::Direct => self.judge_direct(approach),
            Place::Group { server, chat, thread } => self.judge_group(approach, server, chat, thread),
        }
    }

    fn judge_direct(&self, approach: &Approach<'_>) -> Verdict {
        let serve = Verdict::Serve { agent: self.agent.clone(), addressed: true };
        let listed = self.users.contains(approach.user);
        match self.direct {
            DirectPolicy::Off => Verdict::Ignore("private chats are off"),
            DirectPolicy::Open => serve,
            DirectPolicy::Allowlist | DirectPolicy::Pairing if listed => serve,
            DirectPolicy::Allowlist => Verdict::Ignore("not on the list of users"),
            DirectPolicy::Pairing if approach.standing == Standing::Paired => serve,
            // Bots do not read codes to operators.
            DirectPolicy::Pairing if approach.bot => Verdict::Ignore("bots are not paired"),
            DirectPolicy::Pairing => Verdict::Pair,
        }
    }

    fn judge_group(
        &self,
        approach: &Approach<'_>,
        server: Option<&str>,
        chat: &str,
        thread: Option<&str>,
    ) -> Verdict {
        let rule = self.rule_of(server, chat, thread);
        let served = rule.is_some()
            || self.chats.contains(chat)
            || thread.is_some_and(|thread| self.chats.contains(thread))
            || server.is_some_and(|server| self.servers.contains(server));
        if !served {
            return Verdict::Ignore("place not on a list");
        }
        let members = rule.and_then(|rule| rule.members.as_ref()).unwrap_or(&self.members);
        if !members.is_empty() && !members.contains(approach.user) {
            return Verdict::Ignore("not on the list of members");
        }
        let addressed = match rule.and_then(|rule| rule.respond).unwrap_or(self.respond) {
            Respond::Never => return Verdict::Ignore("the bot never answers there"),
            Respond::All => true,
            Respond::Mention => approach.calls_me,
        };
        let agent = rule.and_then(|rule| rule.agent.clone()).unwrap_or_else(|| self.agent.clone());
        Verdict::Serve { agent, addressed }
    }

    /// The most specific rule that fits: one that names the thread before one that names the chat before one that
    /// names the server; of equals the first.
    fn rule_of(&self, server: Option<&str>, chat: &str, thread: Option<&str>) -> Option<&PlaceRule> {
        let fits = |rule: &&PlaceRule| {
            let same = |wanted: &Option<String>, is: Option<&str>| {
                wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
            };
            let named = rule.server.is_some() || rule.chat.is_some() || rule.thread.is_some();
            named && same(&rule.server, server) && same(&rule.chat, Some(chat)) && same(&rule.thread, thread)
        };
        let weight = |rule: &&PlaceRule| {
            u8::from(rule.thread.is_some()) * 4
                + u8::from(rule.chat.is_some()) * 2
                + u8::from(rule.server.is_some())
        };
        // `max_by_key` gives the last of equals.
        self.places.iter().rev().filter(fits).max_by_key(weight)
    }
}
