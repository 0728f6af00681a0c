//! Presses of the buttons under a question: who may, what the runtime says to it, and what becomes of the question.

use std::time::Duration;

use cairn_core::access::Verdict;
use cairn_core::command::{Command, CommandAnswer, CommandCall, Settled};
use cairn_core::ids::{ApprovalId, MessageId};
use cairn_core::ports::SendError;
use teloxide::payloads::{AnswerCallbackQuery, EditMessageReplyMarkup, EditMessageText};
use teloxide::types::{
    CallbackQueryId, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, MessageEntityKind,
    MessageId as Number,
};

use super::Telegram;
use super::chat_queues::Release;
use super::content;
use super::notice::Notice;
use super::pace::Write;
use super::sent::Place;
use super::visit::{Heard, Host};
use super::wire::{Entity, Message, Press};
use crate::buttons;
use crate::markup::telegram as rendering;

/// How long telling the presser may take: nobody waits for it longer, and the next press of the chat waits behind it.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest text that is told to a presser, in UTF-16 units.
const TOLD_MAX: usize = 200;

/// The buttons under the question for an approval.
pub(super) fn keyboard(approval: &ApprovalId) -> Option<InlineKeyboardMarkup> {
    let [yes, no] = buttons::data(approval)?;
    let row =
        [InlineKeyboardButton::callback(buttons::YES, yes), InlineKeyboardButton::callback(buttons::NO, no)];
    Some(InlineKeyboardMarkup::new([row]))
}

/// A question whose buttons go away.
pub(super) struct Closing {
    pub(super) place: Place,
    message: i64,
    /// What it says then; none: what it said.
    words: Option<(String, Vec<MessageEntity>)>,
}

struct Pressed<'a> {
    question: &'a Message,
    heard: Heard,
    yes: bool,
    command: Command,
}

impl Host {
    /// Takes a press in, as the command that its button stands for.
    pub(super) async fn pressed(&self, press: &Press, release: &Release) -> &'static str {
        let telegram = &self.telegram;
        let Pressed { question, heard, yes, command } = match self.read_press(press) {
            Ok(pressed) => pressed,
            Err(words) => {
                telegram.tell(press, words, true).await;
                return "press_refused";
            }
        };
        let now = telegram.now();
        let call = CommandCall {
            channel: heard.channel.clone(),
            message: MessageId::from(format!("callback-{}", press.id)),
            caller: heard.speaker.author(),
            direct: heard.direct,
            at: now,
            command: Ok(command),
        };
        let Some(CommandAnswer { words, settled, .. }) = self.run(call, release).await else {
            // How it ended is not known here any more; another press tells, and takes the buttons away.
            telegram.tell(press, "", false).await;
            return "press_again";
        };
        telegram.tell(press, &words, settled != Some(Settled::Now)).await;
        let Some(settled) = settled else { return "press_denied" };
        let mut closing = Closing { place: heard.place, message: question.message_id, words: None };
        if settled == Settled::Now {
            let outcome = buttons::outcome(yes, &heard.speaker.name, now);
            closing.words = with_outcome(question, &outcome);
            if closing.words.is_none() {
                let reply_to = Some(telegram.house_id(question.chat.id, question.message_id));
                self.notices.say(Notice { place: heard.place, reply_to, words: outcome, otherwise: None });
            }
        }
        self.notices.close(closing);
        "press"
    }

    /// What a press means, if it counts; otherwise what its author is told.
    fn read_press<'a>(&self, press: &'a Press) -> Result<Pressed<'a>, &'static str> {
        let own = |message: &&Message| message.from.as_ref().is_some_and(|user| user.id == self.me.id);
        let question =
            press.message.as_ref().filter(own).ok_or("Nothing that I asked waits there any more.")?;
        let read = press.data.as_deref().and_then(buttons::read);
        let (yes, command) = read.ok_or("I do not know this button.")?;
        let speaker = content::presser(&press.from);
        let (verdict, home) = self.telegram.judge_call(&self.me, question, &speaker, true);
        match verdict {
            Verdict::Serve { agent, addressed } => {
                let heard = self.placed(question, speaker, (agent, addressed), &home);
                let heard = heard.ok_or("I cannot tell what this belongs to.")?;
                Ok(Pressed { question, heard, yes, command })
            }
            Verdict::Pair => {
                Err("I do not know you yet. Write to me first, and I tell you how to be let in.")
            }
            Verdict::Ignore(why) => {
                tracing::debug!(chat = question.chat.id, why, "a press of a button was refused");
                Err("I am not set up to answer you here.")
            }
        }
    }
}

impl Telegram {
    /// Tells somebody what became of their press. `alert`: in a window that they close. Best effort.
    async fn tell(&self, press: &Press, words: &str, alert: bool) {
        let mut payload = AnswerCallbackQuery::new(CallbackQueryId(press.id.clone()));
        payload.text = Some(short(&rendering::plain(words))).filter(|_| !words.is_empty());
        payload.show_alert = Some(alert).filter(|alert| *alert);
        if let Err(error) = self.api.call(&payload, TELL_TIMEOUT).await {
            tracing::debug!(%error, "telegram did not take the answer to a press");
        }
    }

    /// Takes the buttons away from a question, and says how it was answered. Repeating it does no harm.
    pub(super) async fn close(&self, closing: &Closing) -> Result<(), SendError> {
        let Closing { place, message, words } = closing;
        let number = i32::try_from(*message).map(Number);
        let number = number.map_err(|_| SendError::Refused(format!("{message} is no message's number")))?;
        self.take(*place, Write::Edit)?;
        let answer = match words {
            // Without a keyboard in it, an edit takes the one that is there away.
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

/// The words of a question with what is added to them; none when that does not fit.
fn with_outcome(question: &Message, outcome: &str) -> Option<(String, Vec<MessageEntity>)> {
    let text = format!("{}\n\n{}", question.text.as_deref()?, rendering::literal(outcome));
    let fits = text.encode_utf16().count() <= rendering::LIMIT;
    fits.then(|| (text, question.entities.iter().filter_map(kept).collect()))
}

/// The markup of a message as it is sent again; what Telegram found by itself it finds again.
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

/// A text of so many units as a presser is told at most.
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
