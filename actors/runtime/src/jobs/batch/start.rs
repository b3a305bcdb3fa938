//! The start of rows, for the first time or anew.

use std::sync::Arc;

use callboard_domain::batch::{self, Batch, Row, RowError, RowOf, RowState, Status};
use callboard_domain::event::EventName;
use callboard_domain::execution::program::ReviewPolicy;
use callboard_domain::execution::{ForkedFrom, Template};
use callboard_domain::id::Environment;
use callboard_domain::task::EndingCode;
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, Op};
use ractor::ActorProcessingErr;
use serde_json::{Map, Value};

use super::same::Leader;
use super::{BatchItem, Reply, Retry, TOGETHER};
use crate::handle::Handle;
use crate::items::submission::{
    self, Named, NewWork, Options, Runs, Scheduled, StartExecution, Submission,
};
use crate::kernel::item::{Activation, Done};
use crate::node::Node;
use crate::node::catalog::Known;
use crate::read::batches::{self as read, Keys};
use crate::read::together;
use crate::tables::{batches, executions};

/// What became of a row.
enum Fate {
    /// The execution runs, or the row needs none.
    Done,
    /// The execution was refused for good; true if a reviewer had rejected the answer to the same question.
    Refused(bool),
    /// The row waits for this earlier one.
    Follows(u32),
    /// The row waits for a better time.
    PutOff(Error),
    /// Nothing is known about the disk.
    Broken(Error),
}

impl Activation<BatchItem> {
    /// Starts the next rows, at most so many; false if some are put off.
    pub(super) async fn start_some(&mut self, most: usize) -> Result<bool, ActorProcessingErr> {
        let (known, source) = (self.plan().await?, self.source().await?);
        let (environment, node) = (self.address.environment, Arc::clone(&self.node));
        let Some(own) = &mut self.item.0 else { return Ok(false) };
        let batch = own.batch.clone();
        let most = most.min(own.waiting.len());
        let numbers: Vec<_> = own.waiting.drain(..most).collect();
        let start = |number: u32| {
            let source = source.as_deref();
            let starting =
                Starting { node: &node, environment, batch: &batch, known: &known, source };
            async move { Ok(Some((number, starting.row(number).await?))) }
        };
        let fates = together(TOGETHER, numbers.iter().copied().map(start)).await?;
        let (mut put_off, mut why) = (Vec::new(), None);
        for (number, fate) in fates {
            let Some(own) = &mut self.item.0 else { return Ok(false) };
            match fate {
                Fate::Done => {}
                Fate::Refused(is_rejected) => {
                    own.batch.refused += 1;
                    own.batch.refused_rejected += u32::from(is_rejected);
                    self.release(number);
                }
                Fate::Follows(like) => own.followers.add(like, number),
                Fate::PutOff(error) => {
                    put_off.push(number);
                    why = Some(error.to_string());
                }
                Fate::Broken(error) => return Err(error.into()),
            }
        }
        node.state.batches.put_off(self.key(), why);
        let Some(own) = &mut self.item.0 else { return Ok(false) };
        own.changed = true;
        let is_free = put_off.is_empty();
        put_off.into_iter().rev().for_each(|number| own.waiting.push_front(number));
        Ok(is_free)
    }

