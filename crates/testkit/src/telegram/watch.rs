//! What a test looks at, waits for and turns the wrong way.

use serde_json::Value;

use super::fault::{Fault, Stage};
use super::world::Waiting;
use super::{Act, Call, FakeTelegram, Sent, Violation, What};
use crate::gate::Gate;

/// Something that a test has made the server do, until this is dropped.
#[must_use = "it ends when it is dropped"]
pub struct Meanwhile {
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl FakeTelegram {
    /// The bot's messages in a chat, topics included, in order.
    pub fn sent(&self, chat: i64) -> Vec<Sent> {
        let state = self.shared.state.lock();
        let messages = state.chats.get(&chat).into_iter().flat_map(|chat| &chat.messages);
        let mine = messages.filter(|(_, message)| message.mine);
        let number = |value: Option<&Value>| value.and_then(Value::as_i64);
        mine.map(|(id, message)| Sent {
            id: *id,
            chat,
            thread: message.thread,
            reply_to: number(message.json.pointer("/reply_to_message/message_id")),
            text: message.text().to_owned(),
            entities: message.json.get("entities").and_then(Value::as_array).cloned().unwrap_or_default(),
            edits: message.edits.clone(),
            buttons: message.buttons(),
        })
        .collect()
    }

    /// The bot's reactions to a message, in order; an empty one took it away.
    pub fn reactions(&self, chat: i64, message: i64) -> Vec<String> {
        self.shared.state.lock().reactions.get(&(chat, message)).cloned().unwrap_or_default()
    }

    /// Texts that a message was changed to, in order.
    pub fn edits(&self, chat: i64, message: i64) -> Vec<String> {
        let state = self.shared.state.lock();
        let stored = state.chats.get(&chat).and_then(|chat| chat.messages.get(&message));
        stored.map(|message| message.edits.clone()).unwrap_or_default()
    }

    /// What could be seen in a chat, in order: who said what, typing, messages, edits.
    pub fn acts(&self, chat: i64) -> Vec<What> {
        let state = self.shared.state.lock();
        state.acts.iter().filter(|act| act.chat == chat).map(|act| act.what).collect()
    }

    /// What could be seen in all chats, in order.
    pub fn all_acts(&self) -> Vec<Act> {
        self.shared.state.lock().acts.clone()
    }

    /// All requests of a method so far, in any case of letters.
    pub fn calls(&self, method: &str) -> Vec<Call> {
        let state = self.shared.state.lock();
        state.calls.iter().filter(|call| call.method.eq_ignore_ascii_case(method)).cloned().collect()
    }

    /// How many requests of a method were done so far, refused ones included.
    pub fn done(&self, method: &str) -> usize {
        self.shared.state.lock().done.get(&method.to_lowercase()).copied().unwrap_or(0)
    }

    /// The commands that the bot registered for a scope, `default` or `all_private_chats` and so on: names and
    /// descriptions.
    pub fn commands(&self, scope: &str) -> Vec<(String, String)> {
        self.shared.state.lock().commands.get(scope).cloned().unwrap_or_default()
    }

    /// Updates that were not confirmed yet.
    pub fn unconfirmed(&self) -> usize {
        self.shared.state.lock().queue.len()
    }

    /// What was wrong with requests so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.state.lock().violations.clone()
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the fake Telegram finds fault with requests: {violations:#?}");
    }

    /// Changes with everything that happens here.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.state.changes()
    }

    /// Waits until the bot has so many messages in a chat; all of them.
    pub async fn wait_sent(&self, chat: i64, n: usize) -> Vec<Sent> {
        self.wait_until(&format!("{n} messages in chat {chat}"), |fake| fake.sent(chat).len() >= n).await;
        self.sent(chat)
    }

    /// Waits until so many requests of a method have arrived, held ones included.
    pub async fn wait_for(&self, method: &str, n: usize) {
        self.wait_until(&format!("{n} requests {method}"), |fake| fake.calls(method).len() >= n).await;
    }

    /// Waits until every update was confirmed by an offset.
    pub async fn wait_confirmed(&self) {
        self.wait_until("all updates to be confirmed", |fake| fake.unconfirmed() == 0).await;
    }

