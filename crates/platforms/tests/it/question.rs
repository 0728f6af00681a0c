//! Questions whether a call may be made, as the outbox sends them.

use std::collections::BTreeSet;

use cairn_types::ids::{ApprovalId, ChannelId, OutboxId};
use cairn_types::ports::{Platform, SendPart};
use cairn_types::texts::{Key, Texts};
use cairn_types::tool::approval::Approval;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The words of one, for a call with these arguments.
pub(crate) fn question_of(id: &ApprovalId, arguments: Value) -> String {
    let asked_at = Timestamp::UNIX_EPOCH;
    let approval = Approval {
        id: id.clone(),
        turn: "t1".into(),
        call: "c1".to_owned(),
        tool: "files__write".to_owned(),
        arguments,
        caused_by: BTreeSet::new(),
        reason: "results of tools".to_owned(),
        asked_at,
        expires_at: asked_at + SignedDuration::from_secs(300),
    };
    approval.question(Texts::english(), Key::ReasonTools.into())
}

/// Sends these words in as many parts as it takes.
pub(crate) async fn send_question(
    platform: &impl Platform,
    channel: &ChannelId,
    id: &ApprovalId,
    words: &str,
) {
    let parts = platform.split(words);
    let last = parts.len() - 1;
    for (n, words) in parts.into_iter().enumerate() {
        let part = SendPart {
            delivery: OutboxId::from(format!("{channel} {id}")),
            part: u32::try_from(n).expect("few"),
            channel: channel.clone(),
            reply_to: None,
            words,
            approval: (n == last).then(|| id.clone()),
            files: Vec::new(),
        };
        platform.send(part).await.expect("is sent");
    }
}
