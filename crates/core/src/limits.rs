//! Limits on how much people may use the bot: messages and tokens per hour, for each person and each channel, and money per
//! day for the whole bot.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::registry::{UsageDay, day_of};
use cairn_types::ids::ChannelId;
use cairn_types::model::Usage;
use cairn_types::texts::{Key, Saying};

#[cfg(test)]
mod tests;

/// Tokens of an answer that a call's reserved price counts. Most answers are shorter; what a longer one costs beyond that is
/// the most by which one call passes the cap.
const LIKELY_ANSWER_TOKENS: u64 = 1_000;

/// An hour in minutes.
const HOUR: i64 = 60;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TalkLimits {
    /// Messages that one person may send within an hour; 0: no limit.
    pub user_messages_per_hour: u64,
    /// Messages taken in from one channel within an hour; 0: no limit.
    pub channel_messages_per_hour: u64,
    /// Tokens, of requests and answers, that one person may cause within an hour; 0: no limit. What several people
    /// caused together is shared out among them.
    pub user_tokens_per_hour: u64,
    /// Tokens that one channel may cause within an hour; 0: no limit.
    pub channel_tokens_per_hour: u64,
    /// Money that the whole bot may spend on a day (UTC), in the currency of the prices; 0: no cap.
    pub spend_per_day: f64,
}

/// The price of a million tokens of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    pub input: f64,
    /// Of a request, read from the provider's cache; 0: as much as any other.
    pub cached_input: f64,
    /// Of a request, written into the provider's cache; none: as much as any other.
    pub cache_write: Option<f64>,
    pub output: f64,
}

impl Price {
    pub fn of(&self, usage: Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        // A price that nobody gave must not open the cap.
        let cached_price = if self.cached_input > 0.0 { self.cached_input } else { self.input };
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let sum = (usage.input_tokens - cached - written) as f64 * self.input
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + cached as f64 * cached_price
            + usage.output_tokens as f64 * self.output;
        sum / 1e6
    }
}

/// A message is refused for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Limited {
    /// Seconds until there is room.
    pub retry_after_secs: u64,
    pub words: Saying,
    /// Whether they have not been told since they were last admitted.
    pub tell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    UserMessages,
    UserTokens,
    ChannelMessages,
    ChannelTokens,
    Spend,
}

/// Counts usage against the limits. Hourly limits restart with the daemon; the day's money comes from the journal.
#[derive(Debug, Clone)]
pub struct Meter {
    limits: TalkLimits,
    prices: BTreeMap<String, Price>,
    users: BTreeMap<String, Window>,
    channels: BTreeMap<ChannelId, Window>,
    /// The channels that were told about the cap on `day`.
    told_of_cap: BTreeSet<ChannelId>,
    day: Option<Date>,
    spent: f64,
    /// Calls in flight that have a price, and the sum of what they are likely to cost.
    reserved: (u64, f64),
    /// The minute of the last clean-up.
    swept: i64,
}

impl Meter {
    /// A meter that continues with the day's cost so far. A model without a price costs nothing.
    pub fn new(limits: TalkLimits, prices: BTreeMap<String, Price>, today: UsageDay) -> Self {
        let cost =
            |(model, usage): (&String, &Usage)| prices.get(model).map_or(0.0, |price| price.of(*usage));
        let spent = today.models.iter().map(cost).sum();
        Self {
            limits,
            prices,
            users: BTreeMap::new(),
            channels: BTreeMap::new(),
            told_of_cap: BTreeSet::new(),
            day: today.day,
            spent,
            reserved: (0, 0.0),
            swept: 0,
        }
    }

    /// Replaces limits and prices. What was counted stays.
    pub fn set(&mut self, limits: TalkLimits, prices: BTreeMap<String, Price>) {
        (self.limits, self.prices) = (limits, prices);
    }

    /// Counts a message, if it may be accepted.
    ///
    /// # Errors
    /// A limit is reached. A refused message does not count.
    pub fn admit(&mut self, channel: &ChannelId, user: &str, now: Timestamp) -> Result<(), Limited> {
        if let Err(limited) = self.admit_spend(now) {
            let tell = self.told_of_cap.insert(channel.clone());
            return Err(Limited { tell, ..limited });
        }
        self.admit_command(channel, user, now)
    }

