//! The upload of a batch: rows are checked and written as they come.
//!
//! ```text
//!   rows ─▶ checked by the template's input schema ─▶ commits of many rows, a few on their way ─▶ the batch runs
//! ```
//!
//! The memory follows the commits on their way, and 16 bytes for the key of each row, and 20 for its question where rows
//! that ask the same are answered once. An upload that breaks off leaves
//! nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::batch::{self, Batch, MAX_KEY, MAX_ROWS, Row, RowError, RowState};
use callboard_domain::execution::program::CompiledPlan;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_store::{Op, Outcome, Ticket};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::handle::Handle;
use crate::kernel::address::BatchAddress as Address;
use crate::messages::batch::Message;
use crate::node::Node;
use crate::read::batches::estimate::{Estimate, Estimator};
use crate::tables::batches;

/// The most operations of one commit, and the most bytes of the inputs in it: other writers wait while one is written.
const OPS: usize = 256;
const BYTES: usize = 128 << 10;
/// The rows with a fault that the trial of an upload shows.
const FAULTS: usize = 20;
/// The first rows of an upload, by whose estimated cost that of all is expected.
const SAMPLE: u32 = 200;
/// The commits on their way at a time.
const COMMITS: usize = 2;

/// A row as it was given.
#[derive(Debug)]
pub struct GivenRow {
    /// The key; by default the number of the row, from 1.
    pub key: Option<String>,
    /// The input, or the fault by which there is none.
    pub input: Result<Map<String, Value>, String>,
}

/// A row with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The number of the row, from 1.
    pub row: u32,
    /// The fault.
    pub error: RowError,
}

/// An upload under way; dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct BatchUpload {
    node: Arc<Node>,
    environment: Environment,
    batch: Batch,
    compiled: Arc<CompiledPlan>,
    keys: HashSet<[u8; 16]>,
    /// The first row of each question, if rows that ask the same are answered once.
    questions: Option<HashMap<[u8; 16], u32>>,
    ops: Vec<Op>,
    bytes: usize,
    commits: VecDeque<Ticket>,
    /// The estimate: of all rows of an upload that is only tried, of the first ones of any other.
    estimator: Option<Box<Estimator>>,
    /// True if nothing is stored.
    is_tried: bool,
    faults: Vec<Rejected>,
    is_over: bool,
}

/// An upload that was only tried.
#[derive(Debug, Clone)]
pub struct TriedUpload {
    /// All rows.
    pub total: u32,
    /// The rows with a fault.
    pub invalid: u32,
    /// The first of these.
    pub faults: Vec<Rejected>,
    /// The estimate of the others.
    pub estimate: Estimate,
}

/// Begins an upload: the batch exists from here on, and loads.
pub(crate) async fn begin(
    node: Arc<Node>,
    environment: Environment,
    batch: Batch,
    compiled: Arc<CompiledPlan>,
    mut rows: Vec<Op>,
    (estimator, is_tried): (Estimator, bool),
) -> Result<BatchUpload, Error> {
    rows.extend(batches::put(environment, &batch));
    let upload = BatchUpload {
        node,
        environment,
        questions: batch.dedupe.then(HashMap::new),
        batch,
        compiled,
        keys: HashSet::new(),
        ops: Vec::new(),
        bytes: 0,
        commits: VecDeque::new(),
        is_over: is_tried,
        estimator: Some(Box::new(estimator)),
        is_tried,
        faults: Vec::new(),
    };
    if !upload.is_tried {
        durable(upload.commit(rows)).await?;
    }
    Ok(upload)
}

async fn durable(ticket: Ticket) -> Result<(), Error> {
    match ticket.await {
        Outcome::Committed => Ok(()),
        Outcome::Fenced | Outcome::Conflict(_) | Outcome::NotApplied(_) | Outcome::Unknown(_) => {
            Err(Error::Unavailable("the rows could not be stored"))
        }
    }
}

impl BatchUpload {
    /// The identifier of the batch.
    #[must_use]
    pub const fn id(&self) -> TemplateBatchId {
        self.batch.id
    }

