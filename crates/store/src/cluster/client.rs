//! Connections to the database, by its url.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::StoreError;
use tokio::sync::Notify;
use tokio_postgres::config::{LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config};

use super::errors::{failed, refused};
use super::tls::Tls;

/// A query whose answer is short is given up after so long.
pub(crate) const CALL: Duration = Duration::from_secs(5);

/// Whatever a server's defaults are: each statement sees what was committed before it, and is not cut short. One that waits
/// for a lock ends before this side gives it up: else the server keeps a connection for each that was given up.
const SETTINGS: &str = "SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0; \
                        SET lock_timeout = '4s'; SET client_min_messages = warning";

/// How long a host may take to accept, where there are others.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(1);

/// How to connect.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<Config>,
    tls: Tls,
}

/// A connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The database says that something was appended.
    pub(crate) hint: Arc<Notify>,
}

impl Connector {
    /// # Errors
    /// The url cannot be read. What is in it is not told.
    pub(crate) fn of(url: &str) -> Result<Self, StoreError> {
        let (url, roots) = without_param(url, "sslrootcert");
        let (url, is_verified) = match url.contains("sslmode=verify-full") {
            true => (url.replace("sslmode=verify-full", "sslmode=require"), true),
            false => (url, roots.is_some()),
        };
        let mut config: Config = url.parse().map_err(|_secret: tokio_postgres::Error| {
            failed(
                "read its url",
                "write postgres://USER@HOST:PORT/DATABASE, with special characters percent-encoded; sslmode is disable, \
                 prefer, require or verify-full",
            )
        })?;
        config
            .application_name("cairn")
            .tcp_user_timeout(CALL)
            .keepalives_idle(Duration::from_secs(10))
            // Of several hosts the one that is no standby.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            // One that accepts and says nothing would be asked first for ever.
            .load_balance_hosts(LoadBalanceHosts::Random);
        config.connect_timeout(if config.get_hosts().len() > 1 { ONE_OF_SEVERAL } else { CALL });
        let wanted = config.get_ssl_mode() != SslMode::Disable;
        let tls = Tls::new(is_verified && wanted, roots.as_deref())?;
        Ok(Self { config: Arc::new(config), tls })
    }

    /// # Errors
    /// The database does not answer, or refuses the user.
    pub(crate) async fn connect(&self) -> Result<Session, StoreError> {
        let opened = async {
            let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
            let hint = Arc::<Notify>::default();
            let told = hint.clone();
            // Ends with the client.
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if matches!(message, AsyncMessage::Notification(_)) {
                        told.notify_one();
                    }
                }
                told.notify_one();
            });
            client.batch_execute(SETTINGS).await?;
            Ok(Session { client, hint })
        };
        match tokio::time::timeout(2 * CALL, opened).await {
            Ok(opened) => opened.map_err(|error| refused("connect to it", &error)),
            Err(_) => Err(failed("connect to it", "it does not answer")),
        }
    }
}

/// Waits for the answer to a question that is not long.
pub(crate) async fn answer<T>(
    action: &str,
    question: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(CALL, pin!(question)).await {
        Ok(answer) => answer.map_err(|error| refused(action, &error)),
        Err(_) => Err(failed(action, "it does not answer")),
    }
}

/// A url without a parameter, and what that was.
fn without_param(url: &str, name: &str) -> (String, Option<String>) {
    let Some((head, params)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut found = None;
    let mut kept = Vec::new();
    for param in params.split('&') {
        match param.split_once('=') {
            Some((key, value)) if key == name => {
                found = Some(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned());
            }
            _ => kept.push(param),
        }
    }
    (if kept.is_empty() { head.to_owned() } else { format!("{head}?{}", kept.join("&")) }, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_what_is_in_it() {
        for url in [
            "postgres://u:hush@h:hush/d",
            "postgres://u:hush@h/d?hush=1",
            "hush",
            "postgres://h/d?sslmode=hush",
        ] {
            let error = Connector::of(url).err().unwrap().to_string();
            assert!(error.contains("percent-encoded") && !error.contains("hush"), "{error}");
        }
        for mode in ["disable", "prefer", "require", "verify-full"] {
            assert!(Connector::of(&format!("postgres://u:p@h/d?sslmode={mode}")).is_ok(), "{mode}");
        }
        let error =
            Connector::of("postgres://h/d?sslmode=verify-full&sslrootcert=%2Fno%2Fsuch").err().unwrap();
        assert!(error.to_string().contains("sslrootcert"), "{error}");
    }

    #[test]
    fn a_parameter_is_taken_out_of_a_url() {
        let taken = without_param("postgres://h/d?a=1&sslrootcert=%2Fx%20y&b=2", "sslrootcert");
        assert_eq!(taken, ("postgres://h/d?a=1&b=2".to_owned(), Some("/x y".to_owned())));
        assert_eq!(without_param("postgres://h/d", "sslrootcert").0, "postgres://h/d");
    }
}