    /// Waits until a condition on this server holds; it is looked at with everything that happens here.
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let more = || format!("violations: {:?}", self.violations());
        self.shared.state.wait(what, || condition(self).then_some(()), more).await;
    }
}

impl FakeTelegram {
    /// The next request of a method (`file`: the next download) meets a fault; several queue up.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.shared.update(|state| state.plan.next(method, fault));
    }

    /// All requests of a method (`*`: of every method) meet a fault until [`FakeTelegram::mend`].
    pub fn fail_always(&self, method: &str, fault: Fault) {
        self.shared.update(|state| state.plan.always(method, fault));
    }

    /// Takes the faults of a method back.
    pub fn mend(&self, method: &str) {
        self.shared.update(|state| state.plan.mend(method));
    }

    /// Holds requests of a method until the gate opens. Dropping the gate opens it.
    pub fn hold(&self, method: &str, stage: Stage) -> Gate {
        self.shared.gates.close((method.to_lowercase(), stage))
    }

    /// What is sent to a chat is refused with 429 for so many seconds from the next attempt on; an attempt before
    /// they are over is a violation.
    pub fn rate_limit(&self, chat: i64, secs: u64) {
        self.shared.update(|state| state.chat(chat).flood = Some(secs));
    }

    /// Updates wait at the server, polls stay open, until this is dropped; then they come in one batch.
    pub fn hold_updates(&self) -> Meanwhile {
        let shared = self.shared.clone();
        self.shared.update(|state| state.holds += 1);
        Meanwhile { end: Some(Box::new(move || shared.update(|state| state.holds -= 1))) }
    }

    /// Another program polls with this token: polls of this bot end with 409 until this is dropped.
    pub fn second_poller(&self) -> Meanwhile {
        let shared = self.shared.clone();
        self.shared.update(|state| state.other_pollers += 1);
        Meanwhile { end: Some(Box::new(move || shared.update(|state| state.other_pollers -= 1))) }
    }

    /// How often an update was sent to the webhook, whatever came of it.
    pub fn deliveries(&self) -> usize {
        self.shared.state.lock().deliveries
    }

    /// From now on a reply to a message that is gone is refused, whatever the request says: not every server heeds
    /// `allow_sending_without_reply`.
    pub fn refuse_stray_replies(&self) {
        self.shared.update(|state| state.strict_replies = true);
    }

    /// The token is no longer valid: 401.
    pub fn revoke_token(&self) {
        self.shared.update(|state| state.revoked = true);
    }

    /// Ids of updates restart somewhere else, as after a quiet week: below the old ones the first time, above
    /// them the second, and so on.
    pub fn restart_ids(&self) {
        self.shared.update(|state| {
            state.restarts += 1;
            let far = 90_000_000 + state.restarts * 1_234_567;
            state.next_update += if state.restarts % 2 == 1 { -far } else { 2 * far };
        });
    }

    /// The newest update of a message comes once more, under a new update id.
    pub fn repeat(&self, chat: i64, message: i64) {
        self.shared.update(|state| {
            let stored = state.chat(chat).messages.get(&message);
            let json = stored.unwrap_or_else(|| panic!("no message {message} in chat {chat}")).json.clone();
            state.push_update("message", json);
        });
    }

    /// Updates that wait come in reverse order, under rising ids.
    pub fn reverse_waiting(&self) {
        self.shared.update(|state| {
            let ids: Vec<i64> = state.queue.iter().map(|waiting| waiting.id).collect();
            let reversed = state.queue.drain(..).rev().collect::<Vec<_>>();
            for (id, mut waiting) in ids.into_iter().zip(reversed) {
                waiting.id = id;
                waiting.json["update_id"] = id.into();
                state.queue.push_back(waiting);
            }
        });
    }

    /// Queues an update of any form; `update_id` is put in unless it is there, even as null.
    pub fn push_raw(&self, mut update: Value) {
        self.shared.update(|state| {
            let id = state.next_update;
            state.next_update += 1;
            if let Some(fields) = update.as_object_mut() {
                fields.entry("update_id").or_insert_with(|| id.into());
            }
            state.queue.push_back(Waiting { id, json: update });
        });
    }
}