    /// Counts a command that reads or writes what is stored, as a message is counted. It costs no money.
    ///
    /// # Errors
    /// A limit of the hour is reached. A refused command does not count.
    pub fn admit_command(&mut self, channel: &ChannelId, user: &str, now: Timestamp) -> Result<(), Limited> {
        self.sweep(now);
        let limits = &self.limits;
        let minute = minute_of(now);
        if let Some(window) = self.users.get_mut(user) {
            let [messages, tokens] = [limits.user_messages_per_hour, limits.user_tokens_per_hour];
            window.check(messages, Limit::UserMessages, tokens, Limit::UserTokens, now)?;
        }
        if let Some(window) = self.channels.get_mut(channel) {
            let [messages, tokens] = [limits.channel_messages_per_hour, limits.channel_tokens_per_hour];
            window.check(messages, Limit::ChannelMessages, tokens, Limit::ChannelTokens, now)?;
        }
        if limits.counts_users() {
            self.users.entry(user.to_owned()).or_default().admitted(minute);
        }
        if limits.counts_channels() {
            self.channels.entry(channel.clone()).or_default().admitted(minute);
        }
        Ok(())
    }

    /// Checks that there is money left today, which is the only limit on the local platform.
    ///
    /// # Errors
    /// The cap is reached. Nobody is marked as told.
    pub fn admit_spend(&mut self, now: Timestamp) -> Result<(), Limited> {
        self.turn_day(now);
        if self.limits.spend_per_day > 0.0 && self.spent >= self.limits.spend_per_day {
            return Err(limited(Limit::Spend, until_midnight(now), true));
        }
        Ok(())
    }

    /// What a call with a request of so many tokens is likely to cost; `answer_max`: the most tokens of its answer.
    pub fn likely_price(&self, model: &str, request_tokens: u64, answer_max: u64) -> f64 {
        let output_tokens = answer_max.min(LIKELY_ANSWER_TOKENS);
        let usage = Usage { input_tokens: request_tokens, output_tokens, ..Usage::default() };
        self.price(model).map_or(0.0, |price| price.of(usage))
    }

    /// Reserves the likely price of a call, if the day's money is enough for it beside the calls in flight. The only call in
    /// flight always gets it. False: another call has to end first.
    ///
    /// # Errors
    /// The cap is reached.
    pub fn try_reserve(&mut self, price: f64, now: Timestamp) -> Result<bool, Limited> {
        self.admit_spend(now)?;
        let cap = self.limits.spend_per_day;
        let (n_calls, reserved) = self.reserved;
        if cap > 0.0 && price > 0.0 && n_calls > 0 && self.spent + reserved + price > cap {
            return Ok(false);
        }
        self.reserve(price);
        Ok(true)
    }

    /// Reserves the likely price of a call that is made in any case.
    pub fn reserve(&mut self, price: f64) {
        if price > 0.0 {
            self.reserved.0 += 1;
            self.reserved.1 += price;
        }
    }

    /// Gives the reserved price of a call back, when the call has ended and its usage is counted.
    pub fn release(&mut self, price: f64) {
        if price <= 0.0 {
            return;
        }
        let (n_calls, reserved) = self.reserved;
        // Sums of fractions leave a rest.
        self.reserved = if n_calls <= 1 { (0, 0.0) } else { (n_calls - 1, reserved - price) };
    }

    /// Counts a model call for a channel, on behalf of these people (ids as in [`Meter::admit`]; empty for a run).
    pub fn spent(
        &mut self,
        channel: &ChannelId,
        users: &[String],
        model: &str,
        usage: Usage,
        now: Timestamp,
    ) {
        self.sweep(now);
        self.turn_day(now);
        self.spent += self.prices.get(model).map_or(0.0, |price| price.of(usage));
        let minute = minute_of(now);
        let tokens = usage.tokens();
        if self.limits.counts_channels() {
            self.channels.entry(channel.clone()).or_default().add(minute, 0, tokens);
        }
        let users: BTreeSet<&String> = users.iter().collect();
        if self.limits.counts_users() && !users.is_empty() {
            let share = tokens.div_ceil(users.len() as u64);
            for user in users {
                self.users.entry(user.clone()).or_default().add(minute, 0, share);
            }
        }
    }

    /// The price of a model, if it has one.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }

    /// The day's cost so far.
    pub fn spent_today(&self, now: Timestamp) -> f64 {
        if self.day == Some(day_of(now)) { self.spent } else { 0.0 }
    }

    fn turn_day(&mut self, now: Timestamp) {
        let today = day_of(now);
        if self.day != Some(today) {
            self.day = Some(today);
            self.spent = 0.0;
            self.told_of_cap.clear();
        }
    }

    /// Removes, once a minute, what is older than an hour.
    fn sweep(&mut self, now: Timestamp) {
        let minute = minute_of(now);
        if self.swept == minute {
            return;
        }
        self.swept = minute;
        self.users.retain(|_, window| window.goes_on(minute));
        self.channels.retain(|_, window| window.goes_on(minute));
    }
}

