//! The registry: pairings, bans, approved tool servers, access rules and moved chats. Its state is built from the
//! journal; each change is journalled first, then applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_api::records::{PairingCounts, PrivateRecord};
use cairn_core::memory::{PrivateSpans, chat_key};
use cairn_core::registry::{RegistryState, WAITING_MAX};
use cairn_core::store_port::Store;
use cairn_types::event::{Event, NewRecord, RegistryEvent};
use cairn_types::ids::ChannelId;
use cairn_types::message::Author;
use cairn_types::people::access::AccessPolicy;
use cairn_types::people::pairing::{Ban, Pairing, PairingStatus};
use cairn_types::ports::{Clock, PairingStore, StoreError};
use cairn_types::tool::mcp::ServerPin;
use cairn_types::tool::mcp::pins::Pins;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, RwLock};

/// The alphabet of codes: 32 characters that are not easily confused.
const SIGNS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Characters per code: 40 bits, too many to guess while a code is valid.
const CODE_LEN: usize = 8;

pub struct DaemonPairings {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    state: RwLock<RegistryState>,
    /// People whose request is being journalled: a second message must not create a second one.
    asking: Mutex<BTreeSet<String>>,
    /// Requests that lost their place to newer ones, since the start.
    n_displaced: AtomicU64,
}

impl DaemonPairings {
    /// Loads the registry from the journal.
    ///
    /// # Errors
    /// The store failed.
    pub async fn load(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let state = RwLock::new(store.registry().await?);
        Ok(Self { store, clock, state, asking: Mutex::default(), n_displaced: AtomicU64::new(0) })
    }

    /// All paired people and open requests; requests first, each group by time.
    pub fn pairings(&self) -> Vec<Pairing> {
        let now = self.clock.now();
        let state = self.state.read();
        let mut pairings: Vec<_> =
            state.pairings.values().filter(|pairing| !pairing.is_void(now)).cloned().collect();
        pairings.sort_by_key(|pairing| (pairing.approved_at.is_some(), pairing.asked_at));
        pairings
    }

    /// How many requests wait, and how many lost their place to newer ones since the start.
    pub fn counts(&self) -> PairingCounts {
        let waiting = self.state.read().n_waiting(self.clock.now()) as u64;
        PairingCounts { waiting, displaced: self.n_displaced.load(Ordering::Relaxed) }
    }

