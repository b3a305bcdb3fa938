//! Runs of one schedule beside each other: the occurrence that comes while another one runs.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::schedule::{Decision, Outcome, Running, Schedule, Started};

use super::ScheduleItem;
use crate::kernel::item::{Activation, Done};
use crate::tables::schedules;

impl Activation<ScheduleItem> {
    pub(super) async fn occur(&mut self, at: Timestamp) -> Done {
        let Some(own) = &self.item.0 else { return Ok(()) };
        let Schedule { settings, running, queued, .. } = &own.row.schedule;
        match settings.overlap.decide(running.len(), queued.len()) {
            Decision::Start => self.begin(at, true).await.map(drop),
            Decision::CancelAndStart => {
                self.cancel_running().await;
                self.forget_ended().await?;
                self.begin(at, true).await.map(drop)
            }
            Decision::Queue => {
                self.record(at, Outcome::Queued, None, |mut schedule| {
                    schedule.queued.push(at);
                    schedule
                })
                .await
            }
            Decision::Skip => {
                let why = own.row.schedule.reason_to_skip();
                self.record(at, Outcome::Skipped, Some(why), |schedule| schedule).await
            }
        }
    }

    /// Starts the occurrences that waited for the runs that have ended.
    pub(super) async fn start_queued(&mut self) -> Done {
        loop {
            let Some(own) = &self.item.0 else { return Ok(()) };
            let schedule = &own.row.schedule;
            let (Some(at), true) = (schedule.queued.first().copied(), schedule.running.is_empty())
            else {
                return Ok(());
            };
            self.begin(at, false).await?;
        }
    }

    /// Takes the runs that have ended from those that are under way; the rest is watched if an
    /// occurrence waits for it.
    pub(super) async fn forget_ended(&mut self) -> Done {
        let Some(own) = &self.item.0 else { return Ok(()) };
        if own.row.schedule.running.is_empty() {
            return Ok(());
        }
        let node = Arc::clone(&self.node);
        let environment = self.address.environment;
        let mut running = Running::default();
        for (at, run) in own.row.schedule.running.of(self.address.schedule) {
            // Watched before it is looked at, so that no end is lost between the two.
            if !own.row.schedule.queued.is_empty() {
                node.state.run_watch.watch((environment, run), self.address);
            }
            if schedules::has_ended(node.store(), environment, run).await? {
                node.state.run_watch.ended((environment, run));
            } else {
                running.add(at, run);
            }
        }
        if let Some(own) = &mut self.item.0 {
            // Written with the next commit: a restart looks again.
            own.row.schedule.running = running;
        }
        Ok(())
    }

    /// Watches the runs that an occurrence waits for; starts it if they have ended.
    pub(super) async fn watch_for_queued(&mut self) -> Done {
        loop {
            let waits = self.item.0.as_ref().is_some_and(|own| !own.row.schedule.queued.is_empty());
            if !waits {
                return Ok(());
            }
            self.forget_ended().await?;
            if self.item.0.as_ref().is_some_and(|own| !own.row.schedule.running.is_empty()) {
                return Ok(());
            }
            self.start_queued().await?;
        }
    }

    /// Cancels the runs that are under way; one that ends meanwhile is left alone.
    pub(super) async fn cancel_running(&self) {
        let Some(own) = &self.item.0 else { return };
        let handle = crate::handle::Handle::new(Arc::clone(&self.node));
        let (environment, by) = (self.address.environment, self.address.schedule.to_string());
        for (_, run) in own.row.schedule.running.of(self.address.schedule) {
            let cancelled = match run {
                Started::Task(id) => handle.cancel(environment, id, &by).await.map(drop),
                Started::Execution(id) => handle.cancel_execution(environment, id).await.map(drop),
            };
            if let Err(error) = cancelled {
                tracing::debug!(%error, ?run, "a run of a schedule is not cancelled");
            }
        }
    }
}
