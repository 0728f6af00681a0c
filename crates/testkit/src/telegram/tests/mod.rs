//! The fake refuses what the real one would refuse, and its updates are what a client library understands.

mod buttons;
mod faults;
mod polls;
mod sends;
mod updates;

use serde_json::{Value, json};

use super::{FakeTelegram, Person, Rule};

/// A bot that speaks to the fake by hand.
struct Bot {
    http: reqwest::Client,
    base: String,
}

impl Bot {
    fn of(telegram: &FakeTelegram) -> Self {
        let base = format!("{}/bot{}", telegram.api_url(), telegram.token());
        Self { http: reqwest::Client::new(), base }
    }

    async fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        let response = self.http.post(format!("{}/{method}", self.base)).json(&params).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The result of a request that must succeed.
    async fn ok(&self, method: &str, params: Value) -> Value {
        let (status, body) = self.ask(method, params).await;
        assert_eq!((status, &body["ok"]), (200, &Value::Bool(true)), "{body}");
        body["result"].clone()
    }

    /// Status and description of a refusal.
    async fn refused(&self, method: &str, params: Value) -> (u16, String) {
        let (status, body) = self.ask(method, params).await;
        assert_eq!(body["ok"], false, "{body}");
        assert_eq!(body["error_code"], status, "{body}");
        (status, body["description"].as_str().unwrap().to_owned())
    }

    async fn updates(&self, params: Value) -> Vec<Value> {
        self.ok("getUpdates", params).await.as_array().unwrap().clone()
    }
}

/// A server, a bot, and a person who has written to it (update and message 1).
async fn met() -> (FakeTelegram, Bot, Person) {
    let telegram = FakeTelegram::start().await;
    let bot = Bot::of(&telegram);
    let alice = telegram.person("Alice");
    telegram.say(alice.id, &alice, "hello");
    (telegram, bot, alice)
}

fn message(chat: i64, text: &str) -> Value {
    json!({ "chat_id": chat, "text": text, "link_preview_options": { "is_disabled": true } })
}

fn with(mut params: Value, name: &str, value: Value) -> Value {
    params[name] = value;
    params
}

fn rules(telegram: &FakeTelegram) -> Vec<Rule> {
    telegram.violations().into_iter().map(|violation| violation.rule).collect()
}

fn ids(updates: &[Value]) -> Vec<i64> {
    updates.iter().map(|update| update["update_id"].as_i64().unwrap()).collect()
}

fn texts(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["message"]["text"].as_str().unwrap_or_default()).collect()
}
