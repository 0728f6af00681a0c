//! The two buttons under an approval question: the data they carry, and the line that is added to the question once it
//! is answered.

use cairn_types::command::Command;
use cairn_types::ids::ApprovalId;
use cairn_types::texts::{Key, Texts};
use jiff::Timestamp;

/// Most bytes of button data. Telegram's limit; Discord allows more.
const DATA_MAX: usize = 64;

/// The data of the two buttons, approve first. `None` if the id does not fit; such a question is answered by command.
pub(crate) fn data(approval: &ApprovalId) -> Option<[String; 2]> {
    let both = ["approve", "deny"].map(|name| format!("{name}:{approval}"));
    both.iter().all(|data| data.len() <= DATA_MAX).then_some(both)
}

/// Whether button data means approval, and its command. `None`: no button of this bot.
pub(crate) fn read(data: &str) -> Option<(bool, Command)> {
    let (name, id) = data.split_once(':')?;
    let is_id = !id.is_empty() && data.len() <= DATA_MAX && id.chars().all(|c| c.is_ascii_alphanumeric());
    let id = is_id.then(|| ApprovalId::from(id.to_owned()));
    match name {
        "approve" => Some((true, Command::Approve { id: Some(id?) })),
        "deny" => Some((false, Command::Deny { id: Some(id?) })),
        _ => None,
    }
}

/// The line that is added to an answered question. `name` is untrusted text.
pub(crate) fn outcome(texts: &Texts, yes: bool, name: &str, at: Timestamp) -> String {
    let key = if yes { Key::PressedYes } else { Key::PressedNo };
    texts.say(key.with("name", name).with("time", at.strftime("%H:%M").to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_button_carries_is_read_back() {
        let id = ApprovalId::from("abc234");
        let [yes, no] = data(&id).expect("fits");
        assert_eq!(read(&yes), Some((true, Command::Approve { id: Some(id.clone()) })));
        assert_eq!(read(&no), Some((false, Command::Deny { id: Some(id) })));
        for other in ["", "approve", "approve:", "approve:a b", "approve:a:b", "new:abc234", "APPROVE:abc234"]
        {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(data(&ApprovalId::from("x".repeat(60))), None);
    }

    #[test]
    fn an_outcome_says_who_and_when() {
        let at = "2026-11-21T12:03:59Z".parse().expect("is a time");
        assert_eq!(outcome(Texts::english(), true, "Ann", at), "— yes, Ann, 12:03 UTC");
        assert_eq!(outcome(Texts::english(), false, "Ann", at), "— no, Ann, 12:03 UTC");
    }
}