    /// Approves the person with this code, or a person whose pairing was revoked (`PLATFORM/USER`). `None`: neither
    /// exists.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn approve(&self, code: &str) -> Result<Option<Pairing>, StoreError> {
        let waiting = {
            let state = self.state.read();
            let revoked = || state.pairings.get(code).filter(|pairing| pairing.revoked_at.is_some());
            state.of_code(code, self.clock.now()).or_else(revoked).cloned()
        };
        let Some(waiting) = waiting else { return Ok(None) };
        let user = waiting.user.id;
        self.append(Event::Registry(RegistryEvent::PairingApproved { user: user.clone() })).await?;
        tracing::info!(%user, "a person was approved");
        Ok(self.state.read().pairings.get(&user).cloned())
    }

    /// Revokes an approval or refuses a request. `None`: the person has neither.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn revoke(&self, user: &str) -> Result<Option<Pairing>, StoreError> {
        let now = self.clock.now();
        let stands = |pairing: &&Pairing| !pairing.is_void(now) && pairing.revoked_at.is_none();
        let known = self.state.read().pairings.get(user).filter(stands).is_some();
        if !known {
            return Ok(None);
        }
        self.append(Event::Registry(RegistryEvent::PairingRevoked { user: user.to_owned() })).await?;
        tracing::info!(%user, "a pairing was revoked");
        Ok(self.state.read().pairings.get(user).cloned())
    }

    /// The current bans, by person.
    pub fn bans(&self) -> Vec<(String, Ban)> {
        let now = self.clock.now();
        let state = self.state.read();
        state
            .bans
            .iter()
            .filter(|(_, ban)| ban.holds(now))
            .map(|(user, ban)| (user.clone(), ban.clone()))
            .collect()
    }

    /// Bans a person; replaces an existing ban.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn ban(
        &self,
        user: String,
        lasts: Option<SignedDuration>,
        reason: Option<String>,
        by: String,
    ) -> Result<Ban, StoreError> {
        let since = self.clock.now();
        // A duration beyond the range of times means no end.
        let until = lasts.and_then(|lasts| since.checked_add(lasts).ok());
        let ban = Ban { reason: reason.clone(), since, until, by: by.clone() };
        tracing::info!(%user, %by, "a person is banned");
        self.append(Event::Registry(RegistryEvent::BanSet { user, reason, until, by })).await?;
        Ok(ban)
    }

    /// Lifts a ban. `None`: the person is not banned.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn unban(&self, user: &str) -> Result<Option<Ban>, StoreError> {
        let now = self.clock.now();
        let Some(ban) = self.state.read().bans.get(user).filter(|ban| ban.holds(now)).cloned() else {
            return Ok(None);
        };
        self.append(Event::Registry(RegistryEvent::BanLifted { user: user.to_owned() })).await?;
        tracing::info!(%user, "a ban was lifted");
        Ok(Some(ban))
    }

    /// Has nothing learnt, or something again, from what a person says or from a chat: see [`RegistryEvent::PrivacySet`].
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn set_private(&self, user: String, chat: Option<String>, on: bool) -> Result<(), StoreError> {
        tracing::info!(%user, chat, on, "a privacy setting was changed");
        self.append(Event::Registry(RegistryEvent::PrivacySet { user, chat, on })).await
    }

    /// Since when a person, and a chat, are private.
    pub fn private_since(&self, user: &str, channel: &ChannelId) -> (Option<Timestamp>, Option<Timestamp>) {
        let state = self.state.read();
        let since = |spans: Option<&PrivateSpans>| spans.and_then(PrivateSpans::since);
        (since(state.private_people.get(user)), since(state.private_chats.get(&chat_key(channel))))
    }

    /// The people and the chats that are private now, people first.
    pub fn private(&self) -> Vec<PrivateRecord> {
        let state = self.state.read();
        let of = |spans: &BTreeMap<String, PrivateSpans>, is_chat| -> Vec<PrivateRecord> {
            let now = spans.iter().filter_map(|(who, spans)| Some((who.clone(), spans.since()?)));
            now.map(|(who, since)| PrivateRecord { who, is_chat, since }).collect()
        };
        let mut private = of(&state.private_people, false);
        private.extend(of(&state.private_chats, true));
        private
    }

    /// The approvals of tool servers.
    pub fn pins(&self) -> Pins {
        self.state.read().pins.clone()
    }

    /// Approves a tool server, with the tools in `pin`.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn approve_server(&self, pin: ServerPin) -> Result<(), StoreError> {
        self.append(Event::Registry(RegistryEvent::ServerApproved { pin })).await
    }

    /// Revokes the approval of a tool server.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn revoke_server(&self, server: &str) -> Result<(), StoreError> {
        self.append(Event::Registry(RegistryEvent::ServerRevoked { server: server.to_owned() })).await
    }

    /// Sets the access rules of a platform from now on. Journalled only if they changed.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn set_access(&self, platform: &str, access: &AccessPolicy) -> Result<(), StoreError> {
        let is_known = {
            let state = self.state.read();
            let last = state.access.get(platform).and_then(|known| known.last());
            last.is_some_and(|last| last.access == *access)
        };
        if is_known {
            return Ok(());
        }
        let (platform, access) = (platform.to_owned(), access.clone());
        self.append(Event::Registry(RegistryEvent::AccessSet { platform, access })).await
    }

    async fn append(&self, event: Event) -> Result<(), StoreError> {
        let record = NewRecord { channel: None, at: self.clock.now(), event };
        let records = self.store.append(vec![record]).await?;
        let mut state = self.state.write();
        records.iter().for_each(|record| state.apply(record));
        Ok(())
    }

    /// The code to send to an unknown person, unless they were told recently. Marks their request as being journalled.
    fn begin(&self, user: &str) -> Result<Option<String>, StoreError> {
        let now = self.clock.now();
        let state = self.state.read();
        if !state.tells_code(user, now) {
            return Ok(None);
        }
        let waiting = state.pairings.get(user).filter(|pairing| !pairing.is_void(now));
        let code = match waiting {
            Some(pairing) => pairing.code.clone(),
            None => fresh_code(&state)?,
        };
        let is_first = self.asking.lock().insert(user.to_owned());
        Ok(is_first.then_some(code))
    }
}

impl PairingStore for DaemonPairings {
    fn standing(&self, user: &str) -> PairingStatus {
        self.state.read().standing(user, self.clock.now())
    }

