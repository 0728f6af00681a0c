//! The real binary with a fake model, in a home of its own: what most tests of the whole program begin with.

use std::ops::Deref;

use serde_json::{Value, json};

use crate::daemon::{Client, Daemon, Events};
use crate::home::Home;
use crate::model::{Answer, FakeModel, Kind, lasting_text_of};

/// The table of an OpenAI-compatible model at that address; more keys of it may follow.
pub fn model_table(id: &str, base_url: &str, window: u64) -> String {
    format!(
        "[[models]]\nid = \"{id}\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\ncontext_window = {window}\n\
         max_output_tokens = 1000\n"
    )
}

/// A configuration with one model, `main`, and one agent, `main`; more keys of the agent, or tables, may follow.
pub fn one_model(base_url: &str, window: u64) -> String {
    format!("{}\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n", model_table("main", base_url, window))
}

/// A daemon, its home and its model. What is asked of it and fails panics with its log.
pub struct Rig {
    home: Home,
    pub model: FakeModel,
    /// Where Anna talks.
    pub channel: String,
    vars: Vec<(String, String)>,
    daemon: Option<Daemon>,
}

impl Deref for Rig {
    type Target = Home;

    fn deref(&self) -> &Home {
        &self.home
    }
}

impl Rig {
    /// Starts the home's binary with that configuration.
    pub async fn start(home: Home, model: FakeModel, config: &str) -> Self {
        Self::start_with(home, model, config, &[]).await
    }

    /// The same with more variables.
    pub async fn start_with(home: Home, model: FakeModel, config: &str, vars: &[(&str, &str)]) -> Self {
        home.config(config);
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut rig = Self { home, model, channel: "main".to_owned(), vars, daemon: None };
        rig.run().await;
        rig
    }

    /// Starts the daemon that was stopped or killed.
    pub async fn run(&mut self) {
        let vars: Vec<_> = self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let config = self.path("config.toml");
        let daemon = Daemon::start_with(&vars, self.binary(), &self.state(), Some(&config)).await;
        self.daemon = Some(daemon.unwrap_or_else(|error| panic!("{error}")));
    }

    /// Kills the daemon as a power cut does.
    pub async fn kill(&mut self) {
        self.take_daemon().kill().await.expect("it can be killed");
    }

    /// Stops the daemon as systemd does.
    pub async fn stop(&mut self) {
        let status = self.take_daemon().stop().await.expect("it ends");
        assert!(status.success(), "a clean stop ends with {status}\n{}", self.log());
    }

    /// Kills the daemon and starts it again.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.run().await;
    }

    /// Stops the daemon and starts it again.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.run().await;
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("the daemon runs")
    }

    /// The daemon, whose end is the test's own.
    pub fn take_daemon(&mut self) -> Daemon {
        self.daemon.take().expect("the daemon runs")
    }

    pub fn client(&self) -> Client {
        self.daemon().client()
    }

    pub async fn events(&self) -> Events {
        self.client().events().await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// What a path of the socket answers.
    pub async fn get(&self, path: &str) -> Value {
        self.client().get(path).await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Waits until what a path of the socket answers fits; that answer.
    pub async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.client().until(path, fits).await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Posts to a path of the socket: the status, and what it answers.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answered = self.client().ask("POST", path, body).await;
        let (status, answer) = answered.unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        (status.as_u16(), answer)
    }

    /// Anna says something; the reply.
    pub async fn say(&self, text: &str) -> Value {
        let body = json!({ "user": "anna", "text": text });
        let (status, reply) = self.post(&self.path_of("messages"), &body).await;
        assert_eq!(status, 200, "{reply}\n{}", self.log());
        reply
    }

    /// A path of the socket below the channel.
    pub fn path_of(&self, what: &str) -> String {
        format!("/v1/channels/{}/{what}", self.channel)
    }

    pub async fn context(&self) -> Value {
        self.get(&self.path_of("context")).await
    }

    /// Has the model call a tool; the result, as the model gets it.
    pub async fn call(&self, tool: &str, arguments: Value) -> String {
        self.model.push(Kind::Reply, Answer::call(tool, arguments));
        self.model.push(Kind::Reply, Answer::text("I see."));
        self.say("please look").await;
        let request = self.model.requests_of(Kind::Reply).pop().expect("the model was asked");
        let messages = request["messages"].as_array().expect("a list of messages");
        let result = messages.iter().rfind(|message| message["role"] == "tool");
        lasting_text_of(result.expect("the result of a call"))
    }
}
