//! `/export` and `/forgetme`: what is held about the caller, and having it forgotten.

use std::collections::{BTreeMap, BTreeSet};

use cairn_core::command::CommandCall;
use cairn_core::event::{Event, MemoryEvent};
use cairn_core::ids::{AgentId, MemoryId, Seq};
use cairn_core::memory::{Memory, Reach, Scope};
use cairn_core::pairing_store::Standing;
use cairn_core::ports::{PairingStore, Store as _};
use jiff::Timestamp;

use super::memories::listed;
use super::words::quoted;
use super::{DaemonDesk, Trouble};
use crate::text::{counted, day};

/// Entries that are read at a time.
const PAGE: usize = 500;

/// Memories that an export shows; more would fill the chat.
const SHOWN: usize = 200;

/// What the caller said in the channel of the call.
#[derive(Default)]
struct Said {
    messages: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Names that the caller has borne there.
    names: BTreeSet<String>,
    /// Names that others have borne there.
    names_of_others: BTreeSet<String>,
}

impl DaemonDesk {
    /// `/export`.
    pub(super) async fn export(&self, call: &CommandCall) -> Result<String, Trouble> {
        let said = self.said(call).await?;
        let memories = self.about(call, &said).await?;
        let who = format!("**{}** (`{}`)", quoted(&call.caller.name), call.caller.id);
        let mut lines = vec![format!("What I hold about {who}:"), String::new(), told(&said)];
        lines.extend(match self.deps.pairing_store.standing(&call.caller.id) {
            Standing::Paired => Some("- you were let in to write to me privately".to_owned()),
            Standing::Waiting => Some("- you have a code and wait to be let in".to_owned()),
            Standing::Stranger => None,
        });
        if memories.is_empty() {
            lines.push("- no memories".to_owned());
        } else {
            lines.push(format!("- {}:", counted(memories.len() as u64, "memory", "memories")));
            lines.push(String::new());
            lines.push(listed(memories.values().take(SHOWN)));
        }
        if memories.len() > SHOWN {
            lines.push(format!("\nThese are the first {SHOWN}; whoever runs me can give you all of them."));
        }
        lines.push(
            "\nWhat you said is in the archive of each conversation. `/forgetme` has the memories forgotten."
                .to_owned(),
        );
        Ok(lines.join("\n"))
    }

    /// `/forgetme [yes]`.
    pub(super) async fn forget_me(&self, call: &CommandCall, confirmed: bool) -> Result<String, Trouble> {
        let memories = self.about(call, &self.said(call).await?).await?;
        let n = counted(memories.len() as u64, "memory", "memories");
        if memories.is_empty() {
            return Ok("There are no memories about you here. What you said stays in the archive of the \
                       conversation; whoever runs me can erase it."
                .to_owned());
        }
        if !confirmed {
            return Ok(format!(
                "This forgets {n} about you or by you: from here, from your private chats with me, and what you said of \
                 yourself elsewhere; they do not come back by themselves. `/export` shows them. What you said stays in the archive of the conversation; whoever \
                 runs me can erase it.\n\nSay `/forgetme yes` if you mean it."
            ));
        }
        let events = memories.into_keys().map(|id| Event::Memory(MemoryEvent::Forgotten { id }));
        self.journal(events.collect()).await?;
        Ok(format!("Done: {n} forgotten."))
    }

    /// The memories about the caller that they may see: of their own scope and what they said of themselves elsewhere, with
    /// whichever agent, and those of this place that are about them or by them.
    async fn about(&self, call: &CommandCall, said: &Said) -> Result<BTreeMap<MemoryId, Memory>, Trouble> {
        let mut found = BTreeMap::new();
        let platform = call.channel.platform();
        let bare = call.caller.id.strip_prefix(platform).and_then(|rest| rest.strip_prefix('/'));
        let user = bare.unwrap_or(&call.caller.id).to_owned();
        let said_elsewhere = Reach::Own(format!("{platform}/{user}"));
        let own = [Reach::Scope(Scope::User { platform: platform.to_owned(), user }), said_elsewhere];
        for agent in &self.deps.config.now().config.agents {
            let memories = self.memories_in(&agent.id, &own).await?;
            found.extend(memories.into_iter().map(|memory| (memory.id.clone(), memory)));
        }
        let agent: AgentId = call.channel.agent();
        // What everybody who talks to the agent reads is the operators' own: see `/forget`.
        let place = [Reach::Scope(Scope::learnt_in(&call.channel, None))];
        let memories = self.memories_in(&agent, &place).await?;
        let mine = memories.into_iter().filter(|memory| said.is_about_caller(memory, &call.caller.id));
        found.extend(mine.map(|memory| (memory.id.clone(), memory)));
        Ok(found)
    }

    /// Reads the channel from its beginning for what the caller said.
    async fn said(&self, call: &CommandCall) -> Result<Said, Trouble> {
        let mut said = Said::default();
        said.names.insert(call.caller.name.to_lowercase());
        let mut from = Seq(1);
        loop {
            let page = self.deps.store.entries(&call.channel, from, Seq(u64::MAX), PAGE).await?;
            for entry in &page {
                let Some(author) = &entry.author else { continue };
                if author.id != call.caller.id {
                    said.names_of_others.insert(author.name.to_lowercase());
                    continue;
                }
                said.messages += 1;
                said.first.get_or_insert(entry.at);
                said.last = Some(entry.at);
                said.names.insert(author.name.to_lowercase());
            }
            match page.last() {
                Some(last) if page.len() == PAGE => from = last.seq.next(),
                _ => return Ok(said),
            }
        }
    }
}

impl Said {
    /// The memory is the caller's word, or its subject is the caller: by their id, or by a name that nobody else has borne
    /// there, so that nobody gets at the memories of another by taking their name.
    fn is_about_caller(&self, memory: &Memory, caller: &str) -> bool {
        if memory.speaker() == Some(caller) {
            return true;
        }
        let Some(subject) = &memory.subject else { return false };
        let name = subject.to_lowercase();
        subject == caller || (self.names.contains(&name) && !self.names_of_others.contains(&name))
    }
}

fn told(said: &Said) -> String {
    match (said.first, said.last) {
        (Some(first), Some(last)) => format!(
            "- {} in this conversation, from {} to {}",
            counted(said.messages, "message", "messages"),
            day(first),
            day(last)
        ),
        _ => "- no messages in this conversation".to_owned(),
    }
}