    /// Marks the failed rows that are to run anew, durably, and lets them start.
    pub(super) async fn retry(&mut self, retry: &Retry, reply: Reply<(Batch, u32)>) -> Done {
        let statuses = [Status::Running, Status::Paused, Status::Completed];
        let batch = match self.only(&statuses, "retried") {
            Ok(batch) => batch,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let (environment, id) = self.key();
        let node = Arc::clone(&self.node);
        let store = node.store();
        let (mut marked, mut refused, mut unrejected) = (Vec::new(), 0, 0);
        let rejected = EndingCode::Rejected.as_str().to_owned();
        let wanted = |code: &str| match retry.codes.as_slice() {
            [] => code != rejected,
            codes => codes.iter().any(|wanted| wanted == code),
        };
        let failed = read::failed(store, environment, id).await?;
        for page in failed.chunks(super::PAGE) {
            let mut ops: Vec<Op> = Vec::new();
            for number in page {
                let at = (id, *number);
                let Some(row) = batches::row(store, environment, at).await? else { continue };
                if !retry.keys.is_empty() && !retry.keys.contains(&row.key) {
                    continue;
                }
                let state = match row.state {
                    RowState::Refused(error) if wanted(&error.code) => {
                        refused += 1;
                        unrejected += u32::from(error.is_rejection());
                        RowState::Pending
                    }
                    RowState::Started => {
                        let execution = batch::execution(id, *number);
                        let head = executions::head(store, environment, execution).await?;
                        let Some(head) = head.filter(|head| head.failed_with().is_some_and(wanted))
                        else {
                            continue;
                        };
                        RowState::Again(head.runs())
                    }
                    RowState::Refused(_)
                    | RowState::Pending
                    | RowState::Again(_)
                    | RowState::Invalid(_) => continue,
                };
                // A row whose earlier one stays as it is asks by itself.
                let like = row.like.filter(|like| marked.binary_search(like).is_ok());
                ops.push(batches::put_row(environment, at, &Row { state, like, ..row }));
                marked.push(*number);
            }
            if !ops.is_empty() {
                self.write(ops).await?;
            }
        }
        let count = u32::try_from(marked.len()).unwrap_or(u32::MAX);
        if let Some(own) = &mut self.item.0 {
            let is_new = batch.is_over();
            own.waiting.extend(marked);
            own.batch.refused = own.batch.refused.saturating_sub(refused);
            own.batch.refused_rejected = own.batch.refused_rejected.saturating_sub(unrejected);
            if count > 0 {
                let status = if is_new { Status::Running } else { batch.status };
                let reason = batch.reason.clone();
                let (refused, refused_rejected) = (own.batch.refused, own.batch.refused_rejected);
                let next = batch.with(status, reason, self.node.now());
                let next = Batch { refused, refused_rejected, ..next };
                let event = is_new.then_some(EventName::BatchResumed);
                self.commit(next, event, Vec::new()).await?;
                if is_new || batch.dedupe {
                    self.load().await?;
                }
            }
        }
        self.answer(reply, |batch| (batch.clone(), count));
        Ok(())
    }
}

/// The start of one row.
struct Starting<'b> {
    node: &'b Arc<Node>,
    environment: Environment,
    batch: &'b Batch,
    known: &'b Known,
    /// The rows whose answers are taken over.
    source: Option<&'b Keys>,
}

