//! How every message ended.

use std::collections::BTreeMap;
use std::io;

use cairn_testkit::model::Kind;
use serde_json::Value;

use super::scene::{Site, Spot};
use super::{Run, require, words};

impl Run<'_> {
    /// Everything else that is left, when no daemon runs. `outbox`: as it was at the end.
    pub(super) async fn check(&mut self, outbox: &Value, site: &Site) -> io::Result<()> {
        self.findings.messages = self.said.len();
        self.findings.addressed = self.said.iter().filter(|said| said.addressed).count();
        self.findings.compactions = self.scene.model.tally(Kind::Compaction).arrived;
        self.check_outbox(outbox)?;
        self.check_answers()?;
        self.check_servers()?;
        self.check_logs()?;
        let verified = site.json(&["store", "verify"]).await?;
        require(verified["ok"] == Value::Bool(true), || format!("store verify: {verified}"))
    }

    /// Nothing is owed any more, and only Telegram leaves a fate unknown.
    fn check_outbox(&self, outbox: &Value) -> io::Result<()> {
        for delivery in outbox.as_array().map_or(&[][..], Vec::as_slice) {
            let is_telegram =
                delivery["channel"].as_str().is_some_and(|channel| channel.contains("/telegram/"));
            require(is_telegram && delivery["state"] == "unknown", || format!("in the outbox: {delivery}"))?;
        }
        Ok(())
    }

    /// Each addressed message is answered once, in its own place; on Telegram it may be listed instead, and what is
    /// listed may be there, once. Answers come in the order of the questions.
    fn check_answers(&mut self) -> io::Result<()> {
        let mut answered: BTreeMap<usize, usize> = BTreeMap::new();
        for place in 0..self.scene.places.len() {
            let name = self.scene.places[place].name.clone();
            let mut burst = 0;
            for heard in self.scene.heard(place) {
                self.findings.answers += 1;
                for n in heard.tokens {
                    let said = self.said.get(n).filter(|said| said.place == place);
                    let said =
                        said.ok_or_else(|| io::Error::other(format!("{} is in {name}", words::token(n))))?;
                    require(said.burst >= burst, || format!("{} comes too late", self.describe(n)))?;
                    burst = said.burst;
                    *answered.entry(n).or_default() += 1;
                }
            }
        }
        for (n, said) in self.said.iter().enumerate() {
            let times = answered.get(&n).copied().unwrap_or(0);
            require(times <= 1, || format!("{} is answered {times} times", self.describe(n)))?;
            let is_discord = self.scene.is_discord(said.place);
            if times == 0 && said.addressed {
                let is_listed = !is_discord && self.listed.contains(&n);
                require(is_listed, || format!("{} is neither answered nor listed", self.describe(n)))?;
                self.findings.listed += 1;
            } else if said.addressed {
                *(if is_discord { &mut self.findings.on_discord } else { &mut self.findings.on_telegram }) +=
                    1;
            }
        }
        Ok(())
    }

    /// Each message is in the history of its channel, once, in order.
    pub(super) async fn check_histories(&self, site: &Site) -> io::Result<()> {
        let mut found = vec![0; self.said.len()];
        for (idx, place) in self.scene.places.iter().enumerate() {
            let history = site.json(&["history", &place.name, "--limit", "10000"]).await?;
            let mut burst = 0;
            for entry in history.as_array().map_or(&[][..], Vec::as_slice) {
                if entry["role"] != "user" {
                    continue;
                }
                for n in words::tokens(&entry["parts"].to_string()) {
                    let said = self.said.get(n).filter(|said| said.place == idx);
                    let said = said.ok_or_else(|| {
                        io::Error::other(format!("{} is in the history of {}", words::token(n), place.name))
                    })?;
                    require(said.burst >= burst, || format!("{} is late in the history", self.describe(n)))?;
                    burst = said.burst;
                    found[n] += 1;
                }
            }
        }
        match found.iter().position(|times| *times != 1) {
            Some(n) => {
                Err(io::Error::other(format!("{} is in the history {} times", self.describe(n), found[n])))
            }
            None => Ok(()),
        }
    }

    /// No server found fault with a request.
    fn check_servers(&mut self) -> io::Result<()> {
        let discord: Vec<String> = self.scene.discord.violations().iter().map(ToString::to_string).collect();
        let telegram: Vec<String> =
            self.scene.telegram.violations().iter().map(ToString::to_string).collect();
        let model: Vec<String> =
            self.scene.model.violations().iter().map(|found| format!("{found:?}")).collect();
        require(discord.is_empty(), || format!("Discord: {discord:#?}"))?;
        require(telegram.is_empty(), || format!("Telegram: {telegram:#?}"))?;
        require(model.is_empty(), || format!("model: {model:#?}"))?;
        let places = self.scene.places.iter();
        let channels = places.filter_map(|place| match &place.spot {
            Spot::Discord { channel, .. } => Some(*channel),
            Spot::Telegram { .. } => None,
        });
        let sent = channels.flat_map(|channel| self.scene.discord.sent(channel));
        self.findings.repeats = sent.map(|sent| sent.repeats).sum();
        Ok(())
    }

    /// No line of a log has a token, a name, or a word of a message.
    fn check_logs(&mut self) -> io::Result<()> {
        self.findings.log_lines = self.logs.lines().count();
        require(self.findings.log_lines > 0, || "the logs are empty".to_owned())?;
        let (discord, telegram) = (self.scene.discord.token(), self.scene.telegram.token());
        let secret = telegram.split_once(':').map_or(telegram, |(_, secret)| secret);
        let words = [discord, secret, words::SAID, words::ANSWERED, words::NAMED, "zq0"];
        let leak = self.logs.lines().find(|line| words.iter().any(|word| line.contains(word)));
        match leak {
            Some(line) => Err(io::Error::other(format!("a line of the log gives something away: {line}"))),
            None => Ok(()),
        }
    }
}
