//! The search service: whether it answers a search.

use cairn_server::parts::tools::search_settings;
use cairn_tools::search::{Search, SearchError};
use std::sync::Arc;

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;

const CHECK: &str = "search";

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(mut settings) = x.loaded.as_ref().and_then(search_settings) else { return Vec::new() };
    settings.timeout = settings.timeout.min(x.limit);
    let search = match Search::new(settings, Arc::default()) {
        Ok(search) => search,
        Err(bad) => return vec![Finding::failed(CHECK, bad.to_string(), "correct [search]")],
    };
    if x.offline {
        return vec![Finding::skipped(CHECK, "not checked (--offline)")];
    }
    vec![match search.probe().await {
        Ok(n) => Finding::ok(CHECK, format!("the search service answers, with {n} results")),
        Err(error) => {
            let remedy = match error {
                SearchError::Limited => "wait, or use a larger plan of the service",
                SearchError::Unreachable | SearchError::Slow(_) => {
                    "check that it runs, and `base_url` of [search]"
                }
                _ => "correct [search], or the service's settings",
            };
            Finding::failed(CHECK, error.to_string(), remedy)
        }
    }]
}
