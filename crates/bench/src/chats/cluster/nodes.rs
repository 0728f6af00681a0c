//! One of the daemons, with the ways to its database and to the networks.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::postgres::{PASSWORD_FILE, store_table};
use cairn_testkit::proxy::Proxy;
use serde_json::Value;

use crate::chats::scene::{Scene, Setting, Site};

/// What goes to people.
const SENDS: &[&str] = &[
    "POST /api/v10/channels/",
    "PATCH /api/v10/channels/",
    "/sendMessage",
    "/SendMessage",
    "/editMessage",
    "/EditMessage",
];

/// How long a node that answers takes to say how it is.
const STATUS: Duration = Duration::from_secs(2);

pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) site: Site,
    /// None: its journal is in its folder.
    pub(super) database: Option<Proxy>,
    networks: [Proxy; 2],
    daemon: Option<Daemon>,
    log: String,
}

impl Node {
    /// Nothing is started yet. `url`: of the database.
    pub(super) fn set(
        scene: &Scene,
        setting: &Setting,
        name: &'static str,
        dir: PathBuf,
        url: Option<&str>,
    ) -> io::Result<Self> {
        let (discord, discord_url) = Proxy::to(&scene.discord.api_url());
        let (telegram, telegram_url) = Proxy::to(&scene.telegram.api_url());
        let networks = [discord, telegram];
        networks.iter().for_each(|network| network.count(SENDS));
        let (mut database, mut store, mut secret) = (None, String::new(), String::new());
        if let Some(url) = url {
            let (proxy, url) = Proxy::to(url);
            let (table, password) = store_table(&url);
            store = format!("{table}node = \"{name}\"\n");
            (database, secret) = (Some(proxy), password);
        }
        let site = scene.site(dir, setting, [&discord_url, &telegram_url], &store)?;
        site.secret(PASSWORD_FILE, &secret)?;
        Ok(Self { name, site, database, networks, daemon: None, log: String::new() })
    }

    /// Starts it, again and again, as systemd does: its database may be away.
    pub(super) async fn start(&mut self) -> io::Result<()> {
        let began = Instant::now();
        loop {
            self.keep_log();
            match self.site.start().await {
                Ok(daemon) => {
                    self.daemon = Some(daemon);
                    return Ok(());
                }
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn keep_log(&mut self) {
        self.log += &self.site.log().unwrap_or_default();
    }

    /// All that it has logged.
    pub(super) fn log(&mut self) -> &str {
        self.keep_log();
        &self.log
    }

    fn take(&mut self) -> io::Result<Daemon> {
        self.daemon.take().ok_or_else(|| io::Error::other(format!("{} does not run", self.name)))
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.take()?.kill().await
    }

    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.take()?.stop().await
    }

    pub(super) async fn signal(&self, name: &str) -> io::Result<()> {
        match &self.daemon {
            Some(daemon) => daemon.signal(name).await,
            None => Err(io::Error::other(format!("{} does not run", self.name))),
        }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(&self.site.state().join("cairn.sock"))
    }

    /// Requests so far by which people see something.
    pub(super) fn sends(&self) -> usize {
        self.networks.iter().map(Proxy::counted).sum()
    }

    /// Whether it leads; none: it does not answer, or does not know yet.
    pub(super) async fn leads(&self) -> Option<bool> {
        let status = tokio::time::timeout(STATUS, self.client().get("/v1/status")).await.ok()?.ok()?;
        match (status["node"]["leads"].as_bool()?, &status["node"]["leader"]) {
            (true, _) => (status["state"] == "ready").then_some(true),
            (false, Value::String(_)) => Some(false),
            _ => None,
        }
    }
}

/// Waits until one of them leads, and the others that run follow: which leads.
pub(super) async fn leader(nodes: &[Node]) -> io::Result<usize> {
    let (began, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(100)));
    loop {
        tick.tick().await;
        let mut told = Vec::new();
        for node in nodes {
            told.push(match node.daemon {
                Some(_) => node.leads().await,
                None => Some(false),
            });
        }
        let leaders: Vec<usize> = (0..told.len()).filter(|at| told[*at] == Some(true)).collect();
        if let ([leader], true) = (&leaders[..], told.iter().all(Option::is_some)) {
            return Ok(*leader);
        }
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("no node leads, or others do not follow: {told:?}")));
        }
    }
}
