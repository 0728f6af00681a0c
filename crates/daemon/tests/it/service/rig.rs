//! A daemon with two models to change between.

use cairn_testkit::gate::Gate;
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::{Rig, model_table};
use serde_json::Value;
use tokio::task::JoinHandle;

/// A configuration: `top` before all tables, `agent` in the agent's, `more` after it.
pub(crate) fn config(model: &FakeModel, top: &str, agent: &str, more: &str) -> String {
    let table = |id| model_table(id, &model.base_url(), 32_000);
    let (first, second) = (table("first"), table("second"));
    format!("{top}\n{first}\n{second}\n[[agents]]\nid = \"main\"\nmodels = [\"first\"]\n{agent}\n{more}\n")
}

pub(crate) async fn start() -> Rig {
    with("", &[]).await
}

/// With keys before all tables, and variables.
pub(crate) async fn with(top: &str, vars: &[(&str, &str)]) -> Rig {
    let model = FakeModel::builder().expect_stable_prefix(false).start().await;
    let config = config(&model, top, "", "");
    Rig::start_with(crate::home(), model, &config, vars).await
}

/// Writes the configuration again, as an editor does: beside it, then renamed.
pub(crate) fn write(rig: &Rig, text: &str) {
    std::fs::rename(rig.file("config.toml.new", text), rig.path("config.toml")).unwrap();
}

pub(crate) fn configure(rig: &Rig, top: &str, agent: &str, more: &str) {
    write(rig, &config(&rig.model, top, agent, more));
}

/// A turn whose model waits at the gate; its answer comes when the gate is open.
pub(crate) async fn open_turn(rig: &Rig, text: &'static str) -> (Gate, JoinHandle<(u16, Value)>) {
    let gate = rig.model.hold(Kind::Reply);
    let client = rig.client();
    let open = tokio::spawn(async move {
        let (status, answer) = client.say("main", text).await.unwrap();
        (status.as_u16(), answer)
    });
    rig.model.wait_for(Kind::Reply, 1).await;
    (gate, open)
}
