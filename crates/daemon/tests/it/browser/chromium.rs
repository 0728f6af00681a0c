//! A real Chromium, driven over WebDriver: what it shows, what it complains about, and what axe-core finds in it.

use std::fmt::Debug;
use std::process::Stdio;

use cairn_testkit::daemon::PATIENCE;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use url::Url;

/// Finds what keeps people with a keyboard, a screen reader or weak eyes from using a page.
const AXE: &str = include_str!("axe/axe.min.js");

/// What is taken from axe-core's report: each rule that is broken, with where.
const AXE_RUN: &str =
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target}: ${failureSummary}`)))";

/// Never its own doing: no update, no account, no word to anybody.
const ARGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    // It ends with its driver, however that ends.
    "--remote-debugging-pipe",
    "--force-color-profile=srgb",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A window of a browser.
pub(crate) struct Browser {
    client: Client,
    driver: Child,
    /// Goes with it.
    _profile: TempDir,
}

impl Browser {
    /// A new one, with a profile of its own.
    pub(crate) async fn start() -> Self {
        let mut command = Command::new("chromedriver");
        command.args(["--port=0", "--log-level=WARNING"]).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().expect("chromedriver is installed; `.ci/browser` installs it");
        let port = tokio::time::timeout(PATIENCE, port_of(&mut driver)).await.expect("the driver starts");
        let profile = tempfile::tempdir().unwrap();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let args: Vec<&str> = ARGS.into_iter().chain([folder.as_str()]).collect();
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let Value::Object(wanted) = wanted else { unreachable!("it is written so") };
        let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
        let client = builder.capabilities(wanted).connect(&format!("http://127.0.0.1:{port}")).await;
        Self { client: client.unwrap(), driver, _profile: profile }
    }

    /// Closes it and waits for its end.
    pub(crate) async fn quit(mut self) {
        self.client.close().await.unwrap();
        self.driver.kill().await.unwrap();
    }

    /// Goes to a page and waits until it is loaded, its scripts too.
    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        // For a moment there may be no document yet.
        self.until("document.body && document.readyState === 'complete'").await;
    }

    pub(crate) async fn url(&self) -> Url {
        self.client.current_url().await.unwrap()
    }

    /// The size of its window, and the colours that its user likes.
    pub(crate) async fn look(&self, width: u32, height: u32, theme: Theme) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let likes = json!([{ "name": "prefers-color-scheme", "value": theme.name() }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": likes })).await;
    }

    /// With scripts off, a page is what the server sends and what a form does.
    pub(crate) async fn set_scripts(&self, on: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !on })).await;
    }

    /// What an expression comes to, in the page; a promise is waited for. No CSP applies to it.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.devtools("Runtime.evaluate", asked).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true. It is looked at again and again: the page that it was true of may be another by then.
    pub(crate) async fn until(&self, expression: &str) {
        let waiting = async { while self.eval(&format!("!!({expression})")).await != true {} };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("it never came true: {expression}; the page says: {}", self.text().await);
        }
    }

    /// Waits until the page shows these words.
    pub(crate) async fn until_shown(&self, words: &str) {
        self.until(&format!("document.body && document.body.innerText.includes({})", json!(words))).await;
    }

    /// Clicks what a selector finds first.
    pub(crate) async fn click(&self, selector: &str) {
        self.eval(&format!("document.querySelector({}).click()", json!(selector))).await;
    }

    /// Writes into a field, in the place of what is there.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        self.eval(&format!("document.querySelector({}).select()", json!(selector))).await;
        self.devtools("Input.insertText", json!({ "text": text })).await;
    }

    /// Presses Tab until what has the focus fits a selector.
    pub(crate) async fn tab_to(&self, selector: &str) {
        for _ in 0..200 {
            self.press("Tab").await;
            if self.eval(&format!("document.activeElement.matches({})", json!(selector))).await == true {
                return;
            }
        }
        panic!("no Tab leads to {selector}");
    }

    /// The words of the page, as they are shown.
    pub(crate) async fn text(&self) -> String {
        self.eval("document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key, such as `Tab`.
    pub(crate) async fn press(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.devtools("Input.dispatchKeyEvent", event).await;
        }
    }

    /// What it has complained about since it was last asked: errors of scripts, what the CSP forbade, what was not found.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let told = self.command("se/log", json!({ "type": "browser" })).await;
        let entries = told.as_array().unwrap();
        let bad = entries.iter().filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG");
        bad.map(|entry| format!("{} {}", entry["level"], entry["message"])).collect()
    }

    /// What axe-core finds wrong with the page.
    pub(crate) async fn barriers(&self) -> Vec<String> {
        if self.eval("typeof axe").await != "object" {
            self.eval(&format!("{AXE}; true")).await;
        }
        let found = self.eval(AXE_RUN).await;
        found.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    }

    /// Keeps a picture of the page from top to end in the folder `$CAIRN_PICTURES`, where that is set: for whoever looks.
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says whether to keep pictures")]
    pub(crate) async fn keep_picture(&self, view: &str, width: u32, theme: Theme) {
        let Ok(folder) = std::env::var("CAIRN_PICTURES") else { return };
        let height = self.eval("document.documentElement.scrollHeight").await.as_u64().unwrap();
        self.look(width, u32::try_from(height).unwrap().clamp(400, 3_000), theme).await;
        let name: String =
            view.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
        let picture = self.client.screenshot().await.unwrap();
        std::fs::write(format!("{folder}/{name}_{width}_{}.png", theme.name()), picture).unwrap();
    }

    async fn devtools(&self, method: &str, params: Value) -> Value {
        self.command("goog/cdp/execute", json!({ "cmd": method, "params": params })).await
    }

    async fn command(&self, path: &'static str, body: Value) -> Value {
        let shown = body["cmd"].to_string();
        let answer = self.client.issue_cmd(Extension { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{path} {shown}: {error}"))
    }
}

/// A command of Chromium's own driver.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(self.body.to_string()))
    }
}

/// The free port at which a driver says that it listens.
async fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("the driver says its port");
        let port = line
            .split("successfully on port ")
            .nth(1)
            .and_then(|rest| rest.trim_end_matches('.').parse().ok());
        if let Some(port) = port {
            // What it says later is nobody's business, and must not fill the pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return port;
        }
    }
}
