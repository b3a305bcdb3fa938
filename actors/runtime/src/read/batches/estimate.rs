//! The estimate of rows that have not run: of an upload that is only tried, and of a batch that waits.
//!
//! Each row is rendered, long ones on a thread of their own, so the memory is that of one row.

use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::batch::{self, Batch, RowState};
use callboard_domain::budget::Money;
use callboard_domain::estimate::{PastSteps, RowsEstimate};
use callboard_domain::execution::program::{About, CompiledPlan, Program, ReviewPolicy};
use callboard_domain::id::{Environment, ExecutionId, TemplateBatchId};
use callboard_domain::plan::Step;
use callboard_domain::usage::Prices;
use callboard_store::Error as StoreError;
use serde_json::{Map, Value};

use super::Reader;
use crate::kernel::walks::{Walk, Walks, keep};
use crate::node::Node;
use crate::read::answers::{self, Lengths, Of};
use crate::read::batches::Keys;
use crate::read::unreadable;
use crate::tables::{batches, executions};

/// The weight of the texts of a row that is rendered here and now.
const BRIEF: usize = 64 << 10;
/// The time that a request waits for an estimate.
const WAIT: Duration = Duration::from_secs(20);
/// The number of rows that are read at a time.
const PAGE: usize = 500;

/// The estimates of the waiting rows of batches.
pub(crate) type Estimates = Walks<(Environment, TemplateBatchId, u32), Estimate>;

/// The estimate of some rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// The figures.
    pub rows: RowsEstimate,
    /// The rows whose prompts cannot be rendered: they will fail at no cost.
    pub unrenderable: u32,
    /// The rows that will take over all their answers: their input was answered under their key by the same version,
    /// or an earlier row asks the same.
    pub reused: u32,
    /// The past executions that were looked at.
    pub past: usize,
}

impl Estimate {
    /// The rows that were looked at.
    const fn looked_at(&self) -> u32 {
        self.rows.rows + self.unrenderable + self.reused
    }

    /// The expected cost of so many rows like these; `None` without any, or if a model has no price.
    pub(crate) fn of_all(&self, rows: u32) -> Option<Money> {
        let seen = self.looked_at();
        let is_known = seen > 0 && !self.rows.price_unknown;
        is_known.then(|| Money::from_usd(self.rows.cost / f64::from(seen) * f64::from(rows)))
    }
}

/// An estimate to which rows are added.
#[derive(Debug)]
pub(crate) struct Estimator {
    node: Arc<Node>,
    compiled: Arc<CompiledPlan>,
    past: Arc<PastSteps>,
    prices: Arc<Prices>,
    /// The batch whose answers are taken over, and its rows.
    source: Option<(TemplateBatchId, Keys)>,
    environment: Environment,
    estimate: Estimate,
}

impl Estimator {
    /// The estimator of the rows of a batch.
    pub(crate) async fn of(
        node: Arc<Node>,
        environment: Environment,
        compiled: Arc<CompiledPlan>,
        batch: &Batch,
    ) -> Result<Self, StoreError> {
        let template = Of::Template(&batch.template);
        let (steps, past) = answers::past(&node, environment, template, Lengths::Counted).await?;
        let (prices, estimate) =
            (node.limits.prices.get(), Estimate { past, ..Estimate::default() });
        let source = match batch.reuse {
            Some(id) => {
                let found = batches::batch(node.store(), environment, id).await?;
                let is_same = |found: &Batch| {
                    (&found.template, &found.version) == (&batch.template, &batch.version)
                };
                match found.filter(is_same) {
                    Some(_) => Some((id, Keys::of(&node, environment, id).await?)),
                    None => None,
                }
            }
            None => None,
        };
        let past = Arc::new(steps);
        Ok(Self { node, compiled, past, prices, source, environment, estimate })
    }

    /// True if a row with this key and input was answered in the batch whose answers are taken over.
    async fn is_reused(&self, key: &str, input: &Map<String, Value>) -> Result<bool, StoreError> {
        let found = self.source.as_ref().and_then(|(id, keys)| Some((*id, keys.row(key)?)));
        let Some((id, row)) = found else { return Ok(false) };
        let (store, execution) = (self.node.store(), batch::execution(id, row));
        let head = executions::head(store, self.environment, execution).await?;
        if !head.is_some_and(|head| head.is_completed()) {
            return Ok(false);
        }
        let Some(mut begun) = executions::begun(store, self.environment, execution).await? else {
            return Ok(false);
        };
        Ok(begun.take_input(store, self.environment).await? == *input)
    }

