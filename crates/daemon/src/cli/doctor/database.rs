//! The database that several machines share: whether it answers, may be used, keeps what it commits, and who leads.

use cairn_store::{DatabaseReport, report_on};

use super::report::Finding;
use super::{Examination, problem_of};
use crate::cli::failure::Failure;
use crate::node::AWAKE_SECS;
use crate::text::counted;
use crate::wiring::store_options;

/// The oldest server that this is tested with.
const MAJOR_MIN: u32 = 15;

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Ok(connector) = x.connector() else { return Vec::new() };
    let options = match store_options(&connector.loaded, &connector.state) {
        Ok(options) => options.database,
        Err(error) => return error.problems.iter().map(|problem| problem_of("database", problem)).collect(),
    };
    let Some(options) = options else { return Vec::new() };
    match tokio::time::timeout(x.limit, report_on(&options)).await {
        Ok(Ok(report)) => found(&report),
        Ok(Err(error)) => match Failure::of_store(error) {
            Failure::Said { message, hint, .. } => vec![Finding::failed("database", message, hint)],
            Failure::Silent(_) | Failure::OutputClosed => Vec::new(),
        },
        Err(_) => vec![Finding::failed(
            "database",
            "the database does not answer",
            "see that the host and port of [store] url lead to it",
        )],
    }
}

fn found(report: &DatabaseReport) -> Vec<Finding> {
    let server = format!("PostgreSQL {}", report.version);
    if report.encoding != "UTF8" {
        let found = format!("{server} answers; the database has the encoding {}", report.encoding);
        return vec![Finding::failed("database", found, "make another one with ENCODING 'UTF8'")];
    }
    let state = match &report.nodes {
        None => "it is empty, and set up by the first `cairn run`".to_owned(),
        Some(nodes) => {
            let leader = nodes.iter().find(|node| node.leads).map(|node| node.node.name.as_str());
            let others = nodes.iter().filter(|node| !node.leads && node.silent_secs <= AWAKE_SECS).count();
            let leader = leader.map_or_else(|| "no node leads".to_owned(), |name| format!("{name} leads"));
            format!("{leader}, {}", counted(others as u64, "node stands by", "nodes stand by"))
        }
    };
    let mut findings = vec![Finding::ok("database", format!("{server} answers; {state}"))];
    if report.major < MAJOR_MIN {
        let found = format!("{server} is older than {MAJOR_MIN}, the oldest that Cairn is tested with");
        findings.push(Finding::warning("database", found, "move to a newer server"));
    }
    if !report.is_synced {
        findings.push(Finding::warning(
            "database",
            "it acknowledges commits before they are on a disk: a crash of the server loses messages",
            "set `synchronous_commit = on` and `fsync = on` there",
        ));
    }
    findings
}
