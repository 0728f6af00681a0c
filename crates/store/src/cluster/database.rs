//! A database that holds a journal: its connections, on a thread of their own, and short queries.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use cairn_types::ports::StoreError;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::client::{Connector, Session, answer};
use super::errors::failed;
use super::schema;
use crate::files::artifacts::hex;
use crate::options::DatabaseOptions;

/// A database, with the thread on which everything runs that talks to it.
pub(crate) struct Database {
    runtime: Option<Runtime>,
    pub(crate) options: DatabaseOptions,
    pub(crate) connector: Connector,
    /// For what is asked now and then.
    asked: tokio::sync::Mutex<Option<Session>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        // The last of its holders may be a task: nobody waits there.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Database {
    /// Connects, and sets up a database that is empty. Blocks.
    ///
    /// # Errors
    /// The url is wrong, the database does not answer, or a newer version wrote it.
    pub(crate) fn open(options: &DatabaseOptions) -> Result<Arc<Self>, StoreError> {
        let connector = Connector::of(&options.url)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("database")
            .enable_all()
            .build()
            .map_err(|error| failed("start a thread for it", error))?;
        let database = Arc::new(Self {
            runtime: Some(runtime),
            options: options.clone(),
            connector,
            asked: tokio::sync::Mutex::default(),
        });
        let first = database.clone();
        database.wait(async move {
            let mut session = first.connector.connect().await?;
            schema::migrate(&mut session).await?;
            *first.asked.lock().await = Some(session);
            Ok(())
        })?;
        Ok(database)
    }

    pub(crate) fn handle(&self) -> Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle().clone(),
            None => Handle::current(),
        }
    }

    /// Runs a future on the database's thread, and blocks until it is done. May be called on any thread but the database's own.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, done) = sync_channel(1);
        self.handle().spawn(async move {
            // Nobody waits any more: no error.
            drop(tell.send(work.await));
        });
        done.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a query that may run twice, and whose answer is short.
    ///
    /// # Errors
    /// The database does not answer, or refuses.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let database = self.clone();
        // On the database's thread, whose connections they are.
        let asked = self.handle().spawn(async move {
            let mut place = database.asked.lock().await;
            // The connection may have broken since it was used last.
            for is_last in [false, true] {
                let session = match place.take().filter(|session| !session.client.is_closed()) {
                    Some(session) => session,
                    None => database.connector.connect().await?,
                };
                let params: Vec<_> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                match answer(action, session.client.query(sql, &params)).await {
                    Err(_) if session.client.is_closed() && !is_last => {}
                    rows => {
                        if !session.client.is_closed() && rows.is_ok() {
                            *place = Some(session);
                        }
                        return rows;
                    }
                }
            }
            Err(failed(action, "the connection is lost"))
        });
        asked.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a query that may run twice, and whose answer is short. Blocks.
    pub(crate) fn ask_blocking(
        self: &Arc<Self>,
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let database = self.clone();
        self.wait(async move { database.ask(action, sql, params).await })
    }
}

/// A parameter of a query.
pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// A random UUID in text form.
pub(crate) fn new_id() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| failed("make an id", error))?;
    let hex = hex(&bytes);
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
