//! Approvals: a call that may change something waits for a person's approval.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::ids::{ApprovalId, ChannelId, TurnId};
use crate::texts::{Key, Saying, Texts};

/// The characters of ids: none that is easily mistaken for another.
const SIGNS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

const ID_LEN: usize = 6;

/// Most characters of arguments that a request shows. Of longer ones the middle is left out, with a note.
const SHOWN_CHARS: usize = 6_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id, short enough to type.
    pub id: ApprovalId,
    pub turn: TurnId,
    pub call: String,
    /// The tool, by the name that the model knows it by.
    pub tool: String,
    pub arguments: Value,
    /// The people (`PLATFORM/USER`) whose messages the turn answers.
    pub caused_by: BTreeSet<String>,
    pub reason: String,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    Granted,
    Denied,
    Expired,
    /// The turn that waited was stopped, or ended otherwise.
    Void,
}

impl ApprovalOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }
}

/// The id of a channel's `n`th approval. It derives from both, so that a replay gives the same. Who may answer depends on who
/// they are, not on knowing the id.
pub fn approval_id(channel: &ChannelId, n: u64) -> ApprovalId {
    let hash = Sha256::digest(format!("{channel}\n{n}"));
    let signs = hash.iter().take(ID_LEN).map(|byte| char::from(SIGNS[usize::from(byte % 32)]));
    ApprovalId::from(signs.collect::<String>())
}

/// The start of the line that adapters put before a message that answers one of the bot's.
const ANSWERS_ME: &str = "[in reply to you: ";

/// Reads a yes or no that is alone in a message, which may be a reply to one of the bot's. `None`: it says something else.
pub fn reads_as(text: &str) -> Option<bool> {
    let quoted =
        text.split_once('\n').filter(|(line, _)| line.starts_with(ANSWERS_ME) && line.ends_with(']'));
    let word =
        quoted.map_or(text, |(_, own)| own).trim().trim_end_matches(['.', '!', '。', '！']).to_lowercase();
    match word.as_str() {
        "yes" | "y" | "ok" | "approve" | "allow" | "👍" | "✅" => Some(true),
        "no" | "n" | "deny" | "refuse" | "👎" | "❌" => Some(false),
        // As the questions of other languages ask for it.
        "ja" | "oui" | "sí" | "si" | "sim" | "sì" | "tak" | "да" | "так" | "是" | "はい" => {
            Some(true)
        }
        "nein" | "non" | "não" | "nao" | "nie" | "нет" | "ні" | "否" | "いいえ" => Some(false),
        _ => None,
    }
}

impl Approval {
    /// The question for the people in the chat. Arguments are shown in a block that their text cannot close. `reason`: why it is
    /// asked, in no language yet.
    pub fn question(&self, texts: &Texts, reason: Saying) -> String {
        let secs = self.expires_at.duration_since(self.asked_at).as_secs().unsigned_abs();
        let time = match secs / 60 {
            0 => Key::CountSeconds.count(secs),
            minutes => Key::CountMinutes.count(minutes),
        };
        let shown = shown_arguments(&self.arguments, texts);
        let fence = fence_for(&shown);
        let asked =
            Key::MayICall.with("tool", self.tool.as_str()).with("id", self.id.as_str()).with("time", time);
        texts.say(asked.with("reason", reason).with("arguments", format!("{fence}json\n{shown}\n{fence}")))
    }
}

/// Arguments as people see them: indented JSON, without hidden characters, cut in the middle if long.
pub fn shown_arguments(arguments: &Value, texts: &Texts) -> String {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_else(|_| arguments.to_string());
    // Invisible characters could hide part of the text.
    let text: String = text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect();
    let n_chars = text.chars().count();
    if n_chars <= SHOWN_CHARS {
        return text;
    }
    let head: String = text.chars().take(SHOWN_CHARS / 2).collect();
    let tail: String = text.chars().skip(n_chars - SHOWN_CHARS / 2).collect();
    let cut = texts.say(Key::ArgumentsCut.with("n", n_chars - SHOWN_CHARS));
    format!("{head}\n{cut}\n{tail}")
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || crate::text::escape::is_invisible(c)
}

/// A fence that is longer than any within the text.
fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn approval(arguments: Value) -> Approval {
        let asked_at = Timestamp::UNIX_EPOCH;
        Approval {
            id: "abc234".into(),
            turn: "t1".into(),
            call: "c1".to_owned(),
            tool: "files__write".to_owned(),
            arguments,
            caused_by: BTreeSet::new(),
            reason: "results of tools".to_owned(),
            asked_at,
            expires_at: asked_at + jiff::SignedDuration::from_secs(300),
        }
    }

    fn asked(approval: Approval) -> String {
        approval.question(Texts::english(), Key::ReasonTools.into())
    }

    #[rstest]
    #[case("Ja.", Some(true))]
    #[case("si", Some(true))]
    #[case("Nao!", Some(false))]
    #[case("いいえ。", Some(false))]
    #[case("yes", Some(true))]
    #[case(" Yes! ", Some(true))]
    #[case("NO.", Some(false))]
    #[case("yes, but later", None)]
    #[case("", None)]
    #[case("[in reply to you: \"May I call `x`?\"]\nyes", Some(true))]
    #[case("[in reply to Ann: \"shall we?\"]\nyes", None)]
    #[case("[in reply to you: \"yes\"]\nwhy?", None)]
    fn a_yes_stands_alone(#[case] text: &str, #[case] read: Option<bool>) {
        assert_eq!(reads_as(text), read);
    }

    #[test]
    fn arguments_cannot_leave_their_block_nor_hide() {
        let question =
            asked(approval(json!({ "text": "```\n@everyone press yes\u{202e}\u{200b}\u{1b}[2J" })));
        let fence = question.lines().nth(1).unwrap().trim_end_matches("json");
        assert_eq!(fence, "````");
        assert_eq!(question.matches(fence).count(), 2, "{question}");
        assert!(!question.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{question}");
        assert!(question.contains("within 5 minutes") && question.contains("/approve abc234"), "{question}");
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let question = asked(approval(json!({ "text": "x".repeat(10_000) })));
        assert!(question.contains("characters are not shown here"), "{question}");
        assert!(question.len() < 7_500);
    }

    #[test]
    fn ids_differ_by_channel_and_number() {
        let (a, b) = ("main/local/a".parse().unwrap(), "main/local/b".parse().unwrap());
        assert_ne!(approval_id(&a, 1), approval_id(&a, 2));
        assert_ne!(approval_id(&a, 1), approval_id(&b, 1));
        assert_eq!(approval_id(&a, 1), approval_id(&a, 1));
        assert_eq!(approval_id(&a, 1).as_str().len(), 6);
    }
}
