//! Batches.

mod upload;

pub use upload::{BatchUpload, GivenRow, Rejected, TriedUpload};

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::approval::ReviewWay;
use callboard_domain::batch::{Batch, ReviewOrder, Spent, Status};
use callboard_domain::budget::Money;
use callboard_domain::digest::Digest;
use callboard_domain::id::{Environment, PlanId, TaskId, TemplateBatchId};
use callboard_domain::query::{Batches, Page, Rows, Window};
use callboard_domain::template::Caller;
use callboard_domain::{Error, Rule};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::runs::{Deploy, Start};
use super::{COMMAND, Handle, within};
use crate::items::submission::creation::plan_row;
use crate::items::submission::warnings;
use crate::kernel::address::BatchAddress as Address;
use crate::messages::approval::Message as OfApproval;
use crate::messages::batch::{Message, Retry};
use crate::messages::submission::Owner;
use crate::node::catalog::Known;
use crate::read::batches::compare::{Compare, Comparison};
use crate::read::batches::estimate::{self, Estimate};
use crate::read::batches::reviews::Unreviewed;
use crate::read::batches::{self as read, BatchView, RowPage};
use crate::read::{TOGETHER, approvals, unreadable};
use crate::tables::{PlanRow, batches, plans};

/// A batch to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchOrder {
    /// The template.
    pub template: String,
    /// Another version than the latest.
    pub version: Option<String>,
    /// The name, for people.
    pub name: Option<String>,
    /// The tags of the executions.
    pub tags: Vec<String>,
    /// The cost from which no further row is started.
    pub max_cost: Option<Money>,
    /// The batch whose answers are taken over.
    pub reuse: Option<Reuse>,
    /// The most rows that run at a time.
    pub concurrency: u32,
    /// True if rows that ask the same are answered once.
    pub dedupe: bool,
    /// True if the upload is only tried: rows are checked and their cost is estimated, and nothing is kept.
    pub tries: bool,
}

/// The batch whose answers are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// The latest one of the template, in any version; none if there is none.
    Latest,
    /// This one.
    Batch(TemplateBatchId),
}

/// A request for reviews of outputs of a batch that have passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewsOrder {
    /// The step; by default the last one.
    pub step: Option<String>,
    /// The most reviews.
    pub top: u32,
    /// The outputs to review first.
    pub order: ReviewOrder,
    /// The way of each review.
    pub way: ReviewWay,
}

/// The reviews that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReviewsAsked {
    /// The reviews that wait now.
    pub asked: u32,
    /// The other outputs that have passed without a review.
    pub left: u32,
}

/// The beginning of an upload.
#[derive(Debug)]
pub enum BatchBegun {
    /// The rows may come.
    New(Box<BatchUpload>),
    /// The idempotency key made this batch before; the rest of the body is to have this digest.
    Known(Box<Batch>, String),
}

