//! Random moments that can be had again.

/// A plain generator of numbers: the same seed gives the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Moments(u64);

impl Moments {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}
