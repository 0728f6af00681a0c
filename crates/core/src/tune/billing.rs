//! What requests cost: the cache rules and prices of providers. `cairn tune` applies them to requests of which only the sizes are
//! known, the fake model server to what it receives.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};

use crate::limits::Price;
use cairn_types::model::Usage;

/// Prices in units of that of a plain token of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Of a token that is written into the cache.
    pub write: f64,
    /// Of a token that is read from it.
    pub read: f64,
    /// Of a token of an answer.
    pub output: f64,
}

/// How a provider caches the beginnings of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// A request marks where the beginnings end that the cache is to hold. Read is the longest of them that is held.
    Breakpoints {
        /// A shorter beginning is not held.
        min_tokens: u64,
        /// A beginning is found so many blocks before a breakpoint, too. 0: only at a breakpoint.
        look_back: usize,
    },
    /// All beginnings are held.
    Automatic {
        /// The shortest beginning that is held.
        min_tokens: u64,
        /// Beyond it, beginnings of so many tokens more.
        step_tokens: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Billing {
    pub rates: Rates,
    pub caching: Caching,
    /// Seconds after a request for which its beginning is kept.
    pub ttl_secs: u64,
}

/// Most breakpoints of a request: of Anthropic's all that it may have, of OpenAI's the latest, which alone are written.
pub const MAX_BREAKPOINTS: usize = 4;

impl Billing {
    /// Anthropic's messages, at the prices that its models have in common
    /// (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>): four breakpoints, a look back over 20
    /// blocks, 1,024 tokens at least (512 to 4,096, as the model has it).
    pub const fn anthropic() -> Self {
        Self {
            rates: Rates { write: 1.25, read: 0.1, output: 5.0 },
            caching: Caching::Breakpoints { min_tokens: 1_024, look_back: 20 },
            ttl_secs: 300,
        }
    }

    /// OpenAI from GPT-5.6 on (<https://developers.openai.com/api/docs/guides/prompt-caching>): a beginning is written and found
    /// at breakpoints alone, four are written, from 1,024 tokens on. Another 30 minutes with each use.
    pub const fn openai_breakpoints() -> Self {
        Self {
            rates: Rates { write: 1.25, read: 0.1, output: 5.0 },
            caching: Caching::Breakpoints { min_tokens: 1_024, look_back: 0 },
            ttl_secs: 1_800,
        }
    }

    /// OpenAI's models before GPT-5.6 (the same page), at the prices that GPT-5 to GPT-5.2 have in common: what is found is told
    /// in steps of 128 tokens, from 1,024 on. Other servers of chat completions hold beginnings by themselves, too.
    pub const fn openai() -> Self {
        Self {
            rates: Rates { write: 1.0, read: 0.1, output: 8.0 },
            caching: Caching::Automatic { min_tokens: 1_024, step_tokens: 128 },
            ttl_secs: 300,
        }
    }

    /// The billing with a model's own prices, as far as it has them. A cached price that nobody gave stays as it is.
    pub fn priced(mut self, price: &Price) -> Self {
        if price.input <= 0.0 {
            return self;
        }
        let share = |of: f64| of / price.input;
        if price.cached_input > 0.0 {
            self.rates.read = share(price.cached_input);
        }
        if let Some(write) = price.cache_write {
            self.rates.write = share(write);
        }
        if price.output > 0.0 {
            self.rates.output = share(price.output);
        }
        self
    }

    /// Tokens of a request at the plain price that would cost as much.
    pub fn billed(&self, usage: Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        (usage.input_tokens - cached - written) as f64
            + written as f64 * self.rates.write
            + cached as f64 * self.rates.read
            + usage.output_tokens as f64 * self.rates.output
    }
}

/// A block of a request: equal blocks have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub key: u64,
    pub tokens: u64,
    /// It has a breakpoint, where the provider has them.
    pub mark: bool,
}

/// A provider's cache.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    caching: Caching,
    ttl: SignedDuration,
    /// The beginnings that it holds, by a hash over their blocks: when each was used last.
    held: HashMap<u64, Timestamp>,
}

/// Beginnings that are held at most; then the cache is cleared, as real ones are.
const MAX_HELD: usize = 200_000;

impl PrefixCache {
    /// An empty cache.
    pub fn new(billing: &Billing) -> Self {
        let ttl = SignedDuration::from_secs(billing.ttl_secs.min(1 << 40) as i64);
        Self { caching: billing.caching, ttl, held: HashMap::new() }
    }

    /// Takes in a request: what of it was read and what is written.
    pub fn take(&mut self, request: &[Block], now: Timestamp) -> Usage {
        let beginnings = beginnings(request);
        let mut usage = Usage {
            input_tokens: beginnings.last().map_or(0, |beginning| beginning.tokens),
            ..Usage::default()
        };
        if self.held.len() > MAX_HELD {
            self.held.clear();
        }
        let is_held = |beginning: &Beginning| {
            self.held.get(&beginning.key).is_some_and(|used| now.duration_since(*used) <= self.ttl)
        };
        match self.caching {
            Caching::Breakpoints { min_tokens, look_back } => {
                let marks: Vec<usize> = (0..request.len()).filter(|&idx| request[idx].mark).collect();
                let near = marks.iter().flat_map(|&mark| mark.saturating_sub(look_back)..=mark);
                let read = near.filter(|&idx| is_held(&beginnings[idx])).max();
                usage.cached_tokens = read.map_or(0, |idx| beginnings[idx].tokens);
                let written = marks.iter().rev().take(MAX_BREAKPOINTS);
                let written = written.filter(|&&mark| beginnings[mark].tokens >= min_tokens).copied();
                let written: Vec<usize> = written.collect();
                if let Some(&last) = written.first() {
                    usage.cache_write_tokens = beginnings[last].tokens.saturating_sub(usage.cached_tokens);
                }
                // What is read is used, too.
                self.held.extend(written.into_iter().chain(read).map(|idx| (beginnings[idx].key, now)));
            }
            Caching::Automatic { min_tokens, step_tokens } => {
                let known = beginnings.iter().rfind(|beginning| is_held(beginning));
                let known = known.map_or(0, |beginning| beginning.tokens);
                if known >= min_tokens {
                    let step = step_tokens.max(1);
                    usage.cached_tokens = min_tokens + (known - min_tokens) / step * step;
                }
                self.held.extend(beginnings.iter().map(|beginning| (beginning.key, now)));
            }
        }
        usage
    }
}

/// A request up to and with one of its blocks.
#[derive(Clone, Copy)]
struct Beginning {
    /// The hash of all its blocks.
    key: u64,
    tokens: u64,
}

fn beginnings(request: &[Block]) -> Vec<Beginning> {
    let (mut hasher, mut tokens) = (DefaultHasher::new(), 0);
    let beginning = |block: &Block| {
        block.key.hash(&mut hasher);
        tokens += block.tokens;
        Beginning { key: hasher.finish(), tokens }
    };
    request.iter().map(beginning).collect()
}
