//! Sessions that survive a planned restart of the daemon.
//!
//! While the adapter runs, each shard records the last event before which everything is with the runtime. At a stop
//! these positions are written to a file, with data that Discord sends only when a session starts: the bot's identity
//! and the places of channels. The next start removes the file and resumes. After a crash there is no file: new
//! sessions start, and missed messages are read per channel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_types::text::checksum::checksum;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::frame::{Application, INTENTS, Me};
use super::shard::Session;
use super::{Addresses, Shard};
use crate::discord::places::{Known, Places};
use crate::private_file;

/// Discord drops a session some minutes after its connection ended; older ones are not tried.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(10);

/// The bot's identity, from the first event of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::discord) struct Bot {
    pub(in crate::discord) user: Me,
    pub(in crate::discord) application: Application,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    id: String,
    /// All events up to this one are with the runtime. `None`: messages from before the session are still being read;
    /// only a new session reads them again.
    seq: Option<u64>,
    /// The last event that this run received.
    #[serde(skip)]
    heard: Option<u64>,
    address: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    n_shards: u32,
    bot: Option<Bot>,
    by_shard: BTreeMap<u32, Kept>,
}

#[derive(Serialize, Deserialize)]
struct File {
    /// Hash of API, token and intents: sessions are valid only for these.
    bot_hash: String,
    at: Timestamp,
    /// The journal's last record at the stop. After a restore the journal may be older, and resumed sessions would not
    /// repeat what it lacks: then the file is not used.
    #[serde(default)]
    last_record: u64,
    sessions: State,
    places: Known,
}

/// The sessions of all shards, for resumption by the next run.
pub(in crate::discord) struct Sessions {
    platform: &'static str,
    /// `None`: sessions are not kept.
    path: Option<PathBuf>,
    bot_hash: String,
    /// The journal's last record at the start.
    last_record: u64,
    state: Mutex<State>,
}

impl Sessions {
    pub(in crate::discord) fn new(
        platform: &'static str,
        path: Option<PathBuf>,
        token: &SecretString,
        addresses: &Addresses,
        last_record: u64,
    ) -> Self {
        let text = format!("{}\n{}\n{}", addresses.api(), token.expose_secret(), INTENTS.bits());
        let bot_hash = checksum(text.as_bytes());
        Self { platform, path, bot_hash, last_record, state: Mutex::default() }
    }

    /// Loads what the previous run kept, once; replaces the current state.
    pub(in crate::discord) fn take_up(&self, places: &Places, now: Timestamp) {
        let read = self.path.as_deref().map_or(Ok(None), |path| self.read(path, now));
        let file = read.unwrap_or_else(|error| {
            tracing::warn!(platform = self.platform, %error, "saved sessions cannot be read; new ones start");
            None
        });
        *self.state.lock() = match file {
            Some(file) => {
                places.restore(file.places);
                file.sessions
            }
            None => State::default(),
        };
    }