    fn standing_at(&self, user: &str, at: Timestamp) -> PairingStatus {
        self.state.read().standing_at(user, at, self.clock.now())
    }

    fn access_at(&self, platform: &str, at: Timestamp) -> Option<AccessPolicy> {
        self.state.read().access_at(platform, at).cloned()
    }

    fn access_since(&self, platform: &str) -> Option<Timestamp> {
        self.state.read().access.get(platform)?.first().map(|known| known.since)
    }

    fn paired_chats(&self, platform: &str) -> Vec<String> {
        let state = self.state.read();
        let of_platform = |user: &str| user.strip_prefix(platform).is_some_and(|rest| rest.starts_with('/'));
        let paired = state.pairings.iter().filter(|(user, pairing)| {
            of_platform(user) && pairing.approved_at.is_some() && !pairing.is_group()
        });
        paired.map(|(_, pairing)| pairing.chat.clone()).collect()
    }

    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let Some(code) = self.begin(&user.id)? else { return Ok(None) };
            let _asking = Asking { people: self, user: user.id.clone() };
            tracing::info!(user = %user.id, "a stranger asks for approval; `cairn pair list` shows the code");
            let displaced = self.state.read().displaced_by(&user.id, self.clock.now()).cloned();
            self.append(Event::Registry(RegistryEvent::PairingRequested { user, chat, code: code.clone() }))
                .await?;
            if let Some(displaced) = displaced {
                tracing::warn!(user = %displaced, waiting = WAITING_MAX,
                    "too many strangers wait for approval: the oldest request lost its place and its code is void; \
                     `cairn pair list` shows who waits, `cairn ban` stops a flood");
                metrics::counter!("cairn_pairings_displaced_total").increment(1);
                self.n_displaced.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(code))
        })
    }

    fn home_of(&self, platform: &str, chat: &str) -> String {
        self.state.read().home_of(platform, chat)
    }

    fn address_of(&self, platform: &str, chat: &str) -> String {
        self.state.read().address_of(platform, chat)
    }

    fn migrate(&self, platform: String, from: String, to: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let known = self.state.read().moved.get(&format!("{platform}/{to}")) == Some(&from);
            if known || from == to {
                return Ok(());
            }
            tracing::info!(%platform, %from, %to, "a chat has moved; its conversations continue");
            self.append(Event::Registry(RegistryEvent::ChatMigrated { platform, from, to })).await
        })
    }

    fn last_record(&self) -> u64 {
        self.store.last_record()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }
}

/// A request that is being journalled; dropping it removes the mark.
struct Asking<'r> {
    people: &'r DaemonPairings,
    user: String,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.people.asking.lock().remove(&self.user);
    }
}

