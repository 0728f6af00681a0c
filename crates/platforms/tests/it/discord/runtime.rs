//! An adapter in a runtime, at a fake Discord with a server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_platforms::discord::{Discord, DiscordSettings};
use cairn_platforms::settings::ChatSettings;
use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::ids::AgentId;
use cairn_types::people::access::{AccessPolicy, DirectPolicy, Respond};
use cairn_types::ports::{Adapter, AdapterFailure, LinkState, Platform as _, PlatformStatus};
use secrecy::SecretString;

pub(crate) use cairn_testkit::runtime::{CODE, Runtime, id, text as words};

pub(crate) const GUILD: u64 = 100;
pub(crate) const CHANNEL: u64 = 101;
pub(crate) const OTHER: u64 = 102;
pub(crate) const CHANNEL_NAME: &str = "main/discord/101";
pub(crate) const OTHER_NAME: &str = "main/discord/102";

/// Rules: the server is served, private messages by pairing.
pub(crate) fn access() -> AccessPolicy {
    AccessPolicy {
        agent: AgentId::from("main"),
        direct: DirectPolicy::Pairing,
        users: BTreeSet::new(),
        servers: BTreeSet::from([GUILD.to_string()]),
        chats: BTreeSet::new(),
        members: BTreeSet::new(),
        respond: Respond::Mention,
        bots: false,
        places: Vec::new(),
    }
}

/// A fake Discord with the server and its channels.
pub(crate) async fn discord() -> FakeDiscord {
    furnished(FakeDiscord::builder().identify_every(Duration::ZERO).start().await)
}

pub(crate) fn furnished(discord: FakeDiscord) -> FakeDiscord {
    discord.guild(GUILD);
    discord.channel(GUILD, CHANNEL);
    discord.channel(GUILD, OTHER);
    discord
}

pub(crate) fn settings(discord: &FakeDiscord) -> DiscordSettings {
    let token = SecretString::from(discord.token().to_owned());
    DiscordSettings { api_url: discord.api_url(), ..DiscordSettings::new(token, ChatSettings::new(access())) }
}

/// An adapter that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) adapter: Arc<Discord>,
    run: tokio::task::JoinHandle<AdapterFailure>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Running {
    /// Starts an adapter; does not wait for its connection.
    pub(crate) fn start(settings: DiscordSettings, runtime: &Arc<Runtime>) -> Self {
        Self::again(Arc::new(Discord::new(settings, runtime.clone()).expect("settings are sound")), runtime)
    }

    /// Has an adapter run that may have run before.
    pub(crate) fn again(adapter: Arc<Discord>, runtime: &Arc<Runtime>) -> Self {
        let run = tokio::spawn(adapter.clone().run(runtime.ports()));
        Self { adapter, run }
    }

    /// Stops it as the supervisor does, and waits until it has let go and its sessions are kept.
    pub(crate) async fn stopped(mut self, discord: &FakeDiscord) {
        self.run.abort();
        assert!((&mut self.run).await.is_err_and(|error| error.is_cancelled()));
        discord.wait_until("the end of the connection", |discord| !discord.is_ready()).await;
        self.adapter.set_state(LinkState::Stopped, None);
    }

    pub(crate) async fn failure(mut self) -> AdapterFailure {
        let ended = tokio::time::timeout(GIVE_UP_AFTER, &mut self.run).await;
        ended.expect("it ends").expect("it does not panic")
    }

    pub(crate) fn status(&self) -> PlatformStatus {
        self.adapter.status()
    }

    /// Waits for a state of the connection.
    pub(crate) async fn wait_state(&self, state: LinkState) -> PlatformStatus {
        self.wait_status(|status| status.state == state).await
    }

    /// Waits for a status. It is a cell without a bell, so it is looked at again and again.
    pub(crate) async fn wait_status(&self, is: impl Fn(&PlatformStatus) -> bool) -> PlatformStatus {
        let waiting = async {
            loop {
                let status = self.status();
                if is(&status) {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(GIVE_UP_AFTER, waiting).await.expect("the status comes")
    }
}

pub(crate) async fn connected(discord: &FakeDiscord, runtime: &Arc<Runtime>) -> Running {
    let running = Running::start(settings(discord), runtime);
    discord.wait_ready().await;
    running.wait_state(LinkState::Connected).await;
    running
}

/// An adapter that is connected, with its fake Discord and its runtime.
pub(crate) async fn start() -> (FakeDiscord, Arc<Runtime>, Running) {
    let (discord, runtime) = (discord().await, Runtime::new());
    let running = connected(&discord, &runtime).await;
    (discord, runtime, running)
}
