//! Rows that ask the same as an earlier row: they wait until that one has ended, and take its answers over as a fork
//! does. What failed or was rejected there has failed or is rejected here, so it is asked and decided once.

use std::collections::BTreeMap;

use callboard_domain::batch::{self, RowError, RowState};
use callboard_domain::execution::ForkedFrom;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_domain::task::EndingCode;
use callboard_store::{Error as StoreError, Store};

use super::BatchItem;
use crate::kernel::item::Activation;
use crate::tables::{batches, executions};

/// The rows that wait for an earlier one, by the number of that.
#[derive(Debug, Default)]
pub(super) struct Followers {
    of: BTreeMap<u32, Vec<u32>>,
    count: usize,
}

impl Followers {
    pub(super) fn add(&mut self, like: u32, row: u32) {
        self.of.entry(like).or_default().push(row);
        self.count += 1;
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn take(&mut self, like: u32) -> Vec<u32> {
        let rows = self.of.remove(&like).unwrap_or_default();
        self.count -= rows.len();
        rows
    }
}

/// The state of the row that a follower is like.
pub(super) enum Leader {
    /// It is not over.
    Runs,
    /// It has completed, or it is gone: what it has answered is taken over.
    Gives(Box<ForkedFrom>),
    /// It has failed, and so does the follower.
    Failed(RowError),
}

impl Leader {
    /// The state of a row of a batch.
    pub(super) async fn of(
        store: &dyn Store,
        environment: Environment,
        id: TemplateBatchId,
        number: u32,
    ) -> Result<Self, StoreError> {
        let execution = batch::execution(id, number);
        let gives = || Self::Gives(Box::new(ForkedFrom { execution, from_step: None }));
        let Some(row) = batches::row(store, environment, (id, number)).await? else {
            return Ok(gives());
        };
        let failed = |code: &str, says: &str| {
            let says = format!("row {} asks the same, and {says}", number + 1);
            Self::Failed(RowError::new(code, &says))
        };
        match row.state {
            RowState::Pending | RowState::Again(_) => return Ok(Self::Runs),
            RowState::Refused(error) => return Ok(failed(&error.code, "could not be started")),
            RowState::Started | RowState::Invalid(_) => {}
        }
        let Some(head) = executions::head(store, environment, execution).await? else {
            return Ok(gives());
        };
        Ok(match (head.ended_at(), head.failed_with()) {
            (None, _) => Self::Runs,
            (Some(_), Some(code)) if code == EndingCode::Rejected.as_str() => {
                failed(code, "its answer was rejected")
            }
            (Some(_), Some(code)) => failed(code, "has failed"),
            (Some(_), None) if head.is_completed() => gives(),
            (Some(_), None) => failed(EndingCode::Cancelled.as_str(), "was cancelled"),
        })
    }
}

impl Activation<BatchItem> {
    /// Lets the rows start that waited for this one.
    pub(super) fn release(&mut self, like: u32) {
        if let Some(own) = &mut self.item.0 {
            for row in own.followers.take(like).into_iter().rev() {
                own.waiting.push_front(row);
            }
        }
    }

    /// Lets all rows start whose earlier row has ended; false if there are none.
    pub(super) async fn release_ended(&mut self) -> Result<bool, StoreError> {
        let (environment, id) = self.key();
        let Some(own) = &self.item.0 else { return Ok(false) };
        let leaders: Vec<_> = own.followers.of.keys().copied().collect();
        let mut any = false;
        for leader in leaders {
            let state = Leader::of(self.node.store(), environment, id, leader).await?;
            if !matches!(state, Leader::Runs) {
                self.release(leader);
                any = true;
            }
        }
        Ok(any)
    }
}
