//! The baselines: the least cost of the same work, measured in processes of their own.
//!
//! | baseline | what it is |
//! |---|---|
//! | store | sled, bare: one committer thread, 64 writers of one 1 KB record each, then one alone |
//! | http | axum, one call of an actor, and the same committer: 500 bytes in, stored, 300 bytes out |
//! | index | no baseline: the index of the store by itself, for the part of memory that a server cannot report |
//!
//! A baseline is this very program, started again as `callboard-bench baseline`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::process::Command;

use super::IN_FLIGHT;
use super::arguments::BaselineSettings;
use super::error::{Error, broken};
use super::meter::{Client, Summary, closed_loop};
use super::program::{Program, command};
use store::Committer;

mod actor;
mod index;
mod server;
mod store;

const RECORD: usize = 1024;
/// The cache of a baseline, large enough for all rows: a baseline is not to be slow for want of memory.
const CACHE_BYTES: u64 = 128 << 20;

/// A baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Baseline {
    /// The bare store.
    Store,
    /// The least server.
    Http,
    /// The index by itself.
    Index,
}

/// The best rates of the store.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StoreBaseline {
    /// The rate of 64 writers.
    pub(super) together: Summary,
    /// The rate of one writer.
    pub(super) alone: Summary,
}

/// Measures the best rates of the store.
pub(super) async fn store_rates(
    directory: &TempDir,
    span: Duration,
) -> Result<StoreBaseline, Error> {
    let mut command = own_executable()?;
    command.args(["baseline", "store", "--millis"]).arg(span.as_millis().to_string());
    let output = command.arg("--directory").arg(directory.path()).stderr(Stdio::inherit()).output();
    let output = output.await.map_err(Error::of("the baseline does not start"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(Error::of("the baseline does not say its figures"))
}

/// Starts the least durable server.
pub(super) async fn http(directory: TempDir) -> Result<Program, Error> {
    let mut command = own_executable()?;
    command.args(["baseline", "http", "--directory"]).arg(directory.path());
    Program::launch(command, directory).await
}

/// The bytes that the index holds for each of so many tasks.
pub(super) async fn index(items: usize) -> Result<f64, Error> {
    let mut command = own_executable()?;
    command.args(["baseline", "index", "--items", &items.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().await;
    let output = output.map_err(Error::of("the index does not start"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::of("the index does not say its figure"))
}

/// Runs a baseline: prints its figures or its address with `tell`.
pub(super) async fn be(settings: &BaselineSettings, tell: &impl Fn(&str)) -> Result<(), Error> {
    let BaselineSettings { baseline, directory, millis, items } = settings;
    let figures = match baseline {
        Baseline::Http => return server::run(directory, tell).await,
        Baseline::Store => {
            serde_json::to_string(&measure(directory, Duration::from_millis(*millis)).await?)
        }
        Baseline::Index => serde_json::to_string(&index::measure(*items).await?),
    };
    tell(&figures.map_err(Error::of("figures have no JSON form"))?);
    Ok(())
}

/// This program, to be started again as a baseline.
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

async fn measure(directory: &Path, span: Duration) -> Result<StoreBaseline, Error> {
    let committer = Committer::open(directory, CACHE_BYTES).map_err(Error::of("no store"))?;
    let writers = (0..IN_FLIGHT).map(|_| Writer(committer.clone())).collect();
    let together = closed_loop(writers, span).await?;
    let alone = closed_loop(vec![Writer(committer)], span / 2).await?;
    Ok(StoreBaseline { together, alone })
}
