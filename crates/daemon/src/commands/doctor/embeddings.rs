//! The embedding model: whether its folder is sound, and how many entries have vectors.

use cairn_api::records::StatusRecord;
use cairn_api::text::{counted, grouped};

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;
use crate::wiring::embedder;

const CHECK: &str = "embeddings";

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Ok(connector) = x.connector() else { return Vec::new() };
    let loaded = connector.loaded.clone();
    let read = tokio::task::spawn_blocking(move || embedder(&loaded).map_err(|error| error.to_string()));
    let model = match read.await.unwrap_or_else(|_panic| Err("reading the model panicked".to_owned())) {
        Ok(Some(model)) => model,
        Ok(None) => return Vec::new(),
        Err(error) => {
            let remedy =
                "name the folder of a sentence-transformers model in [embeddings], or leave `folder` out";
            return vec![Finding::failed(CHECK, error, remedy)];
        }
    };
    let mut found = format!("{} can be used", model.model());
    if let Ok(Some(client)) = connector.running().await
        && let Ok(status) = client.get::<StatusRecord>("/v1/status").await
        && let Some(of) = status.store.embedded
    {
        let (upto, last) = (grouped(of.upto), grouped(status.store.last));
        let entries = counted(of.entries, "entry has a vector", "entries have vectors");
        found.push_str(&format!("; {entries}, up to record {upto} of {last}"));
    }
    vec![Finding::ok(CHECK, found)]
}
