//! T9: the time from the start of the program to its first answer, and the memory of an idle
//! server.

use std::time::Instant;

use super::error::Error;
use super::meter::{median, millis};
use super::program::Ground;
use super::report::{Bound, Row};
use super::waiting;

const STARTS: usize = 10;

/// Measures the program alone: there is no baseline.
pub(super) async fn run(ground: &Ground) -> Result<Vec<Row>, Error> {
    let mut taken = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let begin = Instant::now();
        let server = ground.server().await?;
        server.site.open().await?.exchange(&server.site.get("/health"), 200).await?;
        taken.push(millis(begin.elapsed()));
    }
    let server = ground.server().await?;
    let resident = waiting::idle(&server).await?;
    let start = Row::of("T9", "start → first answer, empty directory, first admin made", "ms");
    let idle = Row::of("T9", "resident memory, idle", "MB");
    Ok(vec![
        start.figure(median(taken.into_iter())).bound(Bound::AtMost(100.0)),
        idle.figure(resident / 1e6).bound(Bound::AtMost(30.0)),
    ])
}
