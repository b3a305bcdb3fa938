//! The floors: the least cost of the same work, measured in processes of their own.
//!
//! | floor | what it is |
//! |---|---|
//! | store | sled, bare: one committer thread, 64 writers of one 1 KB record each, then one alone |
//! | http | axum, one call of an actor, and the same committer: 500 bytes in, stored, 300 bytes out |
//! | index | no floor: the index of the store by itself, for the part of memory that a server cannot report |
//!
//! A floor is this very program, started again as `callboard bench-floor`. Each package has its own
//! part of the floors (`floor.rs` there), so that no other package learns of sled or of actors.
//! Deliberately absent: everything that makes a service: accounts, limits, ids, checks, queues,
//! events, indexes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use callboard_store::floor::Floor as Committer;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::IN_FLIGHT;
use super::error::{Error, broken};
use super::meter::{Client, Summary, closed_loop};
use super::program::{Program, own_executable};

mod index;
mod server;

const RECORD: usize = 1024;
/// The cache of a floor, large enough for all rows: a floor is not to be slow for want of memory.
const CACHE_BYTES: u64 = 128 << 20;

/// A floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Floor {
    /// The bare store.
    Store,
    /// The least server.
    Http,
    /// The index by itself.
    Index,
}

/// The best rates of the store.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StoreFloor {
    /// The rate of 64 writers.
    pub(super) together: Summary,
    /// The rate of one writer.
    pub(super) alone: Summary,
}

/// Measures the best rates of the store.
pub(super) async fn store(directory: &TempDir, span: Duration) -> Result<StoreFloor, Error> {
    let mut command = own_executable()?;
    command.args(["bench-floor", "store", "--millis"]).arg(span.as_millis().to_string());
    let output = command.arg("--directory").arg(directory.path()).stderr(Stdio::inherit()).output();
    let output = output.await.map_err(Error::of("the floor does not start"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::of("the floor does not say its figures"))
}

/// Starts the least durable server.
pub(super) async fn http(directory: TempDir) -> Result<Program, Error> {
    let mut command = own_executable()?;
    command.args(["bench-floor", "http", "--directory"]).arg(directory.path());
    Program::launch(command, directory).await
}

/// The bytes that the index holds for each of so many tasks.
pub(super) async fn index(items: usize) -> Result<f64, Error> {
    let mut command = own_executable()?;
    command.args(["bench-floor", "index", "--items", &items.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().await;
    let output = output.map_err(Error::of("the index does not start"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::of("the index does not say its figure"))
}

/// The settings of a floor.
#[derive(Debug)]
pub struct Settings {
    /// The floor's data directory.
    pub directory: PathBuf,
    /// The length of the measurement.
    pub span: Duration,
    /// The number of items.
    pub items: usize,
}

/// Runs a floor: prints its figures or its address with `tell`.
///
/// # Errors
/// The disk or the socket fails.
pub async fn be(floor: Floor, settings: &Settings, tell: impl Fn(&str)) -> Result<(), Error> {
    let figures = match floor {
        Floor::Http => return server::run(&settings.directory, tell).await,
        Floor::Store => serde_json::to_string(&measure(&settings.directory, settings.span).await?),
        Floor::Index => serde_json::to_string(&index::measure(settings.items).await?),
    };
    tell(&figures.map_err(Error::of("figures have no JSON form"))?);
    Ok(())
}

struct Writer(Committer);

impl Client for Writer {
    async fn once(&mut self) -> Result<(), Error> {
        self.0.commit(vec![7; RECORD]).await.map_err(|error| broken(error.to_string()))
    }
}

async fn measure(directory: &Path, span: Duration) -> Result<StoreFloor, Error> {
    let committer = Committer::open(directory, CACHE_BYTES).map_err(Error::of("no store"))?;
    let writers = (0..IN_FLIGHT).map(|_| Writer(committer.clone())).collect();
    let together = closed_loop(writers, span).await?;
    let alone = closed_loop(vec![Writer(committer)], span / 2).await?;
    Ok(StoreFloor { together, alone })
}
