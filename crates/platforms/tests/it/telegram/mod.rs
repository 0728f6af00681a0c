//! The Telegram adapter against the fake Telegram.

mod approvals;
mod backfill;
mod commands;
mod incoming;
mod outgoing;
mod polling;
mod webhook;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_platforms::settings::ChatSettings;
use cairn_platforms::telegram::{Telegram, TelegramSettings};
use cairn_testkit::telegram::FakeTelegram;
use cairn_types::ids::AgentId;
use cairn_types::people::access::{AccessPolicy, DirectPolicy, Respond};
use cairn_types::ports::{Adapter as _, AdapterFailure};
use secrecy::SecretString;
use tokio::task::JoinHandle;

use cairn_testkit::runtime::Runtime;

/// An adapter at a fake, in a runtime.
struct Rig {
    fake: FakeTelegram,
    runtime: Arc<Runtime>,
    telegram: Arc<Telegram>,
    running: Option<JoinHandle<AdapterFailure>>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

/// Everybody may write privately, and in these groups.
fn open_to(chats: &[i64]) -> AccessPolicy {
    AccessPolicy {
        agent: AgentId::from("main"),
        direct: DirectPolicy::Open,
        users: BTreeSet::new(),
        servers: BTreeSet::new(),
        chats: chats.iter().map(i64::to_string).collect(),
        members: BTreeSet::new(),
        respond: Respond::Mention,
        bots: false,
        places: Vec::new(),
    }
}

fn adapter(
    fake: &FakeTelegram,
    runtime: &Arc<Runtime>,
    access: AccessPolicy,
    change: impl FnOnce(&mut TelegramSettings),
) -> Arc<Telegram> {
    let mut settings =
        TelegramSettings::new(SecretString::from(fake.token().to_owned()), ChatSettings::new(access));
    settings.api_url = fake.api_url();
    settings.poll_timeout = Duration::from_secs(20);
    settings.chat.images.insert(AgentId::from("main"));
    change(&mut settings);
    Arc::new(Telegram::new(settings, runtime.clone()).expect("the settings are good"))
}

impl Rig {
    /// An adapter that does not run yet.
    fn set_up(fake: FakeTelegram, access: AccessPolicy, change: impl FnOnce(&mut TelegramSettings)) -> Self {
        let runtime = Runtime::new();
        let telegram = adapter(&fake, &runtime, access, change);
        Self { fake, runtime, telegram, running: None }
    }

    /// Another adapter in its place, which does not run yet.
    fn make_again(&mut self, change: impl FnOnce(&mut TelegramSettings)) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        self.telegram = adapter(&self.fake, &self.runtime, open_to(&[]), change);
    }

    fn run(&mut self) {
        self.running = Some(tokio::spawn(self.telegram.clone().run(self.runtime.ports())));
    }

    /// A running adapter that serves everybody privately, and these groups.
    async fn start(fake: FakeTelegram, chats: &[i64]) -> Self {
        let mut rig = Self::set_up(fake, open_to(chats), |_| {});
        rig.run();
        rig.fake.wait_for("getUpdates", 1).await;
        rig
    }

    async fn failure(&mut self) -> AdapterFailure {
        let running = self.running.take().expect("it runs");
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        ended.expect("it ends").expect("it does not panic")
    }
}
