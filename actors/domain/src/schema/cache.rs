//! The compiled schemas that were used last.
//!
//! A schema is compiled when a value is first checked against it, and again after many others were
//! used since: the memory of schemas does not grow with their number. Deliberately absent: any
//! effect. A schema that is not here is compiled again.

use std::sync::{Arc, Mutex, PoisonError};

use super::Compiled;

/// The weight of the schemas that are kept, in bytes of their sources.
const KEPT: usize = 1024 * 1024;

/// The least weight of a schema.
const LEAST: usize = 4 * 1024;

/// The schemas, the last used at the end.
static RECENT: Mutex<Vec<Arc<Compiled>>> = Mutex::new(Vec::new());

/// Keeps a schema that was used just now, and drops those that were not used for longest.
pub(super) fn keep(used: &Arc<Compiled>) {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.last().is_some_and(|last| Arc::ptr_eq(last, used)) {
        return;
    }
    recent.retain(|known| !Arc::ptr_eq(known, used));
    recent.push(Arc::clone(used));
    let mut weight = 0;
    let kept = recent.iter().rev().take_while(|known| {
        weight += known.size.max(LEAST);
        weight <= KEPT
    });
    let dropped = recent.len() - kept.count().max(1);
    let dropped: Vec<_> = recent.drain(..dropped).collect();
    drop(recent);
    drop(dropped);
}
