//! sled without the store's measures, on the same disk: it shows that the store must repair a directory
//! before it opens it, and must limit its rows.

use std::fs::File;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;

use super::work::{Progress, Work, filler};
use super::{PLAN, Plan, Subject, caught};

const ROW: usize = 200_000;

fn open(data: &Path) -> sled::Result<sled::Db> {
    sled::Config::new().path(data).cache_capacity(8 << 20).open()
}

/// Writes rows of 200 KB. sled's file `db` is synced before each is acknowledged.
pub(crate) fn work(work: &Work) {
    let tree = open(&work.data).expect("it opens");
    let db = File::open(work.data.join("db")).expect("sled has a file");
    let mut acks = File::create(&work.acks).expect("a file can be made");
    let first = u32::try_from(tree.len()).expect("few");
    for n in first..first + work.batches {
        tree.insert(n.to_be_bytes(), filler(0, n, ROW)).expect("the disk works");
        tree.flush().expect("the disk works");
        db.sync_data().expect("the disk works");
        acks.write_all(format!("0 {n}\n").as_bytes()).expect("the disk works");
    }
    if !work.orderly {
        std::process::exit(0);
    }
}

/// Checks the rows that [`work`] acknowledged.
fn has_rows(data: &Path, acknowledged: Progress) -> Result<Progress, String> {
    quietly(|| {
        let tree = open(data).map_err(|error| format!("it does not open: {error}"))?;
        for n in 0..acknowledged[0].map_or(0, |last| last + 1) {
            let row = tree.get(n.to_be_bytes()).map_err(|error| error.to_string())?;
            if row.is_none_or(|row| *row != *filler(0, n, ROW)) {
                return Err(format!("row {n} was acknowledged and is not there"));
            }
        }
        Ok(acknowledged)
    })
}

/// Opens a directory of the store, without its repair.
fn opens(data: &Path, acknowledged: Progress) -> Result<Progress, String> {
    quietly(|| match open(data) {
        Ok(_) => Ok(acknowledged),
        Err(error) => Err(format!("it does not open: {error}")),
    })
}

fn quietly(
    check: impl FnOnce() -> Result<Progress, String> + std::panic::UnwindSafe,
) -> Result<Progress, String> {
    catch_unwind(check).unwrap_or_else(|_| Err("sled panics".into()))
}

#[test]
fn without_its_repair_sled_refuses_what_a_power_cut_left() {
    caught(&Plan { openings: true, check: opens, ..PLAN });
}

#[test]
fn sled_loses_rows_of_200_kb() {
    caught(&Plan { subject: Subject::SledAlone, check: has_rows, ..PLAN });
}