impl Starting<'_> {
    async fn row(&self, number: u32) -> Result<Fate, StoreError> {
        let (store, at) = (self.node.store(), (self.batch.id, number));
        let Some(row) = batches::row(store, self.environment, at).await? else {
            return Ok(Fate::Done);
        };
        match row.state {
            RowState::Pending => self.first(number, row).await,
            RowState::Again(runs) => self.again(number, row, runs).await,
            RowState::Started | RowState::Invalid(_) | RowState::Refused(_) => Ok(Fate::Done),
        }
    }

    async fn first(&self, number: u32, row: Row) -> Result<Fate, StoreError> {
        let (store, at) = (self.node.store(), (self.batch.id, number));
        let forked_from = match row.like {
            None => self.original(&row.key),
            Some(like) => match Leader::of(store, self.environment, self.batch.id, like).await? {
                Leader::Gives(fork) => Some(fork),
                Leader::Failed(error) => {
                    let is_rejected = error.is_rejection();
                    self.write(number, Row { state: RowState::Refused(error), ..row }).await?;
                    return Ok(Fate::Refused(is_rejected));
                }
                // It runs anew by itself.
                Leader::Runs => return Ok(Fate::Follows(like)),
            },
        };
        let text = batches::input(store, self.environment, at).await?.unwrap_or_default();
        let input: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| StoreError::Corrupt {
                path: format!("input of row {number} of {}", self.batch.id),
                reason: error.to_string(),
            })?;
        let execution = batch::execution(self.batch.id, number);
        let started = Row { state: RowState::Started, ..row.clone() };
        let mut rows = batches::delete_input(self.environment, at, text.len());
        rows.push(batches::put_row(self.environment, at, &started));
        let order = self.order(row.key.clone(), input, forked_from);
        let (pool, project) = (&self.node.limits.submissions, self.environment.slot());
        let admitted = pool.take(project, order.weight()).await;
        let submission = Submission {
            environment: self.environment,
            account: self.batch.account.clone(),
            trace: None,
            order,
            key: None,
            partition: self.batch.id.partition(),
            admitted,
            files: Vec::new(),
            scheduled: Some(Box::new(Scheduled { number: execution.as_u128(), rows })),
        };
        match submission::create(Arc::clone(self.node), submission).await {
            Ok(_) => Ok(Fate::Done),
            Err(error @ (Error::Unavailable(_) | Error::Internal)) => Ok(Fate::Broken(error)),
            Err(error @ Error::BudgetExceeded(_)) => {
                let code = EndingCode::BudgetExceeded.as_str();
                let refused = RowState::Refused(RowError::new(code, &error.to_string()));
                self.write(number, Row { state: refused, ..row }).await?;
                Ok(Fate::Refused(false))
            }
            // A limit of the account, which others of its tasks fill now.
            Err(error) => Ok(Fate::PutOff(error)),
        }
    }

    /// Runs the execution of a row anew, unless that has been done.
    async fn again(&self, number: u32, row: Row, runs: u32) -> Result<Fate, StoreError> {
        let execution = batch::execution(self.batch.id, number);
        let head = executions::head(self.node.store(), self.environment, execution).await?;
        if head.is_some_and(|head| head.runs() == runs && head.ended_at().is_some()) {
            let handle = Handle::owed(Arc::clone(self.node));
            match handle.retry_execution(self.environment, execution).await {
                // One that cannot be retried stays as it is.
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(Error::InvalidState(why)) => {
                    tracing::info!(%execution, why, "a row of a batch is not run anew");
                }
                Err(error) => return Ok(Fate::PutOff(error)),
            }
        }
        self.write(number, Row { state: RowState::Started, ..row }).await?;
        Ok(Fate::Done)
    }

    async fn write(&self, number: u32, row: Row) -> Result<(), StoreError> {
        let (partition, at) = (self.batch.id.partition(), (self.batch.id, number));
        let ops = vec![batches::put_row(self.environment, at, &row)];
        match self.node.shard(partition).commit(partition, ops).await {
            callboard_store::Outcome::Committed => Ok(()),
            callboard_store::Outcome::NotApplied(error)
            | callboard_store::Outcome::Unknown(error) => Err(error),
            callboard_store::Outcome::Fenced | callboard_store::Outcome::Conflict(_) => {
                Err(StoreError::Stopped)
            }
        }
    }

    /// The execution whose answers the row of this key takes over, as far as it asks the same.
    fn original(&self, key: &str) -> Option<Box<ForkedFrom>> {
        let (reuse, source) = self.batch.reuse.zip(self.source)?;
        let execution = batch::execution(reuse, source.row(key)?);
        Some(Box::new(ForkedFrom { execution, from_step: None }))
    }

    fn order(
        &self,
        key: String,
        input: Map<String, Value>,
        forked_from: Option<Box<ForkedFrom>>,
    ) -> NewWork {
        let Batch { id, template, version, plan, tags, .. } = self.batch;
        let template = Template { id: template.clone(), version: version.clone() };
        let compiled = Arc::clone(&self.known.compiled);
        let start_at: Option<Timestamp> = None;
        NewWork::Execution(Box::new(StartExecution {
            runs: Runs::Plan(*plan, Some(template)),
            review: ReviewPolicy { hitl: compiled.hitl.clone() },
            compiled,
            input,
            options: Options::default(),
            start_at,
            forked_from,
            occurrence: None,
            row_of: Some(Box::new(RowOf { batch: *id, key })),
            named: Named { tags: tags.clone(), ..Named::default() },
        }))
    }
}
