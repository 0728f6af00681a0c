//! The last entries of channels, at hand for the next one of each, within so many bytes: the least recently used go first.

use std::collections::{BTreeMap, HashMap};

use cairn_types::ids::ChannelId;

use super::documents::Recent;

struct Kept {
    /// Its place in the order of uses.
    used: u64,
    bytes: usize,
    recent: Recent,
}

pub(crate) struct Recents {
    most_bytes: usize,
    bytes: usize,
    uses: u64,
    channels: HashMap<ChannelId, Kept>,
    order: BTreeMap<u64, ChannelId>,
}

impl Recents {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: 0, uses: 0, channels: HashMap::new(), order: BTreeMap::new() }
    }

    pub(crate) fn has(&self, channel: &ChannelId) -> bool {
        self.channels.contains_key(channel)
    }

    /// Takes those of a channel out.
    pub(crate) fn take(&mut self, channel: &ChannelId) -> Option<Recent> {
        let kept = self.channels.remove(channel)?;
        self.order.remove(&kept.used);
        self.bytes -= kept.bytes;
        Some(kept.recent)
    }

    /// Keeps those of a channel, as the most recently used.
    pub(crate) fn keep(&mut self, channel: &ChannelId, recent: Recent) {
        self.take(channel);
        self.uses += 1;
        let (used, bytes) = (self.uses, recent.bytes());
        self.bytes += bytes;
        self.order.insert(used, channel.clone());
        self.channels.insert(channel.clone(), Kept { used, bytes, recent });
    }

    /// Those that have no room any more, one at a time. The most recently used stay, however large.
    pub(crate) fn evict(&mut self) -> Option<(ChannelId, Recent)> {
        if self.bytes <= self.most_bytes || self.channels.len() < 2 {
            return None;
        }
        let channel = self.order.values().next()?.clone();
        let recent = self.take(&channel)?;
        Some((channel, recent))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&ChannelId, &mut Recent)> {
        self.channels.iter_mut().map(|(channel, kept)| (channel, &mut kept.recent))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_types::ids::{Generation, Seq, TurnId};
    use cairn_types::message::{Entry, Part, Role};
    use jiff::Timestamp;

    use super::*;

    fn channel(n: usize) -> ChannelId {
        format!("main/local/c{n}").parse().unwrap()
    }

    fn recent(words: usize) -> Recent {
        let turn = TurnId::from("t1");
        let mut entry = Entry::new(Seq(1), &turn, Generation::default(), Timestamp::UNIX_EPOCH, Role::User);
        entry.parts = vec![Part::text("seven ".repeat(words))];
        Recent::loaded(&[Arc::new(entry)])
    }

    #[test]
    fn their_words_take_little_more_than_their_letters() {
        let letters = "seven".len() * 1000;
        assert!((letters..letters * 3 / 2).contains(&recent(1000).bytes()), "{}", recent(1000).bytes());
    }

    #[test]
    fn those_used_least_recently_go_one_at_a_time_within_the_bytes() {
        let one = recent(20).bytes();
        let mut recents = Recents::new(3 * one);
        for n in 0..3 {
            recents.keep(&channel(n), recent(20));
        }
        assert!(recents.evict().is_none());
        let first = recents.take(&channel(0)).unwrap();
        recents.keep(&channel(0), first);
        recents.keep(&channel(3), recent(20));
        assert_eq!(recents.evict().map(|(channel, _)| channel), Some(channel(1)));
        assert!(recents.evict().is_none());
        recents.keep(&channel(4), recent(20_000));
        let mut gone = Vec::new();
        while let Some((channel, _)) = recents.evict() {
            gone.push(channel);
        }
        assert_eq!(gone, [channel(2), channel(0), channel(3)]);
        assert!(recents.has(&channel(4)), "the one in use stays");
    }
}
