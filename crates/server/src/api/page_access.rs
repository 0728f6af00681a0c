//! Access to the page: one-time links, the sessions they open, and the scope of a session. Sessions outlast a restart: a file in the
//! state folder keeps the hash of each token, never the token.

use cairn_api::records::{PageLink, Scope};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platforms::private_file;
use cairn_types::ports::{Clock, StoreError};
use cairn_types::text::checksum::checksum;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use cairn_config::AdminConfig;

/// How long a link is valid.
const LINK_LASTS: SignedDuration = SignedDuration::from_mins(10);

/// How long a session lasts.
pub const SESSION_LASTS: SignedDuration = SignedDuration::from_hours(12);

/// Most unused links; beyond it the oldest is dropped.
const LINKS: usize = 16;

/// Most sessions; beyond it the oldest is logged out.
const SESSIONS: usize = 32;

/// The file of the state folder that keeps the sessions. Its name does not end as those that a node hands to the next leader.
const FILE: &str = "page-logins.json";

/// The code of a link, or the hash of a session's token.
#[derive(Clone, Serialize, Deserialize)]
struct Key {
    secret: String,
    scope: Scope,
    until: Timestamp,
}

impl Key {
    fn is(&self, given: &str) -> bool {
        is_same_secret(&self.secret, given)
    }
}

/// Compares in constant time for texts of equal length.
pub(crate) fn is_same_secret(secret: &str, given: &str) -> bool {
    let differing = |sum, (a, b): (u8, u8)| sum | (a ^ b);
    secret.len() == given.len() && secret.bytes().zip(given.bytes()).fold(0, differing) == 0
}

/// Links and sessions, limited in number and lifetime.
#[derive(Default)]
struct Keys {
    links: VecDeque<Key>,
    sessions: VecDeque<Key>,
}

impl Keys {
    fn offer(&mut self, code: String, scope: Scope, now: Timestamp) -> Timestamp {
        self.forget_old(now);
        let until = now + LINK_LASTS;
        keep(&mut self.links, Key { secret: code, scope, until }, LINKS);
        until
    }

    /// Exchanges a link's code for a session. The code is then invalid.
    fn enter(&mut self, code: &str, token: &str, now: Timestamp) -> Option<Scope> {
        self.forget_old(now);
        let idx = self.links.iter().position(|link| link.is(code))?;
        let Key { scope, .. } = self.links.remove(idx)?;
        let secret = hash(token);
        keep(&mut self.sessions, Key { secret, scope, until: now + SESSION_LASTS }, SESSIONS);
        Some(scope)
    }

    fn scope(&mut self, token: &str, now: Timestamp) -> Option<Scope> {
        self.forget_old(now);
        let hash = hash(token);
        self.sessions.iter().find(|session| session.is(&hash)).map(|session| session.scope)
    }

    fn leave(&mut self, token: &str) {
        let hash = hash(token);
        self.sessions.retain(|session| !session.is(&hash));
    }

    fn forget_old(&mut self, now: Timestamp) {
        self.links.retain(|link| now < link.until);
        self.sessions.retain(|session| now < session.until);
    }
}

/// A token is random, so that its hash says nothing of it.
fn hash(token: &str) -> String {
    checksum(token.as_bytes())
}

fn keep(keys: &mut VecDeque<Key>, key: Key, most: usize) {
    keys.push_back(key);
    while keys.len() > most {
        keys.pop_front();
    }
}

/// Access to the page of this daemon.
pub struct Access {
    keys: Mutex<Keys>,
    /// Where sessions are kept; locked while it is written.
    file: Mutex<PathBuf>,
    clock: Arc<dyn Clock>,
    /// The address of the page for browsers.
    origin: String,
    /// The proxy's address, if one is configured.
    proxy: Option<String>,
    /// The name of the cookie. Browsers send cookies to all ports of a host, so each daemon has its own name.
    cookie: String,
}

impl Access {
    /// With the sessions that the state folder keeps. `None`: the page is disabled.
    pub fn of(admin: &AdminConfig, state: &Path, clock: Arc<dyn Clock>) -> Option<Arc<Self>> {
        let address = admin.page.then(|| admin.address()).flatten()?;
        let origin = admin.proxy.clone().unwrap_or_else(|| format!("http://{address}"));
        let (proxy, cookie) = (admin.proxy.clone(), format!("cairn_{}", address.port()));
        let file = state.join(FILE);
        let keys = Mutex::new(Keys { links: VecDeque::new(), sessions: kept(&file) });
        Some(Arc::new(Self { keys, file: Mutex::new(file), clock, origin, proxy, cookie }))
    }