    /// True if no row was added.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.batch.total == 0
    }

    /// The type that the input schema of the template declares for a member at its root: `string`, `number` and so
    /// on; `None` for a member of several types, or none.
    #[must_use]
    pub fn declared_type(&self, member: &str) -> Option<&str> {
        self.property(member)?.get("type")?.as_str()
    }

    /// True if the input schema of the template declares the member at its root.
    #[must_use]
    pub fn declares(&self, member: &str) -> bool {
        self.property(member).is_some()
    }

    fn property(&self, member: &str) -> Option<&Value> {
        self.compiled.input_schema.as_ref()?.source().get("properties")?.get(member)
    }

    fn commit(&self, ops: Vec<Op>) -> Ticket {
        let partition = self.batch.id.partition();
        self.node.shard(partition).commit(partition, ops)
    }

    /// Adds a row. A fault of the row is kept with it, and returned.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are too many rows, [`Error::Unavailable`]: the upload is to be dropped.
    pub async fn add(&mut self, row: GivenRow) -> Result<Option<Rejected>, Error> {
        let number = self.batch.total;
        if number == MAX_ROWS {
            let says =
                format!("rows must be at most {MAX_ROWS}: split the file into several batches");
            return Err(Error::invalid("rows", callboard_domain::Rule::Length, says));
        }
        self.batch.total += 1;
        let shown = number + 1;
        let key = row.key.unwrap_or_else(|| shown.to_string());
        let checked = match self.checked_key(&key) {
            Ok(()) => self.checked_input(row.input).await?,
            Err(error) => Err(error),
        };
        let at = (self.batch.id, number);
        let mut like = None;
        let (state, rejected) = match checked {
            Ok(input) => {
                if let Some(questions) = &mut self.questions {
                    let asked = batch::question(&self.compiled.plan, &input);
                    let first = *questions.entry(asked).or_insert(number);
                    like = (first != number).then_some(first);
                }
                if let Some(estimator) = &mut self.estimator
                    && (self.is_tried || estimator.looked_at() < SAMPLE)
                {
                    if like.is_some() {
                        estimator.add_same();
                    } else {
                        estimator.add(&self.batch.account, &key, input.clone()).await?;
                    }
                }
                if self.is_tried {
                    return Ok(None);
                }
                let text = serde_json::to_string(&input).map_err(|_| Error::Internal)?;
                let ops = batches::put_input(self.environment, at, &text);
                self.node.limits.holdings.store(self.environment, &self.batch.account, &ops);
                self.bytes += text.len();
                self.ops.extend(ops);
                (RowState::Pending, None)
            }
            Err(error) => {
                self.batch.invalid += 1;
                let rejected = Rejected { row: shown, error: error.clone() };
                (RowState::Invalid(error), Some(rejected))
            }
        };
        if self.is_tried {
            self.faults.extend(rejected.clone().filter(|_| self.faults.len() < FAULTS));
            return Ok(rejected);
        }
        let key = key.chars().take(MAX_KEY).collect();
        self.ops.push(batches::put_row(self.environment, at, &Row { key, state, like }));
        if self.ops.len() >= OPS || self.bytes >= BYTES {
            self.flush().await?;
        }
        Ok(rejected)
    }

    fn checked_key(&mut self, key: &str) -> Result<(), RowError> {
        let invalid = |says: &str| Err(RowError::new("VALIDATION_ERROR", says));
        if key.is_empty() {
            return invalid("the key is empty");
        }
        if key.chars().count() > MAX_KEY {
            return invalid(&format!("the key must have at most {MAX_KEY} characters"));
        }
        let digest: [u8; 32] = Sha256::digest(key).into();
        let (digest, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        if self.keys.insert(*digest) {
            return Ok(());
        }
        invalid(&format!("an earlier row has the key {key:?}"))
    }

    async fn checked_input(
        &self,
        input: Result<Map<String, Value>, String>,
    ) -> Result<Result<Map<String, Value>, RowError>, Error> {
        let input = match input {
            Ok(input) => input,
            Err(fault) => return Ok(Err(RowError::new("VALIDATION_ERROR", &fault))),
        };
        let Some(schema) = &self.compiled.input_schema else { return Ok(Ok(input)) };
        let handle = Handle::owed(Arc::clone(&self.node));
        let invalid =
            |error: &Error| Ok(Err(RowError::new("VALIDATION_ERROR", &error.to_string())));
        match handle.checked_input(self.environment, &self.batch.account, schema, input).await {
            Ok(input) => Ok(Ok(input)),
            Err(error @ (Error::Invalid(_) | Error::InvalidDefinition(_))) => invalid(&error),
            Err(error) => Err(error),
        }
    }

    /// The end of an upload that was only tried; `None` for any other.
    pub fn tried(&mut self) -> Option<TriedUpload> {
        let estimate = self.estimator.take_if(|_| self.is_tried)?.done();
        let (total, invalid) = (self.batch.total, self.batch.invalid);
        Some(TriedUpload { total, invalid, faults: std::mem::take(&mut self.faults), estimate })
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let ops = std::mem::take(&mut self.ops);
        self.bytes = 0;
        if self.commits.len() >= COMMITS
            && let Some(first) = self.commits.pop_front()
        {
            let began = Instant::now();
            durable(first).await?;
            // Other writers have half of the time.
            tokio::time::sleep(began.elapsed()).await;
        }
        self.node.shard(self.batch.id.partition()).room().await;
        let ticket = self.commit(ops);
        self.commits.push_back(ticket);
        Ok(())
    }

    /// Ends the upload: after `Ok` all rows are durable, and start.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn finish(mut self, body: Option<String>) -> Result<Batch, Error> {
        self.flush().await?;
        while let Some(ticket) = self.commits.pop_front() {
            durable(ticket).await?;
        }
        let sample = self.estimator.take().map(|estimator| estimator.done());
        let rows = self.batch.total - self.batch.invalid;
        self.batch.estimated = sample.and_then(|sample| sample.of_all(rows));
        self.batch.started_at = Some(self.node.now());
        if let (Some((_, of)), Some(body)) = (&mut self.batch.key, body) {
            *of = body;
        }
        let (reply, answer) = oneshot::channel();
        self.is_over = true;
        self.send(Message::Loaded(Box::new(self.batch.clone()), reply));
        answer.await.unwrap_or(Err(Error::Internal))
    }

    fn send(&self, message: Message) {
        let address = Address { environment: self.environment, batch: self.batch.id };
        self.node.shard(self.batch.id.partition()).batches.send(address, message);
    }
}

impl Drop for BatchUpload {
    fn drop(&mut self) {
        if !self.is_over {
            // Nobody waits for the end of the removal.
            let (reply, _) = oneshot::channel();
            self.send(Message::Delete(reply));
        }
    }
}
