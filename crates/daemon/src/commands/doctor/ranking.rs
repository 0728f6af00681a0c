//! The models that rank search results: whether each answers, and how many entries have vectors.

use cairn_api::records::StatusRecord;
use cairn_api::text::{counted, grouped};
use tokio::time::timeout;

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;
use crate::wiring::{BadRanking, embedder, reranker};

const EMBEDDINGS: &str = "embeddings";
const RERANK: &str = "rerank";

/// A text that says something and takes little time.
const TRIED: &str = "Where does Anna live?";

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Ok(connector) = x.connector() else { return Vec::new() };
    let config = &connector.loaded.config;
    let mut findings = Vec::new();
    if config.embeddings.folder.is_some() || config.embeddings.model.is_some() {
        findings.push(match x.offline && config.embeddings.model.is_some() {
            true => Finding::skipped(EMBEDDINGS, "not checked (--offline)"),
            false => embeds(x).await.unwrap_or_else(|why| failed(EMBEDDINGS, &why)),
        });
    }
    if config.rerank.model.is_some() {
        findings.push(match x.offline {
            true => Finding::skipped(RERANK, "not checked (--offline)"),
            false => reranks(x).await.unwrap_or_else(|why| failed(RERANK, &why)),
        });
    }
    findings
}

async fn embeds(x: &Examination) -> Result<Finding, String> {
    let connector = x.connector().map_err(|_| "there is no configuration".to_owned())?;
    let loaded = connector.loaded.clone();
    let tried = tokio::task::spawn_blocking(move || -> Result<_, BadRanking> {
        let Some(model) = embedder(&loaded)? else { return Ok(None) };
        let made = model.embed(&[TRIED]).map_err(BadRanking::Embeddings)?;
        Ok(made.first().map(|vector| (model.model().to_owned(), vector.len())))
    });
    let tried = timeout(x.limit, tried).await.map_err(|_| late(x))?;
    let tried = tried.map_err(|_panic| "reading the model panicked".to_owned())?;
    let (model, numbers) = tried.map_err(|error| error.to_string())?.unwrap_or_default();
    let mut found = format!("{model} makes vectors of {numbers} numbers");
    if let Ok(Some(client)) = connector.running().await
        && let Ok(status) = client.get::<StatusRecord>("/v1/status").await
        && let Some(of) = status.store.embedded
    {
        let (upto, last) = (grouped(of.upto), grouped(status.store.last));
        let entries = counted(of.entries, "entry has a vector", "entries have vectors");
        found.push_str(&format!("; {entries}, up to record {upto} of {last}"));
    }
    Ok(Finding::ok(EMBEDDINGS, found))
}

async fn reranks(x: &Examination) -> Result<Finding, String> {
    let connector = x.connector().map_err(|_| "there is no configuration".to_owned())?;
    let model = reranker(&connector.loaded).map_err(|error| error.to_string())?;
    let texts = vec!["Anna lives in Lisbon.".to_owned(), "It rains.".to_owned()];
    if let Some(model) = model {
        let scores = timeout(x.limit, model.rerank(TRIED.to_owned(), texts)).await.map_err(|_| late(x))?;
        scores.map_err(|why| BadRanking::Rerank(why).to_string())?;
    }
    Ok(Finding::ok(RERANK, "the server compares texts"))
}

fn late(x: &Examination) -> String {
    format!("no answer within {} s", x.limit.as_secs())
}

fn failed(check: &str, why: &str) -> Finding {
    let remedy = format!("correct [{check}], or leave it out: searches then go by words");
    Finding::failed(check, why, remedy)
}