    /// Creates a link that logs in one browser.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn link(&self, scope: Scope) -> Result<PageLink, StoreError> {
        let code = random::<16>()?;
        let until = self.keys.lock().offer(code.clone(), scope, self.clock.now());
        let page = format!("{}/login", self.origin);
        Ok(PageLink { url: format!("{page}#{code}"), page, code, scope, until })
    }

    /// Opens a session with a link's code, and writes it down. Returns its token; `None`: the code is not valid.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn enter(&self, code: &str) -> Result<Option<(String, Scope)>, StoreError> {
        let token = random::<32>()?;
        let scope = self.keys.lock().enter(code, &token, self.clock.now());
        if scope.is_some() {
            self.write();
        }
        Ok(scope.map(|scope| (token, scope)))
    }

    pub fn scope(&self, token: &str) -> Option<Scope> {
        self.keys.lock().scope(token, self.clock.now())
    }

    /// Ends a session, also in the file.
    pub fn leave(&self, token: &str) {
        self.keys.lock().leave(token);
        self.write();
    }

    /// Without the file all are logged out at the next start, which is safe.
    fn write(&self) {
        let file = self.file.lock();
        let sessions = self.keys.lock().sessions.clone();
        if let Err(error) = save(&file, &sessions) {
            tracing::warn!(%error, file = %file.display(),
                "the page's logins cannot be saved; a restart logs everybody out");
            drop(fs::remove_file(&*file));
        }
    }

    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Whether a page of this origin may make changes: only our own page, reached under `host` or through the proxy.
    pub fn is_own(&self, origin: &str, host: &str) -> bool {
        self.proxy.as_deref() == Some(origin)
            || origin.strip_prefix("http://").is_some_and(|named| named.eq_ignore_ascii_case(host))
    }

    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Whether it is the origin of the proxy with TLS. A port that a container publishes has none.
    pub fn is_proxied(&self, origin: &str) -> bool {
        origin.starts_with("https://") && self.proxy.as_deref() == Some(origin)
    }
}

/// The host names that are accepted while the page is enabled: the address itself and the proxy's.
pub fn names(admin: &AdminConfig, address: SocketAddr) -> Vec<String> {
    let local = address.ip().is_loopback().then(|| format!("localhost:{}", address.port()));
    let proxy =
        admin.proxy.as_deref().and_then(|origin| origin.split_once("://")).map(|(_, host)| host.to_owned());
    [Some(address.to_string()), local, proxy].into_iter().flatten().collect()
}

/// The sessions that a file keeps. None where it cannot be read: they log in again.
fn kept(file: &Path) -> VecDeque<Key> {
    let read = fs::read(file).and_then(|bytes| Ok(serde_json::from_slice::<VecDeque<Key>>(&bytes)?));
    let mut sessions = read.unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(%error, file = %file.display(),
                "the page's saved logins cannot be read; everybody is logged out");
        }
        VecDeque::new()
    });
    // The oldest come first.
    sessions.drain(..sessions.len().saturating_sub(SESSIONS));
    sessions
}

fn save(file: &Path, sessions: &VecDeque<Key>) -> io::Result<()> {
    private_file::write(file, &serde_json::to_vec(sessions)?)
}

fn random<const N: usize>() -> Result<String, StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Io {
        action: "make a secret for",
        path: "the page".to_owned(),
        message: error.to_string(),
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 60 * minutes).unwrap()
    }

    #[test]
    fn the_file_of_logins_is_none_of_those_that_are_handed_to_the_next_leader() {
        assert!(!FILE.ends_with("-sessions.json"));
    }

    #[test]
    fn a_link_works_once_and_for_ten_minutes() {
        let mut keys = Keys::default();
        keys.offer("a".to_owned(), Scope::Read, at(0));
        keys.offer("b".to_owned(), Scope::Operate, at(0));
        assert_eq!(keys.enter("c", "t", at(1)), None, "nobody offered it");
        assert_eq!(keys.scope("t", at(1)), None);
        assert_eq!(keys.enter("a", "t", at(9)), Some(Scope::Read));
        assert_eq!(keys.scope("t", at(9)), Some(Scope::Read));
        assert_eq!(keys.enter("a", "u", at(9)), None, "it was used");
        assert_eq!(keys.enter("b", "u", at(10)), None, "it is too old");
    }

    #[test]
    fn a_session_ends_after_its_time_and_when_left() {
        let mut keys = Keys::default();
        for name in ["a", "b"] {
            keys.offer(name.to_owned(), Scope::Operate, at(0));
            keys.enter(name, &format!("of {name}"), at(0));
        }
        keys.leave("of a");
        assert_eq!(keys.scope("of a", at(1)), None);
        assert_eq!(keys.scope("of b", at(12 * 60 - 1)), Some(Scope::Operate));
        assert_eq!(keys.scope("of b", at(12 * 60)), None);
        assert!(keys.sessions.is_empty() && keys.links.is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn links_and_sessions_are_bounded_and_the_oldest_give_way() {
        let mut keys = Keys::default();
        for n in 0..=SESSIONS {
            keys.offer(n.to_string(), Scope::Operate, at(0));
            keys.enter(&n.to_string(), &format!("of {n}"), at(0));
        }
        assert_eq!(keys.sessions.len(), SESSIONS);
        assert_eq!((keys.scope("of 0", at(1)), keys.scope("of 1", at(1))), (None, Some(Scope::Operate)));
        for n in 0..=LINKS {
            keys.offer(n.to_string(), Scope::Operate, at(0));
        }
        assert_eq!(keys.links.len(), LINKS);
        assert_eq!(keys.enter("0", "t", at(1)), None);
    }

    #[test]
    fn sessions_are_read_again_and_the_file_has_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(kept(&file).is_empty(), "there is none yet");
        let mut keys = Keys::default();
        keys.offer("a".to_owned(), Scope::Read, at(0));
        keys.enter("a", "the-token", at(0));
        save(&file, &keys.sessions).unwrap();
        assert!(!fs::read_to_string(&file).unwrap().contains("the-token"));
        let mut again = Keys { sessions: kept(&file), ..Keys::default() };
        assert_eq!(again.scope("the-token", at(1)), Some(Scope::Read));
        let hash = keys.sessions[0].secret.clone();
        assert_eq!(again.scope(&hash, at(1)), None, "what the file says opens nothing");
        fs::write(&file, "damaged").unwrap();
        assert!(kept(&file).is_empty());
    }
}
