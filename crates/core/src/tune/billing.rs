//! What requests would cost: the cache rules of the two wire formats, over requests of which only the sizes are known.

use jiff::{SignedDuration, Timestamp};

use crate::limits::Price;
use crate::model::Usage;

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
    /// Where the request says so: behind tools and system prompt, behind the summaries, behind the newest entry.
    Breakpoints {
        /// A shorter beginning is not kept.
        min_tokens: u64,
    },
    Automatic {
        /// The shortest beginning that is kept.
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

impl Billing {
    /// Anthropic messages at their list prices.
    pub const fn anthropic() -> Self {
        Self {
            rates: Rates { write: 1.25, read: 0.1, output: 5.0 },
            caching: Caching::Breakpoints { min_tokens: 1_024 },
            ttl_secs: 300,
        }
    }

    /// OpenAI's chat completions at common list prices.
    pub const fn openai() -> Self {
        Self {
            rates: Rates { write: 1.0, read: 0.25, output: 4.0 },
            caching: Caching::Automatic { min_tokens: 1_024, step_tokens: 128 },
            ttl_secs: 300,
        }
    }

    /// The same with a model's own prices, as far as it has them. A cached price that nobody gave stays as it is.
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

/// A piece of a request: equal pieces have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BilledItem {
    pub key: u64,
    pub tokens: u64,
}

/// A provider's cache of one conversation: it knows the request before.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    caching: Caching,
    ttl: SignedDuration,
    last: Vec<BilledItem>,
    /// Numbers of items behind which the request before had a breakpoint.
    breakpoints: [usize; 3],
    last_at: Option<Timestamp>,
}

impl PrefixCache {
    /// An empty cache.
    pub fn new(billing: &Billing) -> Self {
        let ttl = SignedDuration::from_secs(billing.ttl_secs.min(1 << 40) as i64);
        Self { caching: billing.caching, ttl, last: Vec::new(), breakpoints: [0; 3], last_at: None }
    }

    /// Takes in a request: `frame` items of tools and system prompt, then `stack` items of summaries, then entries, then
    /// the volatile tail, which is never kept. What of it was read and what is written.
    pub fn take(&mut self, request: Vec<BilledItem>, frame: usize, stack: usize, now: Timestamp) -> Usage {
        let is_warm = self.last_at.is_some_and(|at| now.duration_since(at) <= self.ttl);
        let common = match is_warm {
            true => self.last.iter().zip(&request).take_while(|(a, b)| a == b).count(),
            false => 0,
        };
        let lasting = request.len().saturating_sub(1);
        let sum = |n: usize| request[..n].iter().map(|item| item.tokens).sum::<u64>();
        let mut usage = Usage { input_tokens: sum(request.len()), ..Usage::default() };
        match self.caching {
            Caching::Breakpoints { min_tokens } => {
                let hit = self.breakpoints.into_iter().filter(|at| *at <= common).max().unwrap_or(0);
                let kept = |tokens: u64| if tokens >= min_tokens { tokens } else { 0 };
                usage.cached_tokens = kept(sum(hit));
                usage.cache_write_tokens = kept(sum(lasting)).saturating_sub(usage.cached_tokens);
                self.breakpoints = [frame, frame + stack, lasting];
            }
            Caching::Automatic { min_tokens, step_tokens } => {
                let known = sum(common.min(lasting));
                if known >= min_tokens {
                    usage.cached_tokens =
                        min_tokens + (known - min_tokens) / step_tokens.max(1) * step_tokens.max(1);
                }
            }
        }
        self.last = request;
        self.last_at = Some(now);
        usage
    }
}
