//! The floors: the least cost of the same work, measured in processes of their own.
//!
//! | floor | what it is |
//! |---|---|
//! | store | sled, bare: one committer thread, 64 writers of one 1 KB record each, then one alone |
//! | http | axum, one call of an actor, and the same committer: 500 bytes in, stored, 300 bytes out |
//! | index | no floor: the index of the store by itself, for the part of memory that a server cannot report |
//!
//! A floor is this very program, started again as `callboard-bench floor`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::process::Command;

use super::IN_FLIGHT;
use super::arguments::FloorSettings;
use super::error::{Error, broken};
use super::meter::{Client, Summary, closed_loop};
use super::program::{Program, command};
use store::Committer;

mod actor;
mod index;
mod server;
mod store;

const RECORD: usize = 1024;
/// The cache of a floor, large enough for all rows: a floor is not to be slow for want of memory.
const CACHE_BYTES: u64 = 128 << 20;

/// A floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Floor {
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
pub(super) async fn store_rates(directory: &TempDir, span: Duration) -> Result<StoreFloor, Error> {
    let mut command = own_executable()?;
    command.args(["floor", "store", "--millis"]).arg(span.as_millis().to_string());
    let output = command.arg("--directory").arg(directory.path()).stderr(Stdio::inherit()).output();
    let output = output.await.map_err(Error::of("the floor does not start"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::of("the floor does not say its figures"))
}

/// Starts the least durable server.
pub(super) async fn http(directory: TempDir) -> Result<Program, Error> {
    let mut command = own_executable()?;
    command.args(["floor", "http", "--directory"]).arg(directory.path());
    Program::launch(command, directory).await
}

/// The bytes that the index holds for each of so many tasks.
pub(super) async fn index(items: usize) -> Result<f64, Error> {
    let mut command = own_executable()?;
    command.args(["floor", "index", "--items", &items.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().await;
    let output = output.map_err(Error::of("the index does not start"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::of("the index does not say its figure"))
}

/// Runs a floor: prints its figures or its address with `tell`.
pub(super) async fn be(settings: &FloorSettings, tell: &impl Fn(&str)) -> Result<(), Error> {
    let FloorSettings { floor, directory, millis, items } = settings;
    let figures = match floor {
        Floor::Http => return server::run(directory, tell).await,
        Floor::Store => {
            serde_json::to_string(&measure(directory, Duration::from_millis(*millis)).await?)
        }
        Floor::Index => serde_json::to_string(&index::measure(*items).await?),
    };
    tell(&figures.map_err(Error::of("figures have no JSON form"))?);
    Ok(())
}

/// This program, to be started again as a floor.
fn own_executable() -> Result<Command, Error> {
    std::env::current_exe()
        .map(|path| command(&path))
        .map_err(Error::of("this program has no path"))
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