impl TalkLimits {
    fn counts_users(&self) -> bool {
        self.user_messages_per_hour > 0 || self.user_tokens_per_hour > 0
    }

    fn counts_channels(&self) -> bool {
        self.channel_messages_per_hour > 0 || self.channel_tokens_per_hour > 0
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    minute: i64,
    messages: u64,
    tokens: u64,
}

/// Usage of a person or a channel, by minutes. A minute counts until an hour after its end, so the limit holds for every
/// hour, wherever it starts.
#[derive(Debug, Clone, Default)]
struct Window {
    buckets: VecDeque<Bucket>,
    told: bool,
}

impl Window {
    fn check(
        &mut self,
        messages: u64,
        by_messages: Limit,
        tokens: u64,
        by_tokens: Limit,
        now: Timestamp,
    ) -> Result<(), Limited> {
        let over = [
            (by_messages, self.over(messages, |b| b.messages)),
            (by_tokens, self.over(tokens, |b| b.tokens)),
        ];
        // Of two limits the one that lasts longer is the one to speak of.
        let longest =
            over.into_iter().filter_map(|(limit, minute)| Some((limit, minute?))).max_by_key(|o| o.1);
        let Some((limit, minute)) = longest else { return Ok(()) };
        let tell = !std::mem::replace(&mut self.told, true);
        let free_at = (minute + HOUR + 1) * 60;
        let secs = u64::try_from(free_at - now.as_second()).unwrap_or(0).max(1);
        Err(limited(limit, secs, tell))
    }

    /// The minute that has to expire before there is room for one more; `None`: there is room.
    fn over(&self, limit: u64, count: fn(&Bucket) -> u64) -> Option<i64> {
        let mut sum = self.buckets.iter().map(count).fold(0, u64::saturating_add);
        if limit == 0 || sum < limit {
            return None;
        }
        for bucket in &self.buckets {
            sum = sum.saturating_sub(count(bucket));
            if sum < limit {
                return Some(bucket.minute);
            }
        }
        self.buckets.back().map(|bucket| bucket.minute)
    }

    fn admitted(&mut self, minute: i64) {
        self.told = false;
        self.add(minute, 1, 0);
    }

    fn add(&mut self, minute: i64, messages: u64, tokens: u64) {
        // A clock that was set back goes on where it was.
        match self.buckets.back_mut().filter(|last| last.minute >= minute) {
            Some(last) => {
                last.messages = last.messages.saturating_add(messages);
                last.tokens = last.tokens.saturating_add(tokens);
            }
            None => self.buckets.push_back(Bucket { minute, messages, tokens }),
        }
    }

    /// Drops minutes that no longer count, and those of a clock that was an hour ahead. False: nothing is left.
    fn goes_on(&mut self, minute: i64) -> bool {
        self.buckets.retain(|bucket| (minute - HOUR..=minute + HOUR).contains(&bucket.minute));
        !self.buckets.is_empty()
    }
}

fn minute_of(now: Timestamp) -> i64 {
    now.as_second().div_euclid(60)
}

fn until_midnight(now: Timestamp) -> u64 {
    let midnight = now
        .to_zoned_datetime(TimeZone::UTC)
        .checked_add(1.day())
        .and_then(|tomorrow| tomorrow.start_of_day())
        .map_or(SignedDuration::from_hours(24), |midnight| midnight.timestamp().duration_since(now));
    u64::try_from(midnight.as_secs()).unwrap_or(0).max(1)
}

fn limited(limit: Limit, retry_after_secs: u64, tell: bool) -> Limited {
    let key = match limit {
        Limit::UserMessages => Key::LimitUserMessages,
        Limit::UserTokens => Key::LimitUserTokens,
        Limit::ChannelMessages => Key::LimitChannelMessages,
        Limit::ChannelTokens => Key::LimitChannelTokens,
        Limit::Spend => Key::LimitSpend,
    };
    Limited { retry_after_secs, words: key.with("wait", in_words(retry_after_secs)), tell }
}

/// A wait in words, rounded up, so that nobody comes back too early.
fn in_words(secs: u64) -> Saying {
    /// This many minutes over an hour still count as an hour.
    const SLACK: u64 = 5;
    match secs.div_ceil(60) {
        0 | 1 => Key::WaitMinute.into(),
        minutes @ 2..55 => Key::WaitMinutes.count(minutes),
        minutes => match minutes.saturating_sub(SLACK).div_ceil(30) {
            0..=2 => Key::WaitHour.into(),
            3 => Key::WaitHourAndHalf.into(),
            halves @ 4..47 => Key::WaitHours.count(halves.div_ceil(2)),
            _ => Key::WaitDay.into(),
        },
    }
}
