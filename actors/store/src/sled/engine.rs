//! The committer's side: a group becomes durable in the journal, and readable above sled.
//!
//! Deliberately absent: sled, which hears of it later (see [`super::settle`]).

use std::ops::Bound;
use std::sync::Arc;

use super::layers::Layers;
use super::settle::Rounds;
use crate::Error;
use crate::committer::Engine;
use crate::journal::Group;

/// What the committer writes to.
pub(super) struct SledEngine {
    layers: Arc<Layers>,
    rounds: Arc<Rounds>,
    group: Group,
    max_row: usize,
}

impl SledEngine {
    pub(super) fn new(layers: Arc<Layers>, rounds: Arc<Rounds>, max_row: usize) -> Self {
        Self { layers, rounds, group: Group::default(), max_row }
    }
}

impl Engine for SledEngine {
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        self.layers.read(key, with)
    }

    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys = Vec::new();
        if from < to && limit > 0 {
            self.layers.walk(from, Bound::Excluded(to), |key, _| {
                keys.push(key.to_vec());
                Ok(keys.len() < limit)
            })?;
        }
        Ok(keys)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // Checked before; one row too large here would cost everyone's data at a power cut.
        assert!(
            key.len() + value.len() <= self.max_row,
            "a row of {} bytes got past the checks",
            value.len()
        );
        self.group.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.group.delete(key);
    }

    fn commit(&mut self) -> Result<(), Error> {
        let next = self.group.follower();
        self.rounds.commit(&self.layers, std::mem::replace(&mut self.group, next))
    }
}
