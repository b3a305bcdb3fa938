//! Chance that can be had again.

use std::sync::Mutex;

use crate::kernel::ports::Entropy;

/// Numbers that look random and are the same for the same seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A place in a list of this length, which is at least 1.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than the length")
    }

    pub(super) fn pick<T: Clone>(&mut self, among: &[T]) -> Option<T> {
        if among.is_empty() {
            return None;
        }
        let index = self.index(among.len());
        Some(among[index].clone())
    }

    /// A generator of its own, which what happens here does not disturb.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// The runtime's randomness, by seed.
pub(super) struct Seeded(Mutex<Chance>);

impl Seeded {
    pub(super) const fn new(chance: Chance) -> Self {
        Self(Mutex::new(chance))
    }
}

impl Entropy for Seeded {
    fn bits(&self) -> u128 {
        let mut chance = self.0.lock().expect("no holder panics");
        u128::from(chance.next()) << 64 | u128::from(chance.next())
    }
}