impl Handle {
    fn reader(&self) -> read::Reader<'_> {
        read::Reader { node: &self.node, kept: &self.kept }
    }

    /// Begins the upload of a batch. `caller` is the account as a reader of templates.
    ///
    /// # Errors
    /// Those of [`Handle::deploy`]; [`Error::IdempotencyKeyInUse`] while the same upload is under way,
    /// [`Error::QuotaExceeded`], [`Error::Unavailable`].
    pub async fn begin_batch(
        &self,
        owner: &Owner,
        caller: Caller<'_>,
        order: BatchOrder,
        idempotency_key: Option<&str>,
    ) -> Result<BatchBegun, Error> {
        self.admit()?;
        let environment = owner.environment;
        let _creating = self.node.state.batches.creating.lock().await;
        let key = idempotency_key.filter(|_| !order.tries).map(|key| {
            let key = self.scoped_key(owner, "batches", key, &());
            Digest::of(&format!("{:?}", key.scope)).to_string()
        });
        if let Some(scope) = &key {
            let before = batches::of_key(self.node.store(), environment, scope).await;
            match before.map_err(|error| unreadable(&error))? {
                Some(Batch { status: Status::Loading, .. }) => {
                    return Err(Error::IdempotencyKeyInUse);
                }
                Some(batch) => {
                    let body = batch.key.as_ref().map(|(_, body)| body.clone());
                    return Ok(BatchBegun::Known(Box::new(batch), body.unwrap_or_default()));
                }
                None => {}
            }
        }
        self.node.limits.holdings.admit(owner.environment, &owner.id, 0)?;
        let BatchOrder {
            template,
            version,
            name,
            tags,
            max_cost,
            reuse,
            concurrency,
            dedupe,
            tries,
        } = order;
        let reuse = self.source(environment, reuse, &template).await?;
        let (models, queues) = (BTreeMap::new(), BTreeMap::new());
        let deploy = Deploy { start: Start::default(), version, models, queues };
        let (deployed, prepared) = self.deployment(environment, caller, &template, deploy).await?;
        let now = self.node.now();
        let partition = (self.node.kernel.ports.entropy.bits() & 0xff) as u8;
        let id = TemplateBatchId::from_u128(self.node.fresh_id(now, partition));
        let plan = PlanId::from_u128(self.node.fresh_id(now, partition));
        let compiled = Arc::clone(&prepared.compiled);
        let row = PlanRow {
            deployed: Some(deployed.clone()),
            ..plan_row(compiled.plan.source(), owner.id.clone(), now)
        };
        let rows = plans::plan_rows(environment, plan, &row, None);
        let version = deployed.version.clone();
        let batch = Batch {
            id,
            name,
            template,
            version,
            plan,
            account: owner.id.clone(),
            tags,
            concurrency,
            max_cost,
            reuse,
            dedupe,
            status: Status::Loading,
            reason: None,
            total: 0,
            invalid: 0,
            pending: 0,
            refused: 0,
            refused_rejected: 0,
            estimated: None,
            spent: Spent::default(),
            key: key.map(|scope| (scope, String::new())),
            started_at: None,
            ended_at: None,
            revision: 0,
        };
        let node = Arc::clone(&self.node);
        let of = Arc::clone(&compiled);
        let estimator = estimate::begin(Arc::clone(&node), environment, of, &batch).await?;
        if !tries {
            let compiled = Arc::clone(&compiled);
            let known = Known { created_at: now, deployed: Some(deployed), compiled };
            self.node.state.catalog.keep_plan(environment, plan, Arc::new(known));
        }
        let upload =
            upload::begin(node, environment, batch, compiled, rows, (estimator, tries)).await?;
        Ok(BatchBegun::New(Box::new(upload)))
    }

    /// A batch with its figures.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn batch_view(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<BatchView, Error> {
        let batch = self.stored_batch(environment, id).await?;
        let view = read::view(&self.node, environment, batch).await;
        view.map_err(|error| unreadable(&error))
    }

    /// The warnings about steps of a batch that no connected worker takes.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn warnings_of_batch(
        &self,
        environment: Environment,
        batch: &Batch,
    ) -> Result<Vec<String>, Error> {
        let plan = self.node.plan(environment, batch.plan).await;
        let plan = plan.map_err(|error| unreadable(&error))?;
        let of =
            |known: Arc<Known>| warnings::of_plan(&self.node, environment, &known.compiled.plan);
        Ok(plan.map(of).unwrap_or_default())
    }

    /// The figures of a batch that was just read.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn view_of_batch(
        &self,
        environment: Environment,
        batch: Batch,
    ) -> Result<BatchView, Error> {
        let view = read::view(&self.node, environment, batch).await;
        view.map_err(|error| unreadable(&error))
    }

    /// The estimated cost of the rows of a batch that wait to be started.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] while it loads, [`Error::Unavailable`], also while the rows are read.
    pub async fn estimate_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<(BatchView, Estimate), Error> {
        let view = self.batch_view(environment, id).await?;
        if view.batch.status == Status::Loading {
            return Err(Error::InvalidState(format!(
                "batch {id} is loading: estimate it once it has loaded"
            )));
        }
        let estimate = estimate::of_waiting(self.reader(), environment, view.batch.clone()).await?;
        Ok((view, estimate))
    }

    async fn source(
        &self,
        environment: Environment,
        reuse: Option<Reuse>,
        template: &str,
    ) -> Result<Option<TemplateBatchId>, Error> {
        match reuse {
            None => Ok(None),
            Some(Reuse::Batch(id)) => match self.stored_batch(environment, id).await {
                Ok(batch) => Ok(Some(batch.id)),
                Err(Error::NotFound { .. }) => {
                    let says =
                        format!("reuse must name a batch, or be latest: {id} does not exist");
                    Err(Error::invalid("reuse", Rule::Unknown, says))
                }
                Err(error) => Err(error),
            },
            Some(Reuse::Latest) => {
                let statuses =
                    vec![Status::Running, Status::Paused, Status::Completed, Status::Cancelled];
                let window = Window { limit: 1, offset: 0 };
                let template = Some(template.to_owned());
                let query = Batches { statuses, template, window, ..Batches::default() };
                let found = batches::batches(self.node.store(), environment, &query).await;
                let found = found.map_err(|error| unreadable(&error))?;
                Ok(found.items.first().map(|batch| batch.id))
            }
        }
    }

    async fn stored_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<Batch, Error> {
        let found = batches::batch(self.node.store(), environment, id).await;
        let found = found.map_err(|error| unreadable(&error))?;
        let found = found.filter(|batch| batch.status != Status::Deleting);
        found.ok_or_else(|| Error::not_found("batch", id))
    }

    /// Batches, the newest first, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn batch_views(
        &self,
        environment: Environment,
        query: &Batches,
    ) -> Result<Page<BatchView>, Error> {
        let page = batches::batches(self.node.store(), environment, query).await;
        let page = page.map_err(|error| unreadable(&error))?;
        let mut items = Vec::with_capacity(page.items.len());
        for batch in page.items {
            items.push(self.view_of_batch(environment, batch).await?);
        }
        Ok(Page { items, total: page.total })
    }

    /// A page of the rows of a batch.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] for an unknown step, [`Error::Unavailable`], also while the rows are read
    /// for the first time.
    pub async fn batch_rows(
        &self,
        environment: Environment,
        id: TemplateBatchId,
        rows: &Rows,
    ) -> Result<RowPage, Error> {
        let batch = self.stored_batch(environment, id).await?;
        read::page(self.reader(), environment, &batch, rows).await
    }

    /// Compares the outputs of the rows of two batches that have the same key.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] for a step that one of them does not have, [`Error::Unavailable`].
    pub async fn compare_batches(
        &self,
        environment: Environment,
        [a, b]: [TemplateBatchId; 2],
        compare: &Compare,
    ) -> Result<Comparison, Error> {
        let views =
            [self.batch_view(environment, a).await?, self.batch_view(environment, b).await?];
        read::compare::page(self.reader(), environment, views, compare).await
    }

    /// The members that the schema of the last step declares for its output, in their order; none without such a
    /// schema.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn batch_outputs(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<Vec<String>, Error> {
        let batch = self.stored_batch(environment, id).await?;
        let plan = self.node.plan(environment, batch.plan).await;
        let Some(known) = plan.map_err(|error| unreadable(&error))? else { return Ok(Vec::new()) };
        let last = known.compiled.plan.steps().len().saturating_sub(1);
        let schema = u16::try_from(last).ok().and_then(|last| known.compiled.schema_of(last));
        let declared = schema.and_then(|schema| schema.declared().ok()).unwrap_or_default();
        Ok(declared.into_iter().map(str::to_owned).collect())
    }

    /// Lets no further row of a batch start. One that is paused stays so.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has ended, [`Error::Unavailable`].
    pub async fn pause_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<BatchView, Error> {
        let batch = self.ask_batch(environment, id, Message::Pause).await?;
        self.view_of_batch(environment, batch).await
    }

    /// Lets rows of a batch start again.
    ///
    /// # Errors
    /// Those of [`Handle::pause_batch`].
    pub async fn resume_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<BatchView, Error> {
        let batch = self.ask_batch(environment, id, Message::Resume).await?;
        self.view_of_batch(environment, batch).await
    }

    /// Cancels a batch: no further row starts, and rows that run are cancelled soon.
    ///
    /// # Errors
    /// Those of [`Handle::pause_batch`].
    pub async fn cancel_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<BatchView, Error> {
        let batch = self.ask_batch(environment, id, Message::Cancel).await?;
        self.view_of_batch(environment, batch).await
    }

    /// Runs failed rows of a batch anew, each once; good results of their steps are kept. Returns the number of
    /// rows. After `Ok` a restart does not lose any.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it is cancelled, [`Error::Unavailable`].
    pub async fn retry_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
        retry: Retry,
    ) -> Result<(BatchView, u32), Error> {
        let asked = self.ask_batch(environment, id, |reply| Message::Retry(retry, reply));
        let (batch, count) = asked.await?;
        Ok((self.view_of_batch(environment, batch).await?, count))
    }

    /// Asks for reviews of outputs of a batch that have passed: nothing waits for the decisions. A repeated request
    /// asks for further ones.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] while it loads, [`Error::Invalid`] for an unknown step or field,
    /// [`Error::Unavailable`], also while the rows are read for the first time.
    pub async fn review_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
        order: ReviewsOrder,
    ) -> Result<ReviewsAsked, Error> {
        self.admit()?;
        let batch = self.stored_batch(environment, id).await?;
        if batch.status == Status::Loading {
            return Err(Error::InvalidState(format!(
                "batch {id} is loading: it has no outputs yet"
            )));
        }
        let seed = self.node.kernel.ports.entropy.bits();
        let of = (order.step.as_deref(), order.way.field.as_deref());
        let found = Unreviewed::of(self.reader(), environment, &batch, of, (order.order, seed));
        let found = found.await?;
        let (mut asked, mut rows) = (0, found.rows.as_slice());
        while asked < order.top && !rows.is_empty() {
            let room = usize::try_from(order.top - asked).unwrap_or(usize::MAX);
            let (next, rest) = rows.split_at(rows.len().min(room).min(TOGETHER));
            rows = rest;
            let tasks = found.tasks(self.reader(), environment, &batch, next).await?;
            let ask = |task: TaskId| {
                let way = order.way.clone();
                self.call_approval(environment, task, |reply| OfApproval::Ask(way, reply))
            };
            for answer in join_all(tasks.into_iter().map(ask)).await {
                match answer {
                    Ok(_) => asked += 1,
                    // Another request has asked for it, or the task went meanwhile.
                    Err(
                        Error::InvalidState(_)
                        | Error::AlreadyDecided { .. }
                        | Error::NotFound { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(ReviewsAsked { asked, left: u32::try_from(rows.len()).unwrap_or(u32::MAX) })
    }

    /// The steps of a batch whose outputs reviews were requested of, in the order of the plan.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn reviewed_steps(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<Vec<String>, Error> {
        let batch = self.stored_batch(environment, id).await?;
        let steps = async {
            let store = self.node.store();
            let mut steps = Vec::new();
            if !approvals::has_requested(store, environment, id, None).await? {
                return Ok(steps);
            }
            let known = self.node.plan(environment, batch.plan).await?;
            for step in known.iter().flat_map(|known| known.compiled.plan.steps()) {
                if approvals::has_requested(store, environment, id, Some(step.id())).await? {
                    steps.push(step.id().to_owned());
                }
            }
            Ok(steps)
        };
        steps.await.map_err(|error| unreadable(&error))
    }

    /// Deletes a batch that has ended, with its executions and their tasks. After `Ok` no read shows the batch; the
    /// rest goes soon, also after a restart.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has not ended, [`Error::Unavailable`].
    pub async fn delete_batch(
        &self,
        environment: Environment,
        id: TemplateBatchId,
    ) -> Result<(), Error> {
        self.ask_batch(environment, id, Message::Delete).await
    }

    async fn ask_batch<T>(
        &self,
        environment: Environment,
        id: TemplateBatchId,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    ) -> Result<T, Error> {
        self.admit()?;
        self.stored_batch(environment, id).await?;
        let (reply, answer) = oneshot::channel();
        let address = Address { environment, batch: id };
        self.node.shard(id.partition()).batches.send(address, message(reply));
        within(COMMAND, answer).await?
    }
}
