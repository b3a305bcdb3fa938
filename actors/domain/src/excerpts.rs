//! Texts of one answer, within a budget of bytes.
//!
//! ```text
//!   lengths   3  9  1  7    budget 14, level 5
//!   shown     3  5  1  5
//! ```
//!
//! A text below the level is whole; the others are cut at the level, which is the highest that the budget allows. The
//! level only falls while texts are added, so a text can be cut at once, and memory holds the budget and one text
//! more.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Index;

/// Texts by their keys, of at most `budget` bytes together.
#[derive(Debug, Clone)]
pub struct Excerpts<K> {
    budget: usize,
    level: usize,
    bytes: usize,
    texts: HashMap<K, String>,
    cut: HashSet<K>,
}

impl<K: Copy + Eq + Hash> Excerpts<K> {
    /// An empty collection with this budget, in bytes.
    #[must_use]
    pub fn within(budget: usize) -> Self {
        let (texts, cut) = (HashMap::new(), HashSet::new());
        Self { budget, level: usize::MAX, bytes: 0, texts, cut }
    }

    /// Adds a text, in place of the one with this key. Cuts the longest texts if there is no room.
    pub fn insert(&mut self, key: K, text: String) {
        self.bytes += text.len();
        self.cut.remove(&key);
        if let Some(before) = self.texts.insert(key, text) {
            self.bytes -= before.len();
        }
        self.cut(key);
        if self.bytes > self.budget {
            self.level = self.highest_level();
            let keys: Vec<_> = self.texts.keys().copied().collect();
            for key in keys {
                self.cut(key);
            }
        }
    }

    /// The beginning of the text of a key, up to a character's end.
    pub fn get(&self, key: &K) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// True if the rest of the text of a key is missing.
    pub fn is_cut(&self, key: &K) -> bool {
        self.cut.contains(key)
    }

    /// All texts.
    #[must_use]
    pub const fn texts(&self) -> &HashMap<K, String> {
        &self.texts
    }

    fn cut(&mut self, key: K) {
        let Some(text) = self.texts.get_mut(&key).filter(|text| text.len() > self.level) else {
            return;
        };
        self.bytes -= text.len();
        text.truncate(text.floor_char_boundary(self.level));
        text.shrink_to_fit();
        self.bytes += text.len();
        self.cut.insert(key);
    }

    /// The highest level at which all texts fit into the budget.
    fn highest_level(&self) -> usize {
        let mut lengths: Vec<_> = self.texts.values().map(String::len).collect();
        lengths.sort_unstable();
        let mut left = self.budget;
        for (index, length) in lengths.iter().enumerate() {
            let share = left / (lengths.len() - index);
            if *length > share {
                return share;
            }
            left -= length;
        }
        self.level
    }
}

impl<K: Copy + Eq + Hash> Index<&K> for Excerpts<K> {
    type Output = String;

    fn index(&self, key: &K) -> &String {
        &self.texts[key]
    }
}

#[cfg(test)]
mod tests;
