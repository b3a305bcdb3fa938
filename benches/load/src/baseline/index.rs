//! The index of the store by itself, with entries such as tasks have.

use callboard_store::Entry;
use callboard_store::probe::Probe;

use crate::error::Error;
use crate::meter::count;
use crate::program::resident;
use crate::stored::mix;
use crate::waiting::IDLE;

const LIST: [u8; 2] = [0x80, 1];
/// The creation of the first document, in milliseconds since 1970.
const BEGIN: u64 = 1_800_000_000_000;

/// The resident bytes for each of so many documents, after a while of rest.
pub(super) async fn measure(items: usize) -> Result<f64, Error> {
    let before = resident(std::process::id())?;
    let probe = Probe::load((0..items as u64).map(|number| (document(number), entry(number))));
    tokio::time::sleep(IDLE).await;
    let after = resident(std::process::id())?;
    drop(probe);
    Ok((after - before) / count(items as u64))
}

/// The id of a document: its creation, four in a millisecond, then chance.
fn document(number: u64) -> u128 {
    u128::from(BEGIN + number / 4) << 80 | u128::from(mix(number))
}

/// The entry of a document: status, model, queue, two tags; priority and end: the numbers of
/// `stored`.
fn entry(number: u64) -> Entry {
    let r = mix(number);
    let term = |field: u8, of: u64| (field, format!("{field}-{of}").into_bytes().into());
    let status = if r.is_multiple_of(14) { 1 } else { u64::from(number % 33 == 32) * 2 };
    let terms = vec![
        term(0, status),
        term(1, (r >> 8) % 12),
        term(2, (r >> 16) % 10),
        term(3, (r >> 32) % 100),
        term(3, 100 + (r >> 40) % 1_000),
    ];
    let ended = BEGIN + number / 4 + (r >> 20) % 4_000;
    Entry { list: LIST, terms, sort: [Some((r >> 24) % 10 + 1), Some(ended)] }
}
