//! The track record of confidences, and the statistics of approvals, in memory.
//!
//! A start fills it in the background, from the stored records, and every commit keeps it up. A
//! caller that asks waits until it is filled, as lists wait for their index.
//!
//! ```text
//!   recovery ── found: open approvals ──┐
//!   load ── rows of REVIEW_RECORDS ──────────────┼─▶ Sums, one for each environment
//!   changed, after every commit ────────┘
//! ```

mod sums;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::approval::Record;
use callboard_domain::calibration::{Calibration, Origin, Query};
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::review_stats::Summary;
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, Store};
use tokio::sync::watch;

use self::sums::Sums;
use crate::kernel::environments::PerEnvironment;
use crate::tables::REVIEW_RECORDS;

/// The number of rows that are read at a time.
const PAGE: usize = 1_000;
/// The time, with a wide margin, within which a commit that was there to be read has also been
/// reported: [`ReviewStats::changed`] follows it as soon as its actor has a turn.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);

/// The outcomes of outputs at their gates.
#[derive(Debug)]
pub(crate) struct ReviewStats {
    sums: PerEnvironment<Mutex<Sums>>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Loading,
    Loaded,
    Failed,
}

impl Default for ReviewStats {
    fn default() -> Self {
        Self { sums: PerEnvironment::default(), progress: watch::Sender::new(Progress::Loading) }
    }
}

impl ReviewStats {
    /// A record is durable now. `before` is the record that it replaces, `None` if it is the task's
    /// first. The caller reports each record once, in the order of a task's commits, soon after the
    /// commit.
    pub(crate) fn changed(
        &self,
        environment: Environment,
        task: TaskId,
        before: Option<&Record>,
        after: &Record,
    ) {
        self.sums(environment).changed(task, before, after);
    }

    /// Open approvals were read that may have been there at the start; all of them before
    /// [`Self::load`] is called, in any number of pages.
    pub(crate) fn found(
        &self,
        environment: Environment,
        open: impl IntoIterator<Item = (TaskId, Record)>,
    ) {
        let mut sums = self.sums(environment);
        for (task, record) in open {
            sums.found_open(task, &record);
        }
    }

    /// Reads the outputs that passed or were decided; to be called once. Returns some time after it can be
    /// asked.
    pub(crate) async fn load(&self, store: &dyn Store, environments: &[Environment]) {
        let progress = match self.read(store, environments).await {
            Ok(count) => {
                tracing::info!(outputs = count, "the track record was read");
                Progress::Loaded
            }
            Err(error) => {
                tracing::error!(%error, "the track record cannot be read");
                Progress::Failed
            }
        };
        self.progress.send_replace(progress);
        self.finish_loading(environments).await;
    }

    /// Reads those of a project that has come from another cell, before anybody asks for them.
    pub(crate) async fn load_project(
        &self,
        store: &dyn Store,
        environments: &[Environment],
    ) -> Result<(), StoreError> {
        self.read(store, environments).await.map(drop)
    }

    /// Ends the loading of these environments, once every commit that was read has been reported too.
    pub(crate) async fn finish_loading(&self, environments: &[Environment]) {
        tokio::time::sleep(REPORTED_WITHIN).await;
        for &environment in environments {
            self.sums(environment).finish_loading();
        }
    }

    /// The statistics of approvals at this time. Waits until everything is read.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the records could not be read.
    pub(crate) async fn statistics(
        &self,
        environment: Environment,
        now: Timestamp,
    ) -> Result<Summary, Error> {
        self.loaded().await?;
        Ok(self.sums(environment).statistics.view(now))
    }

    /// The calibration of confidences. Waits until everything is read.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the records could not be read.
    pub(crate) async fn calibration(
        &self,
        environment: Environment,
        query: &Query,
    ) -> Result<Calibration, Error> {
        self.loaded().await?;
        Ok(self.sums(environment).counts.view(query))
    }

    /// True if reviewers decided on too few outputs like this one for its confidence to count as
    /// tested. False while the records are being read.
    pub(crate) fn is_untested(&self, environment: Environment, record: &Record) -> bool {
        let is_loaded = *self.progress.borrow() == Progress::Loaded;
        is_loaded && self.sums(environment).counts.is_untested(&Origin::from(record))
    }

    async fn read(
        &self,
        store: &dyn Store,
        environments: &[Environment],
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        for &environment in environments {
            let mut after = None;
            loop {
                let page =
                    REVIEW_RECORDS.scan(store, environment.number(), after.as_ref(), PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                count += page.len();
                self.found_ended(environment, page);
                // A scan of the embedded store never waits; others are to have their turn.
                tokio::task::yield_now().await;
            }
        }
        Ok(count)
    }

    fn found_ended(
        &self,
        environment: Environment,
        page: impl IntoIterator<Item = (u128, Record)>,
    ) {
        let mut sums = self.sums(environment);
        for (task, record) in page {
            sums.found_ended(TaskId::from_u128(task), &record);
        }
    }

    async fn loaded(&self) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| *progress != Progress::Loading).await;
        match ended.map_or(Progress::Failed, |progress| *progress) {
            Progress::Loaded => Ok(()),
            Progress::Loading | Progress::Failed => {
                Err(Error::Unavailable("the track record cannot be read"))
            }
        }
    }

    fn sums(&self, environment: Environment) -> MutexGuard<'_, Sums> {
        self.sums.of(environment).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
