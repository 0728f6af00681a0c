//! Artifacts in the database: whole there before the journal names them, and fetched by a node that lacks the file.

use std::sync::Arc;

use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::ports::StoreError;

use super::database::{Database, Param};
use super::lease::Lease;
use crate::files::artifacts::ArtifactSource;

/// Bytes of one row.
const PART: usize = 1 << 20;

/// Whoever leads no longer writes none: its ids are another's by then.
const PUT: &str = "WITH head AS (SELECT FROM cairn_journal WHERE lease = $1::text::uuid FOR SHARE), \
     gone AS (DELETE FROM cairn_artifact WHERE channel = $2 AND id = $3 AND part > $4 AND EXISTS (SELECT FROM head)) \
     INSERT INTO cairn_artifact (channel, id, part, bytes) \
     SELECT $2, $3, part, bytes FROM head, unnest($5::bytea[]) WITH ORDINALITY AS p (bytes, part) \
     ON CONFLICT (channel, id, part) DO UPDATE SET bytes = excluded.bytes RETURNING part";

const GET: &str = "SELECT bytes FROM cairn_artifact WHERE channel = $1 AND id = $2 ORDER BY part";

const IDS: &str = "SELECT DISTINCT id FROM cairn_artifact WHERE channel = $1";

const REMOVE: &str = "DELETE FROM cairn_artifact WHERE channel = $1 AND id = ANY($2) \
     AND EXISTS (SELECT FROM cairn_journal WHERE lease = $3::text::uuid)";

impl Database {
    /// # Errors
    /// [`StoreError::Fenced`]; the database does not answer.
    pub(crate) async fn put_artifact(
        self: &Arc<Self>,
        lease: &Lease,
        (channel, id): (&ChannelId, &ArtifactId),
        content: &[u8],
    ) -> Result<(), StoreError> {
        let parts: Vec<Vec<u8>> = parts(content).into_iter().map(<[u8]>::to_vec).collect();
        let last = parts.len() as i64;
        let params: Vec<Param> = vec![
            Box::new(lease.id().to_owned()),
            Box::new(channel.to_string()),
            Box::new(id.to_string()),
            Box::new(last as i32),
            Box::new(parts),
        ];
        let written = self.ask("write an artifact", PUT, params).await?;
        if written.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// # Errors
    /// The database does not answer.
    pub(crate) async fn artifact_ids(
        self: &Arc<Self>,
        channel: &ChannelId,
    ) -> Result<Vec<ArtifactId>, StoreError> {
        let rows = self.ask("list artifacts", IDS, vec![Box::new(channel.to_string())]).await?;
        Ok(rows.iter().map(|row| ArtifactId::from(row.get::<_, &str>(0))).collect())
    }

    /// # Errors
    /// The database does not answer; they go with the next ones.
    pub(crate) async fn remove_artifacts(
        self: &Arc<Self>,
        lease: &Lease,
        channel: &ChannelId,
        ids: &[ArtifactId],
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let params: Vec<Param> =
            vec![Box::new(channel.to_string()), Box::new(ids), Box::new(lease.id().to_owned())];
        self.ask("remove artifacts", REMOVE, params).await.map(drop)
    }
}

impl ArtifactSource for Database {
    fn artifact(
        self: Arc<Self>,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let params: Vec<Param> = vec![Box::new(channel.to_string()), Box::new(id.to_string())];
        let rows = self.ask_blocking("read an artifact", GET, params)?;
        let bytes = rows.iter().map(|row| row.get::<_, &[u8]>(0)).collect::<Vec<_>>().concat();
        Ok((!rows.is_empty()).then_some(bytes))
    }
}

/// Bytes as rows hold them; at least one row tells that there is an artifact.
pub(super) fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    if bytes.is_empty() { vec![bytes] } else { bytes.chunks(PART).collect() }
}