fn fresh_code(state: &RegistryState) -> Result<String, StoreError> {
    loop {
        let mut bytes = [0_u8; CODE_LEN];
        getrandom::fill(&mut bytes).map_err(|error| StoreError::Io {
            action: "read",
            path: "the system's random source".to_owned(),
            message: error.to_string(),
        })?;
        let code: String = bytes.iter().map(|byte| char::from(SIGNS[usize::from(byte % 32)])).collect();
        if state.pairings.values().all(|pairing| pairing.code != code) {
            return Ok(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_testkit::clock::TestClock;
    use jiff::SignedDuration;

    use super::*;

    async fn people(dir: &tempfile::TempDir, clock: &Arc<TestClock>) -> (cairn_store::Store, DaemonPairings) {
        let store = cairn_store::Store::open(cairn_store::StoreOptions::new(dir.path())).unwrap();
        let people = DaemonPairings::load(Arc::new(store.clone()), clock.clone()).await.unwrap();
        (store, people)
    }

    fn ann() -> Author {
        Author { id: "telegram/7".to_owned(), name: "Ann".to_owned() }
    }

    #[tokio::test]
    async fn a_stranger_is_told_one_code_and_let_in_by_it_for_good() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::default()));
        let (store, people) = people(&dir, &clock).await;
        let code = people.request_pairing(ann(), "7".to_owned()).await.unwrap().unwrap();
        assert_eq!(code.len(), CODE_LEN);
        assert_eq!(people.request_pairing(ann(), "7".to_owned()).await.unwrap(), None, "told just now");
        clock.advance(SignedDuration::from_mins(11));
        let again = people.request_pairing(ann(), "7".to_owned()).await.unwrap();
        assert_eq!(again.as_deref(), Some(&*code), "the same code again");
        assert_eq!(people.standing("telegram/7"), PairingStatus::Waiting);
        assert_eq!(people.approve("NOTACODE").await.unwrap(), None);
        let pairing = people.approve(&format!(" {} ", code.to_lowercase())).await.unwrap().unwrap();
        assert_eq!((pairing.user, pairing.chat.as_str()), (ann(), "7"));
        assert_eq!(people.standing("telegram/7"), PairingStatus::Paired);
        assert_eq!(people.request_pairing(ann(), "7".to_owned()).await.unwrap(), None);
        store.settle().await.unwrap();
        store.close().await;
        let (_store, people) = self::people(&dir, &clock).await;
        assert_eq!(people.standing("telegram/7"), PairingStatus::Paired, "after a restart, too");
        assert!(people.revoke("telegram/7").await.unwrap().is_some());
        assert_eq!(people.standing("telegram/7"), PairingStatus::Revoked);
        assert_eq!(people.request_pairing(ann(), "7".to_owned()).await.unwrap(), None);
        assert!(people.approve("telegram/7").await.unwrap().is_some(), "an operator changes their mind");
        assert_eq!(people.standing("telegram/7"), PairingStatus::Paired);
        assert!(people.revoke("telegram/7").await.unwrap().is_some());
        assert_eq!(people.revoke("telegram/7").await.unwrap(), None, "once is enough");
    }

    #[tokio::test]
    async fn two_messages_at_once_make_one_code() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::default()));
        let (_store, people) = people(&dir, &clock).await;
        let ask = || people.request_pairing(ann(), "7".to_owned());
        let (first, second) = futures::join!(ask(), ask());
        let told = [first.unwrap(), second.unwrap()];
        assert_eq!(told.iter().flatten().count(), 1, "{told:?}");
        assert_eq!(people.pairings().len(), 1);
    }

    #[tokio::test]
    async fn a_code_that_nobody_approved_is_void_after_a_day() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::default()));
        let (_store, people) = people(&dir, &clock).await;
        let code = people.request_pairing(ann(), "7".to_owned()).await.unwrap().unwrap();
        clock.advance(SignedDuration::from_hours(25));
        assert_eq!(people.approve(&code).await.unwrap(), None);
        assert!(people.pairings().is_empty());
        let next = people.request_pairing(ann(), "7".to_owned()).await.unwrap().unwrap();
        assert_ne!(next, code);
    }

    #[tokio::test]
    async fn a_chat_that_moved_keeps_its_first_id_as_its_home() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::default()));
        let (_store, people) = people(&dir, &clock).await;
        for (from, to) in [("-1", "-1001"), ("-1001", "-1002"), ("-1001", "-1002")] {
            people.migrate("telegram".to_owned(), from.to_owned(), to.to_owned()).await.unwrap();
        }
        assert_eq!(people.home_of("telegram", "-1002"), "-1");
        assert_eq!(people.address_of("telegram", "-1"), "-1002");
        assert_eq!(people.home_of("discord", "-1002"), "-1002");
    }

    #[tokio::test]
    async fn a_crowd_of_strangers_locks_nobody_out_and_the_operator_is_told() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::default()));
        let (_store, people) = people(&dir, &clock).await;
        let asks = |n: usize| {
            people.request_pairing(
                Author { id: format!("telegram/1{n:03}"), name: "Eve".to_owned() },
                "8".to_owned(),
            )
        };
        let first = asks(0).await.unwrap().unwrap();
        clock.advance(SignedDuration::from_secs(1));
        for n in 1..WAITING_MAX {
            assert!(asks(n).await.unwrap().is_some());
        }
        assert_eq!(people.counts(), PairingCounts { waiting: WAITING_MAX as u64, displaced: 0 });
        let code = people.request_pairing(ann(), "7".to_owned()).await.unwrap();
        assert_eq!(people.counts(), PairingCounts { waiting: WAITING_MAX as u64, displaced: 1 });
        assert_eq!(people.approve(&first).await.unwrap(), None, "its code is void");
        assert_eq!(asks(0).await.unwrap(), None, "told just now");
        assert!(people.approve(&code.unwrap()).await.unwrap().is_some());
        assert_eq!(people.standing("telegram/7"), PairingStatus::Paired);
    }
}
