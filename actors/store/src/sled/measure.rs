//! The measurement of the embedded store, a part at a time: sled counts nothing, so each row is read.

use std::ops::Bound;

use super::layers::Layers;
use crate::measure::{Measured, Size};
use crate::{Error, panics};

/// The bytes that one part reads, about: a millisecond, in which no checkpoint ends.
const PART: u64 = 256 << 10;

/// Measures the rows behind a key on disk.
pub(super) fn part(layers: &Layers, after: &[u8]) -> Result<Measured, Error> {
    let (mut found, mut read) = (Measured::default(), 0);
    let from = [after, &[0]].concat();
    let scanned = panics::catch(|| {
        layers.scan(&from, Bound::Unbounded, |key, row| {
            let bytes = (key.len() + row.len()) as u64;
            found.add(key, Size { rows: 1, bytes });
            read += bytes;
            if read >= PART {
                found.next = Some(key.to_vec());
            }
            Ok(read < PART)
        })
    });
    scanned.map_err(|message| Error::Io(format!("sled says: {message}").into()))??;
    Ok(found)
}
