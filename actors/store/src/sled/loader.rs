//! Builds the index from the rows, in the background after an opening.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::layers::Layers;
use super::opening::sled_error;
use crate::batch::Key;
use crate::committer::Shared;
use crate::directory::corrupt;
use crate::index::Loader;
use crate::row::{ROWS, disk_key, entry_block, split_listed};
use crate::{Error, panics};

/// Loads the index of `shared`, unless `closing` becomes true before.
pub(super) fn load(layers: &Layers, shared: &Shared, closing: &AtomicBool, path: &Path) {
    let loaded = panics::catch(|| read(layers, closing, path))
        .unwrap_or_else(|message| Err(corrupt(path, &format!("sled says: {message}"))));
    let fetch = |key: &Key| layers.read(&disk_key(key), entry_block).ok().flatten();
    shared.index.finish_loading(loaded, &fetch);
}

fn read(layers: &Layers, closing: &AtomicBool, path: &Path) -> Result<Loader, Error> {
    let mut loader = Loader::default();
    // Rows that come to the overlay meanwhile are among the index's pending changes.
    for row in layers.tree.range([ROWS, Key::FIRST_LISTED]..[ROWS + 1, 0]) {
        if closing.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let (key, row) = row.map_err(|error| sled_error(&error))?;
        let key = Key(key[1..].into());
        let added = split_listed(&row)
            .and_then(|(block, _)| block.map_or(Some(()), |block| loader.row(&key, block)));
        added
            .ok_or_else(|| corrupt(path, &format!("the entry of the row {key:?} is malformed")))?;
    }
    Ok(loader)
}
