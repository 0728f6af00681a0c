//! Presses of the buttons under a question: runs them, answers the presser, and updates the question.

use std::time::Duration;

use cairn_types::ids::ApprovalId;
use cairn_types::ports::SendError;
use cairn_types::texts::{Key, Texts};
use teloxide::payloads::{AnswerCallbackQuery, EditMessageReplyMarkup, EditMessageText};
use teloxide::types::{
    CallbackQueryId, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, MessageEntityKind,
    MessageId as Number,
};

use super::Telegram;
use super::content;
use super::handler::{InboundHandler, address, press_id, sender, topic_of};
use super::notice::{Closing, Notice};
use super::pace::Write;
use super::wire::{Callback, Entity, Message};
use crate::buttons;
use crate::inbound::{ButtonPress, PressOutcome};
use crate::markup::telegram as rendering;

/// Longest time to answer a press; the chat's next press waits behind it.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer to a press, in UTF-16 units.
const TOLD_MAX: usize = 200;

/// The buttons under the question for an approval.
pub(super) fn keyboard(approval: &ApprovalId, texts: &Texts) -> Option<InlineKeyboardMarkup> {
    let [yes, no] = buttons::data(approval)?;
    let row = [(Key::ButtonYes, yes), (Key::ButtonNo, no)]
        .map(|(label, data)| InlineKeyboardButton::callback(texts.say(label), data));
    Some(InlineKeyboardMarkup::new([row]))
}

impl InboundHandler {
    /// Runs a button press. Returns the outcome for the metrics.
    pub(super) async fn callback(&self, callback: &Callback) -> &'static str {
        let telegram = &self.telegram;
        let own = |message: &&Message| message.from.as_ref().is_some_and(|user| user.id == self.me.id);
        let Some(question) = callback.message.as_ref().filter(own) else {
            telegram.tell(callback, &self.path.chat.get().own_texts().say(Key::NoQuestion), true).await;
            return "press_refused";
        };
        let presser = content::presser(&callback.from);
        let press = ButtonPress {
            id: press_id(callback),
            data: callback.data.as_deref(),
            admitted: self.path.admit(&sender(&presser, &self.me), &address(question), None).await,
        };
        let place = topic_of(question);
        let mut closing = Closing { place, message: question.message_id, words: None };
        match self.path.press(press).await {
            PressOutcome::Refused(words) => {
                telegram.tell(callback, &words, true).await;
                return "press_refused";
            }
            PressOutcome::Repeated => {
                telegram.tell(callback, "", false).await;
                return "press_again";
            }
            PressOutcome::Denied(words) => {
                telegram.tell(callback, &words, true).await;
                return "press_denied";
            }
            PressOutcome::Stale(words) => telegram.tell(callback, &words, true).await,
            PressOutcome::Decided { words, outcome } => {
                telegram.tell(callback, &words, false).await;
                closing.words = with_outcome(question, &outcome);
                if closing.words.is_none() {
                    let reply_to = Some(telegram.message_id(question));
                    self.say(Notice { place, reply_to, words: outcome, otherwise: None });
                }
            }
        }
        self.close(closing);
        "press"
    }
}

impl Telegram {
    /// Answers a press. `alert`: in a window that the presser closes. Best effort.
    async fn tell(&self, callback: &Callback, words: &str, alert: bool) {
        let mut payload = AnswerCallbackQuery::new(CallbackQueryId(callback.id.clone()));
        payload.text = Some(short(&rendering::plain(words))).filter(|_| !words.is_empty());
        payload.show_alert = Some(alert).filter(|alert| *alert);
        if let Err(error) = self.api.call(&payload, TELL_TIMEOUT).await {
            tracing::debug!(%error, "telegram did not take the answer to a press");
        }
    }

    /// Removes the buttons of a question and shows its answer. Safe to repeat.
    pub(super) async fn close(&self, closing: &Closing) -> Result<(), SendError> {
        let Closing { place, message, words } = closing;
        let number = i32::try_from(*message).map(Number);
        let number = number.map_err(|_| SendError::Refused(format!("{message} is no message's number")))?;
        self.take(*place, Write::Edit)?;
        let answer = match words {
            // An edit without a keyboard removes the existing one.
            Some((text, entities)) => {
                let mut payload = EditMessageText::new(super::send::chat(*place), number, text.clone());
                payload.entities = Some(entities.clone()).filter(|entities| !entities.is_empty());
                payload.link_preview_options = Some(super::send::no_preview());
                self.api.call(&payload, super::send::CALL_TIMEOUT).await
            }
            None => {
                let payload = EditMessageReplyMarkup::new(super::send::chat(*place), number);
                self.api.call(&payload, super::send::CALL_TIMEOUT).await
            }
        };
        self.edited(*place, answer)
    }
}

/// A question's text with the outcome added. `None` if it gets too long.
pub(super) fn with_outcome(question: &Message, outcome: &str) -> Option<(String, Vec<MessageEntity>)> {
    let text = format!("{}\n\n{}", question.text.as_deref()?, rendering::literal(outcome));
    let fits = text.encode_utf16().count() <= rendering::LIMIT;
    fits.then(|| (text, question.entities.iter().filter_map(kept).collect()))
}

/// The entity as it is sent again; entities that Telegram detects itself are left out.
fn kept(entity: &Entity) -> Option<MessageEntity> {
    let kind = match entity.kind.as_str() {
        "bold" => MessageEntityKind::Bold,
        "italic" => MessageEntityKind::Italic,
        "strikethrough" => MessageEntityKind::Strikethrough,
        "code" => MessageEntityKind::Code,
        "pre" => MessageEntityKind::Pre { language: entity.language.clone() },
        "blockquote" => MessageEntityKind::Blockquote,
        _ => return None,
    };
    Some(MessageEntity::new(kind, entity.offset, entity.length))
}

/// Cuts a text to [`TOLD_MAX`] units.
fn short(text: &str) -> String {
    if text.encode_utf16().count() <= TOLD_MAX {
        return text.to_owned();
    }
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units < TOLD_MAX
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told_is_short() {
        assert_eq!(short("fine"), "fine");
        assert_eq!(short(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(short(&"x".repeat(201)), format!("{}…", "x".repeat(199)));
        assert!(short(&"😀".repeat(300)).encode_utf16().count() <= TOLD_MAX);
    }

    #[test]
    fn a_question_keeps_its_words_and_its_markup() {
        let question = |text: &str| -> Message {
            let entities = json!([
                {"type": "code", "offset": 0, "length": 2}, {"type": "url", "offset": 3, "length": 2},
                {"type": "pre", "offset": 6, "length": 1, "language": "json"},
            ]);
            let chat = json!({"id": 1, "type": "private"});
            let message =
                json!({"message_id": 5, "chat": chat, "date": 0, "text": text, "entities": entities});
            serde_json::from_value(message).expect("is a message")
        };
        let (text, entities) = with_outcome(&question("ab cd e?"), "— yes, @ann, 12:03 UTC").expect("fits");
        assert_eq!(text, "ab cd e?\n\n— yes, @\u{2060}ann, 12:03 UTC");
        let pre = MessageEntityKind::Pre { language: Some("json".to_owned()) };
        let wanted = [MessageEntity::new(MessageEntityKind::Code, 0, 2), MessageEntity::new(pre, 6, 1)];
        assert_eq!(entities, wanted);
        assert_eq!(with_outcome(&question(&"x".repeat(4090)), "— yes, Ann, 12:03 UTC"), None);
    }
}