    /// Reads and removes the file, which would be wrong after the first event. `None` if it belongs to another bot or a
    /// newer journal; from a file older than [`AGE_MAX`] only the unread channels remain.
    fn read(&self, path: &Path, now: Timestamp) -> std::io::Result<Option<File>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        std::fs::remove_file(path)?;
        let file: File = serde_json::from_slice(&bytes)?;
        let age = now.duration_since(file.at);
        let is_young = age >= SignedDuration::ZERO && age <= AGE_MAX;
        let fits = file.bot_hash == self.bot_hash && file.last_record <= self.last_record;
        Ok(fits.then(|| match is_young {
            true => file,
            false => File { sessions: State::default(), places: file.places.lasting(), ..file },
        }))
    }

    /// Writes the resumable sessions to the file for the next start.
    pub(in crate::discord) fn keep(&self, places: &Places, last_record: u64, now: Timestamp) {
        let mut sessions = std::mem::take(&mut *self.state.lock());
        sessions.by_shard.retain(|_, kept| kept.seq.is_some());
        let (n_sessions, places) = (sessions.by_shard.len(), places.known_now());
        let is_worth_it = n_sessions > 0 || places.has_lasting();
        let Some(path) = self.path.as_deref().filter(|_| is_worth_it) else { return };
        let file = File { bot_hash: self.bot_hash.clone(), at: now, last_record, sessions, places };
        let written = serde_json::to_vec(&file).map_err(std::io::Error::from);
        match written.and_then(|bytes| private_file::write(path, &bytes)) {
            Ok(()) => {
                tracing::info!(platform = self.platform, n_sessions, "sessions were saved for the next start")
            }
            Err(error) => {
                tracing::warn!(platform = self.platform, %error,
                    "sessions cannot be saved; the next start begins new ones");
            }
        }
    }

    /// The session that a shard may resume, and its bot. Sessions for another number of shards are dropped.
    pub(super) fn of(&self, shard: Shard, addresses: &Addresses) -> Option<(Session, Bot)> {
        let state = &mut *self.state.lock();
        if state.n_shards != shard.of {
            state.by_shard.clear();
        }
        let kept = state.by_shard.get(&shard.id)?;
        let address = addresses.resume(&kept.address).ok()?;
        Some((Session { id: kept.id.clone(), seq: kept.seq?, address }, state.bot.clone()?))
    }

    pub(super) fn began(&self, shard: Shard, session: &Session, bot: Bot) {
        let state = &mut *self.state.lock();
        if state.n_shards != shard.of {
            state.by_shard.clear();
            state.n_shards = shard.of;
        }
        state.bot = Some(bot);
        let address = session.address.to_string();
        let kept = Kept { id: session.id.clone(), seq: None, heard: None, address };
        state.by_shard.insert(shard.id, kept);
    }

    /// Records that the listener was given all events of the shard up to this one.
    pub(super) fn heard(&self, shard: Shard, seq: u64) {
        if let Some(kept) = self.state.lock().by_shard.get_mut(&shard.id) {
            kept.heard = Some(seq);
        }
    }

    /// If the listener has no work left, records that all events that it was given are with the runtime.
    pub(in crate::discord) fn settle(&self, is_idle: impl FnOnce() -> bool) {
        // Under the lock: no event is recorded between the question and its answer.
        let state = &mut *self.state.lock();
        if is_idle() {
            for kept in state.by_shard.values_mut() {
                kept.seq = kept.heard.or(kept.seq);
            }
        }
    }

    pub(super) fn ended(&self, shard: Shard) {
        self.state.lock().by_shard.remove(&shard.id);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;
    use crate::discord::DISCORD_API;

    const ONE: Shard = Shard { id: 0, of: 1 };
    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn addresses() -> Addresses {
        Addresses::new(DISCORD_API, None, None).expect("is sound")
    }

    fn sessions(path: &Path, token: &str) -> Sessions {
        of_journal(path, token, 7)
    }

    /// The sessions at a start, when the journal ends with this record.
    fn of_journal(path: &Path, token: &str, last_record: u64) -> Sessions {
        let (path, token) = (Some(path.to_owned()), SecretString::from(token));
        Sessions::new("discord", path, &token, &addresses(), last_record)
    }

    fn begun(path: &Path) -> Sessions {
        let sessions = sessions(path, "token");
        let address = "wss://gateway-1.discord.gg/".parse().expect("is an address");
        let bot = json!({"user": {"id": "7", "username": "cairn"}, "application": {"id": "8"}});
        let bot = serde_json::from_value(bot).expect("is a bot");
        sessions.began(ONE, &Session { id: "abc".to_owned(), seq: 1, address }, bot);
        sessions
    }

    fn keep(path: &Path) {
        let sessions = begun(path);
        sessions.heard(ONE, 41);
        sessions.settle(|| true);
        sessions.heard(ONE, 42);
        sessions.settle(|| false);
        sessions.keep(&Places::default(), 7, NOW);
    }

    fn found(path: &Path, token: &str, shard: Shard, minutes: i64) -> Option<u64> {
        let sessions = sessions(path, token);
        sessions.take_up(&Places::default(), NOW + SignedDuration::from_mins(minutes));
        sessions.of(shard, &addresses()).map(|(session, _)| session.seq)
    }

    #[test]
    fn a_session_is_taken_up_once_by_its_own_bot_and_while_it_is_young() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        let cases = [
            ("token", ONE, 5, Some(41)),
            ("other", ONE, 5, None),
            ("token", Shard { id: 0, of: 2 }, 5, None),
            ("token", ONE, 11, None),
            ("token", ONE, -1, None),
        ];
        for (token, shard, minutes, expected) in cases {
            keep(&path);
            assert_eq!(found(&path, token, shard, minutes), expected, "{token} {shard:?} {minutes}");
            assert_eq!(found(&path, "token", ONE, 5), None, "once");
        }
    }

    #[test]
    fn the_file_is_for_its_owner_alone_and_a_broken_one_costs_nothing_but_sessions() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        keep(&path);
        let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&path).expect("is text").contains("token"));
        std::fs::write(&path, "{").expect("can be written");
        assert_eq!(found(&path, "token", ONE, 5), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_session_that_ended_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        keep(&path);
        let sessions = sessions(&path, "token");
        sessions.take_up(&Places::default(), NOW);
        sessions.ended(ONE);
        sessions.keep(&Places::default(), 7, NOW);
        assert!(!path.exists());
    }

    #[test]
    fn a_session_whose_beginning_is_not_with_the_runtime_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        begun(&path).keep(&Places::default(), 7, NOW);
        assert!(!path.exists());
    }

    #[test]
    fn a_session_is_void_where_the_journal_ends_before_the_stop() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        for (last_record, is_found) in [(6, false), (7, true), (8, true)] {
            keep(&path);
            let sessions = of_journal(&path, "token", last_record);
            sessions.take_up(&Places::default(), NOW);
            assert_eq!(sessions.of(ONE, &addresses()).is_some(), is_found, "{last_record}");
        }
    }

    #[test]
    fn what_could_not_be_read_outlives_its_session() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("sessions.json");
        let (places, channel) = (Places::default(), serenity::all::ChannelId::new(20));
        places.set_unread(channel, 5);
        places.set_heard(channel, 9);
        begun(&path).keep(&places, 7, NOW);
        let places = Places::default();
        sessions(&path, "token").take_up(&places, NOW + SignedDuration::from_hours(2));
        assert_eq!((places.unread(|_, _| true), places.heard(channel)), (vec![(channel, 5)], 9));
    }
}