    /// Adds a row of the account with this key and input.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`], [`Error::Unavailable`].
    pub(crate) async fn add(
        &mut self,
        account: &str,
        key: &str,
        input: Map<String, Value>,
    ) -> Result<(), Error> {
        if self.is_reused(key, &input).await.map_err(|error| unreadable(&error))? {
            self.estimate.reused += 1;
            return Ok(());
        }
        let usual = self.node.task_defaults(self.environment);
        let about = About::new(ExecutionId::from_u128(0), self.node.now(), None);
        let (compiled, review) = (Arc::clone(&self.compiled), ReviewPolicy { hitl: None });
        let program = Program::new(about, compiled, review, input, Arc::clone(&usual));
        let weight: usize = {
            let (steps, scope) = (self.compiled.plan.steps(), program.scope_at_start());
            let texts = steps.iter().flat_map(Step::texts);
            texts.map(|text| text.weight(&scope)).fold(0, usize::saturating_add)
        };
        let mut rows = self.estimate.rows.clone();
        let (compiled, past) = (Arc::clone(&self.compiled), Arc::clone(&self.past));
        let prices = Arc::clone(&self.prices);
        let add = move || {
            let (scope, known) = (program.scope_at_start(), (usual.model.as_str(), &*past));
            let added = rows.add(&compiled.plan, &scope, known, &prices);
            (rows, added.is_ok())
        };
        let bytes = (weight > BRIEF).then_some(weight);
        let (rows, is_rendered) =
            self.node.kernel.compute.ask(self.environment, account, bytes, add).await?;
        self.estimate.rows = rows;
        self.estimate.unrenderable += u32::from(!is_rendered);
        Ok(())
    }

    /// The rows that were looked at.
    pub(crate) const fn looked_at(&self) -> u32 {
        self.estimate.looked_at()
    }

    /// Adds a row that asks the same as an earlier one, whose answer it takes over.
    pub(crate) const fn add_same(&mut self) {
        self.estimate.reused += 1;
    }

    pub(crate) fn done(self) -> Estimate {
        self.estimate
    }
}

/// The estimate of the rows of a batch that wait to be started.
///
/// # Errors
/// [`Error::Unavailable`] if it is not ready after some seconds; it goes on then.
pub(crate) async fn of_waiting(
    reader: Reader<'_>,
    environment: Environment,
    batch: Batch,
) -> Result<Estimate, Error> {
    let node = reader.node;
    let (key, weak) = ((environment, batch.id, batch.pending), Arc::downgrade(node));
    let keep = keep(&[&batch]);
    let walk = reader
        .kept
        .estimates
        .of(key, keep, Estimate::default(), |walk| fill(weak, environment, batch, walk))?;
    if walk.wait(WAIT).await? {
        return Ok(walk.result().clone());
    }
    Err(Error::Unavailable("the rows are being read: ask again in a few seconds"))
}

async fn fill(
    node: Weak<Node>,
    environment: Environment,
    batch: Batch,
    walk: Arc<Walk<Estimate>>,
) -> Result<(), StoreError> {
    let corrupt = |reason: &str| StoreError::Corrupt {
        path: format!("the rows of {}", batch.id),
        reason: reason.to_owned(),
    };
    let own = node.upgrade().ok_or(StoreError::Stopped)?;
    let known = own.plan(environment, batch.plan).await?;
    let compiled = known.ok_or_else(|| corrupt("the plan is missing"))?.compiled.clone();
    let mut estimator = Estimator::of(own, environment, compiled, &batch).await?;
    let mut after = None;
    loop {
        let own = Arc::clone(&estimator.node);
        let page = batches::rows(own.store(), environment, batch.id, after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (number, row) in page {
            if row.state != RowState::Pending {
                continue;
            }
            if row.like.is_some() {
                estimator.add_same();
                continue;
            }
            let text = batches::input(own.store(), environment, (batch.id, number)).await?;
            // It was started just now.
            let Some(text) = text else { continue };
            let input = serde_json::from_str(&text);
            let input = input.map_err(|error| corrupt(&error.to_string()))?;
            let added = estimator.add(&batch.account, &row.key, input).await;
            added.map_err(|error| corrupt(&error.to_string()))?;
        }
        tokio::task::yield_now().await;
    }
    *walk.result() = estimator.done();
    Ok(())
}

/// The estimate of an upload, which is a refusal if rows cannot be read.
pub(crate) async fn begin(
    node: Arc<Node>,
    environment: Environment,
    compiled: Arc<CompiledPlan>,
    batch: &Batch,
) -> Result<Estimator, Error> {
    let made = Estimator::of(node, environment, compiled, batch).await;
    made.map_err(|error| unreadable(&error))
}
