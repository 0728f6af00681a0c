//! The tables, by versions: what a database lacks is added when it is opened.

use cairn_types::ports::StoreError;

use super::client::Session;
use super::errors::{failed, refused};

/// The steps, each from the version before it. What is there is never changed: a step is added.
const STEPS: [&str; 3] =
    [include_str!("schema-1.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];

/// The version that this program writes, and the newest that it knows.
const FORMAT: i32 = STEPS.len() as i32;

/// Nodes that open a new database at once do so one after the other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('cairn', 0))";

/// Brings the tables to this version, all or none.
///
/// # Errors
/// [`StoreError::Newer`], with nothing touched; the user may not make tables.
pub(super) async fn migrate(session: &mut Session) -> Result<(), StoreError> {
    let fail = |error: tokio_postgres::Error| refused("set up its tables", &error);
    let work = session.client.transaction().await.map_err(fail)?;
    work.batch_execute(LOCK).await.map_err(fail)?;
    let encoding: String = work.query_one("SHOW server_encoding", &[]).await.map_err(fail)?.get(0);
    if encoding != "UTF8" {
        return Err(failed(
            "use it",
            format!(
                "its encoding is {encoding}, which does not have every letter; make one with ENCODING 'UTF8'"
            ),
        ));
    }
    let row = work.query_one("SELECT to_regclass('cairn_journal') IS NOT NULL", &[]).await.map_err(fail)?;
    let format = match row.get::<_, bool>(0) {
        false => 0,
        true => {
            let row =
                work.query_one("SELECT format, written_by FROM cairn_journal", &[]).await.map_err(fail)?;
            let (format, written_by): (i32, String) = (row.get(0), row.get(1));
            if format > FORMAT {
                return Err(StoreError::Newer {
                    path: "the database".to_owned(),
                    format: format as u32,
                    written_by,
                    known: FORMAT as u32,
                });
            }
            format
        }
    };
    if format == FORMAT {
        return Ok(());
    }
    for step in &STEPS[format as usize..] {
        work.batch_execute(step).await.map_err(fail)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let marked = if format == 0 {
        "INSERT INTO cairn_journal (format, written_by) VALUES ($1, $2)"
    } else {
        "UPDATE cairn_journal SET format = $1, written_by = $2"
    };
    work.execute(marked, &[&FORMAT, &version]).await.map_err(fail)?;
    work.commit().await.map_err(fail)?;
    tracing::info!(from = format, to = FORMAT, "the database's tables were set up");
    Ok(())
}
