//! The shared database: whether it answers, can be used and keeps commits, and which node leads.

use cairn_store::{DatabaseOptions, DatabaseReport, report_on};
use cairn_types::ports::NodeRow;

use crate::commands::doctor::report::Finding;
use crate::commands::doctor::{Examination, problem_of};
use crate::wiring::store_options;
use cairn_api::records::AWAKE_SECS;
use cairn_api::text::counted;
use cairn_cli::failure::Failure;

/// The oldest PostgreSQL version that is tested.
const MAJOR_MIN: u32 = 15;

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Ok(connector) = x.connector() else { return Vec::new() };
    let options = match store_options(&connector.loaded, &connector.state) {
        Ok(options) => options.database,
        Err(error) => return error.problems.iter().map(|problem| problem_of("database", problem)).collect(),
    };
    let Some(options) = options else { return Vec::new() };
    match tokio::time::timeout(x.limit, report_on(&options)).await {
        Ok(Ok(report)) => found(&report).into_iter().chain(namesake(&report, &options)).collect(),
        Ok(Err(error)) => match Failure::of_store(error) {
            Failure::Said { message, hint, .. } => vec![Finding::failed("database", message, hint)],
            Failure::Silent(_) | Failure::OutputClosed => Vec::new(),
        },
        Err(_) => vec![Finding::failed(
            "database",
            "the database does not answer",
            "check the host and port in [store] url",
        )],
    }
}

/// A warning if another process uses this node's name.
fn namesake(report: &DatabaseReport, own: &DatabaseOptions) -> Option<Finding> {
    let is_other = |row: &&NodeRow| {
        row.node.name == own.node && row.node.address != own.address && row.silent_secs <= AWAKE_SECS
    };
    let row = report.nodes.iter().flatten().find(is_other)?;
    let found = format!("{} at {} has the same name as this node", row.node.name, row.node.address);
    Some(Finding::warning("database", found, "give one of them another name with `node` under [store]"))
}

fn found(report: &DatabaseReport) -> Vec<Finding> {
    let server = format!("PostgreSQL {}", report.version);
    if report.encoding != "UTF8" {
        let found = format!("{server} answers; the database has the encoding {}", report.encoding);
        return vec![Finding::failed("database", found, "create another one with ENCODING 'UTF8'")];
    }
    if report.nodes.is_none() && !report.may_create {
        let found =
            format!("{server} answers; the database is empty, and this account may not create tables there");
        let remedy = "make the account in [store] url the owner of the database: ALTER DATABASE … OWNER TO …";
        return vec![Finding::failed("database", found, remedy)];
    }
    let state = match &report.nodes {
        None => "it is empty; the first `cairn run` sets it up".to_owned(),
        Some(nodes) => {
            let leader = nodes.iter().find(|node| node.leads).map(|node| node.node.name.as_str());
            let others = nodes.iter().filter(|node| !node.leads && node.silent_secs <= AWAKE_SECS).count();
            let leader = leader.map_or_else(|| "no node leads".to_owned(), |name| format!("{name} leads"));
            format!("{leader}, {}", counted(others as u64, "standby", "standbys"))
        }
    };
    let mut findings = vec![Finding::ok("database", format!("{server} answers; {state}"))];
    if report.major < MAJOR_MIN {
        let found =
            format!("{server} is older than {MAJOR_MIN}, the oldest version that Cairn is tested with");
        findings.push(Finding::warning("database", found, "upgrade the server"));
    }
    if !report.is_synced {
        findings.push(Finding::warning(
            "database",
            "it acknowledges commits before they are on disk: a server crash loses messages",
            "set `synchronous_commit = on` and `fsync = on` there",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use cairn_types::ports::Node;
    use jiff::Timestamp;

    use super::*;
    use crate::commands::doctor::report::Mark;

    fn report(nodes: Option<Vec<NodeRow>>) -> DatabaseReport {
        let (version, encoding) = ("15.18".to_owned(), "UTF8".to_owned());
        DatabaseReport { version, major: 15, encoding, is_synced: true, may_create: true, nodes }
    }

    #[test]
    fn an_account_that_may_not_create_tables_in_an_empty_database_is_told_before_a_start() {
        assert_eq!(found(&report(None))[0].state, Mark::Ok);
        let refused = &found(&DatabaseReport { may_create: false, ..report(None) })[0];
        assert_eq!(refused.state, Mark::Failed);
        assert!(refused.finding.contains("may not create tables"), "{}", refused.finding);
        // Somebody else has made them.
        assert_eq!(
            found(&DatabaseReport { may_create: false, ..report(Some(Vec::new())) })[0].state,
            Mark::Ok
        );
    }

    #[test]
    fn a_second_node_of_the_same_name_is_told() {
        let own = |address: &str| DatabaseOptions {
            url: "postgres://h/d".into(),
            node: "north".to_owned(),
            address: address.to_owned(),
        };
        let row = |silent_secs| NodeRow {
            node: Node { name: "north".to_owned(), address: "one:/s".to_owned() },
            version: "1".to_owned(),
            n: 1,
            seen_at: Timestamp::UNIX_EPOCH,
            silent_secs,
            leads: false,
        };
        assert!(namesake(&report(Some(vec![row(1)])), &own("two:/s")).is_some());
        assert!(namesake(&report(Some(vec![row(1)])), &own("one:/s")).is_none());
        assert!(namesake(&report(Some(vec![row(60)])), &own("two:/s")).is_none());
    }
}
