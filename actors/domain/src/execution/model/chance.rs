//! Chance that can be had again.

use std::collections::BTreeMap;

use super::Expansion;

/// Numbers that look random and are the same for the same seed (`SplitMix64`).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, among: impl IntoIterator<Item = T>) -> Option<T> {
        let among: Vec<T> = among.into_iter().collect();
        let index = self.index(among.len().max(1));
        among.get(index).copied()
    }

    pub(super) fn usd(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let micros = self.below(5_000) as f64;
        micros / 1e6
    }

    /// For each of 1 to 12 steps, those it depends on; and a step that none depends on.
    pub(super) fn graph(&mut self) -> (Vec<Vec<u16>>, u16) {
        let mut left: Vec<u16> = (0..12).take(self.index(12) + 1).collect();
        let density = self.below(60);
        let mut lists = vec![Vec::new(); left.len()];
        let mut before: Vec<u16> = Vec::new();
        let mut last = 0;
        while !left.is_empty() {
            last = left.swap_remove(self.index(left.len()));
            let chosen = before.iter().copied().filter(|_| self.percent(density)).collect();
            lists[usize::from(last)] = chosen;
            before.push(last);
        }
        (lists, last)
    }

    /// Of so many steps, those with a list, and how its items run.
    pub(super) fn expansions(&mut self, steps: usize) -> BTreeMap<u16, Expansion> {
        let share = [0, 0, 20, 60][self.index(4)];
        let mut lists = BTreeMap::new();
        for step in (0..).take(steps) {
            if self.percent(share) {
                let items = u16::try_from(self.below(8)).expect("small");
                let concurrency =
                    self.percent(40).then(|| 1 + u16::try_from(self.below(4)).expect("small"));
                let tolerates = self.percent(60);
                let least = u16::try_from(self.below(u64::from(items) + 1)).expect("small");
                let min_success = if tolerates { least } else { items };
                lists.insert(step, Expansion { items, concurrency, min_success, worst_cost: None });
            }
        }
        lists
    }

    /// A place in a list of this length, which is at least 1.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than the length")
    }
}
