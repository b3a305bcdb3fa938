//! The committer's engine: a group becomes durable in the journal and readable in the overlay.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::checkpoint::Checkpointer;
use super::layers::Layers;
use crate::Error;
use crate::batch::{Epoch, LogId, MAX_ROW, Partition};
use crate::committer::{Applied, Engine};
use crate::journal::Group;
use crate::log::Bounds;

/// The journal and the overlay.
pub(super) struct SledEngine {
    layers: Arc<Layers>,
    checkpointer: Arc<Checkpointer>,
    epoch: Epoch,
    group: Group,
}

impl SledEngine {
    pub(super) fn new(layers: Arc<Layers>, checkpointer: Arc<Checkpointer>, epoch: Epoch) -> Self {
        Self { layers, checkpointer, epoch, group: Group::default() }
    }
}

impl Engine for SledEngine {
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        self.layers.read(key, with)
    }

    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys = Vec::new();
        if from < to && limit > 0 {
            self.layers.scan(from, Bound::Excluded(to), |key, _| {
                keys.push(key.to_vec());
                Ok(keys.len() < limit)
            })?;
        }
        Ok(keys)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // The committer has checked it: one row too large could cost all data at a power cut.
        assert!(
            key.len() + value.len() <= MAX_ROW,
            "a row of {} bytes was let through",
            value.len()
        );
        self.group.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.group.delete(key);
    }

    fn epoch(&self, _: Partition) -> Option<Epoch> {
        Some(self.epoch)
    }

    fn commit(&mut self, _: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error> {
        let next = self.group.next();
        self.checkpointer.commit(&self.layers, std::mem::replace(&mut self.group, next))?;
        Ok(Applied::Yes(Vec::new()))
    }
}
