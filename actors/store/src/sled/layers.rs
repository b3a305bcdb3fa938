//! Reads: the overlay, and sled below it.
//!
//! Deliberately absent: writes.

use std::ops::Bound;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::opening::sled_error;
use crate::Error;
use crate::overlay::Overlay;

/// sled, and the rows above it.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) tree: sled::Db,
    overlay: RwLock<Overlay>,
}

impl Layers {
    pub(super) fn new(tree: sled::Db) -> Self {
        Self { tree, overlay: RwLock::default() }
    }

    pub(super) fn overlay(&self) -> RwLockReadGuard<'_, Overlay> {
        self.overlay.read().expect("no holder panics")
    }

    pub(super) fn overlay_mut(&self) -> RwLockWriteGuard<'_, Overlay> {
        self.overlay.write().expect("no holder panics")
    }

    /// Reads the row at `key` in place.
    pub(super) fn read<R>(
        &self,
        key: &[u8],
        with: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        // A row that is not in the overlay is in sled, until it is in the overlay again.
        let above = self.overlay().get(key).cloned();
        if let Some(row) = above {
            return Ok(with(row.as_deref()));
        }
        let row = self.tree.get(key).map_err(|error| sled_error(&error))?;
        Ok(with(row.as_deref()))
    }

    /// Hands the rows between two keys to `each`, in order, until it returns false.
    pub(super) fn scan(
        &self,
        from: &[u8],
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        // The lock keeps a checkpoint from ending meanwhile: a row would be seen twice, or not at all.
        let overlay = self.overlay();
        let mut above = overlay.range(from, to).peekable();
        let below = self.tree.range::<&[u8], _>((Bound::Included(from), to));
        for row in below {
            let (key, value) = row.map_err(|error| sled_error(&error))?;
            let mut hidden = false;
            while let Some((newer, row)) = above.next_if(|(newer, _)| newer.as_ref() <= &*key) {
                hidden = newer.as_ref() == &*key;
                if let Some(row) = row
                    && !each(newer, row)?
                {
                    return Ok(());
                }
            }
            if !hidden && !each(&key, &value)? {
                return Ok(());
            }
        }
        for (key, row) in above {
            if let Some(row) = row
                && !each(key, row)?
            {
                break;
            }
        }
        Ok(())
    }

    /// The greatest key with `from <= key <= to`.
    pub(super) fn last(&self, from: &[u8], to: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let overlay = self.overlay();
        let above = overlay.last(from, to).map(|key| key.to_vec());
        for key in self.tree.range(from..=to).keys().rev() {
            let key = key.map_err(|error| sled_error(&error))?;
            if overlay.get(&key).is_none_or(Option::is_some) {
                return Ok(above.max(Some(key.to_vec())));
            }
        }
        Ok(above)
    }
}
