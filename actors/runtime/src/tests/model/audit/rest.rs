//! Properties of the store at rest: sums are those of the rows, and no row is left that anything would
//! be done for.

use callboard_domain::approval::Record;
use callboard_domain::calibration::{Counts, Query};
use callboard_domain::review_stats::Totals;
use callboard_store::Store;

use super::super::world::{LIVE, World};
use super::{Picture, must};
use crate::tables::{LIVE_APPROVALS, LIVE_DELIVERIES, LIVE_EXECUTIONS, LIVE_TASKS, REVIEW_RECORDS};

impl World {
    /// Compares the figures that are only right at rest.
    ///
    /// # Errors
    /// Something is not.
    pub(in super::super) async fn audit_at_rest(&self) -> Result<(), String> {
        let picture = self.audit().await?;
        self.judge_events(&picture).await?;
        self.sums(&picture).await?;
        self.judge_limits_at_rest(&picture)?;
        self.nothing_is_left().await
    }

    async fn sums(&self, picture: &Picture) -> Result<(), String> {
        let (mut statistics, mut counts) = (Totals::default(), Counts::default());
        let store: &dyn Store = &*self.memory;
        let passed = REVIEW_RECORDS.scan(store, LIVE.number(), None, usize::MAX).await;
        let passed = passed.map_err(|e| e.to_string())?;
        let held = picture.approvals.values().map(|one| Record::from(&one.approval));
        let open_or_held: Vec<_> = held.collect();
        let ended = passed
            .iter()
            .filter(|(id, _)| !picture.approvals.keys().any(|held| held.as_u128() == *id));
        for record in open_or_held.iter().chain(ended.map(|(_, record)| record)) {
            statistics.replace(None, record);
            counts.replace(None, record);
        }
        let answered = self.handle.statistics(LIVE).await.map_err(|e| e.to_string())?;
        let counted = statistics.view(self.handle.now());
        must(answered == counted, || {
            format!("statistics: answered {answered:?}, counted {counted:?}")
        })?;
        let answered = self.handle.calibration(LIVE, &Query::default()).await;
        let answered = answered.map_err(|e| e.to_string())?;
        let counted = counts.view(&Query::default());
        must(answered == counted, || {
            format!("calibration: answered {answered:?}, counted {counted:?}")
        })
    }

    async fn nothing_is_left(&self) -> Result<(), String> {
        let (store, live) = (&*self.memory as &dyn Store, LIVE.number());
        let left = [
            ("tasks", LIVE_TASKS.scan(store, live, None, 9).await.map(|rows| rows.len())),
            ("executions", LIVE_EXECUTIONS.scan(store, live, None, 9).await.map(|rows| rows.len())),
            ("approvals", LIVE_APPROVALS.scan(store, live, None, 9).await.map(|rows| rows.len())),
            ("deliveries", LIVE_DELIVERIES.scan(store, live, None, 9).await.map(|rows| rows.len())),
        ];
        for (what, rows) in left {
            let rows = rows.map_err(|error| error.to_string())?;
            must(rows == 0, || format!("{rows} rows of unfinished {what} are left"))?;
        }
        Ok(())
    }
}
