//! Batches in the form of `OpenAI`'s interface, and what the edge needs to run them: it reads their lines.

use std::sync::Arc;

use callboard_domain::access::{Account, Action, Caller};
use callboard_domain::chat_batch::{self, ChatBatch, Counts, Event, MAX_INPUT, MAX_OPEN, Order};
use callboard_domain::digest::Digest;
use callboard_domain::file::Purpose;
use callboard_domain::id::{ChatBatchId, Environment};
use callboard_domain::query::{Keyset, Page};
use callboard_domain::task::{Request, Status};
use callboard_domain::{Error, Rule};
use callboard_store::Op;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::Handle;
use crate::items::accounts::caller_of;
use crate::items::submission::{self, NewWork, Scheduled, Submission};
use crate::items::task;
use crate::kernel::address::TaskAddress;
use crate::kernel::finish::Finish;
use crate::messages::submission::Owner;
use crate::node::files::durable;
use crate::read::unreadable;
use crate::tables::CHAT_LINES;
use crate::tables::chat_batches::{self as tables, ChatLine};

/// The tasks that are cancelled, or the rows that are removed, side by side.
const LOT: usize = 256;

impl Handle {
    /// Creates a batch. After `Ok` it survives a power cut, and each of its lines becomes one task. Returns true if
    /// the key had created it before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another input file, [`Error::TooManyOpen`], [`Error::IdempotencyKeyReused`],
    /// [`Error::Unavailable`].
    pub async fn create_chat_batch(
        &self,
        owner: &Owner,
        order: Order,
        key: Option<&str>,
    ) -> Result<(ChatBatch, bool), Error> {
        let (environment, own) = (owner.environment, &self.node.state.chat_batches);
        let writing = Arc::clone(&own.writing).lock_owned().await;
        let key = key.map(|key| {
            let key = self.scoped_key(owner, "chat/batches", key, &order);
            (Digest::of(&format!("{:?}", key.scope)).to_string(), key.body)
        });
        if let Some((scope, _)) = &key {
            let before = tables::of_key(self.node.store(), environment, scope).await;
            if let Some(before) = before.map_err(|error| unreadable(&error))? {
                let is_same = before.key == key;
                return is_same.then_some((before, true)).ok_or(Error::IdempotencyKeyReused);
            }
        }
        if let Some(pause) = self.node.pause() {
            pause.admit()?;
        }
        if own.count(environment) >= MAX_OPEN as usize {
            return Err(Error::TooManyOpen { what: "batches", limit: MAX_OPEN });
        }
        let refuse = |says: &str| {
            let says = format!("input_file_id names {}, which {says}", order.input);
            Error::invalid("input_file_id", Rule::Format, says)
        };
        let _held = self.node.state.files.held.keep(&(environment, order.input)).await;
        let file = match self.file(environment, order.input).await {
            Err(Error::NotFound { .. }) => None,
            found => Some(found?),
        };
        let Some(file) = file else {
            return Err(refuse("does not exist: upload it first, at POST /v1/files"));
        };
        if file.purpose != Some(Purpose::Batch) {
            return Err(refuse("has another purpose than batch: upload it with that"));
        }
        if file.bytes > MAX_INPUT {
            return Err(refuse("has more than 200 MB: split it"));
        }
        let partition = (self.node.kernel.ports.entropy.bits() & 0xff) as u8;
        let id = ChatBatchId::from_u128(self.node.fresh_id(self.now(), partition));
        let batch = ChatBatch::new(id, owner.id.clone(), order, key);
        Ok((self.write_chat_batch(writing, environment, batch).await?, false))
    }

    /// Makes a batch durable, also if the caller leaves; the next writer waits until then.
    async fn write_chat_batch(
        &self,
        writing: OwnedMutexGuard<()>,
        environment: Environment,
        batch: ChatBatch,
    ) -> Result<ChatBatch, Error> {
        let handle = self.clone();
        Finish::new(async move {
            handle.commit(batch.id, tables::put(environment, &batch)).await?;
            let (own, key) = (&handle.node.state.chat_batches, (environment, batch.id));
            if batch.cleared {
                own.forget(key);
            } else {
                own.keep(key, batch.order.input);
            }
            own.wake.notify_one();
            drop(writing);
            Ok(batch)
        })
        .await
    }

    /// A batch, and its lines by their outcome so far.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn chat_batch(
        &self,
        environment: Environment,
        id: ChatBatchId,
    ) -> Result<(ChatBatch, Counts), Error> {
        let batch = tables::batch(self.node.store(), environment, id).await;
        let batch = batch.map_err(|error| unreadable(&error))?;
        self.counted(environment, batch.ok_or_else(|| Error::not_found("batch", id))?).await
    }

    async fn counted(
        &self,
        environment: Environment,
        batch: ChatBatch,
    ) -> Result<(ChatBatch, Counts), Error> {
        let counts = tables::counts(self.node.store(), environment, &batch).await;
        Ok((batch, counts.map_err(|error| unreadable(&error))?))
    }

    /// Batches, read on from one; with the number of all that follow it.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn chat_batches(
        &self,
        environment: Environment,
        page: Keyset,
    ) -> Result<Page<(ChatBatch, Counts)>, Error> {
        let found = tables::batches(self.node.store(), environment, page).await;
        let found = found.map_err(|error| unreadable(&error))?;
        let mut items = Vec::with_capacity(found.items.len());
        for batch in found.items {
            items.push(self.counted(environment, batch).await?);
        }
        Ok(Page { items, total: found.total })
    }

    /// Changes a batch by an event, durably.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if the event does not fit, [`Error::Unavailable`].
    pub async fn change_chat_batch(
        &self,
        environment: Environment,
        id: ChatBatchId,
        event: Event,
    ) -> Result<ChatBatch, Error> {
        let writing = Arc::clone(&self.node.state.chat_batches.writing).lock_owned().await;
        let before = tables::batch(self.node.store(), environment, id).await;
        let before = before.map_err(|error| unreadable(&error))?;
        let before = before.ok_or_else(|| Error::not_found("batch", id))?;
        let next = before.on(event, self.now())?;
        if next == before {
            return Ok(next);
        }
        self.write_chat_batch(writing, environment, next).await
    }

    async fn commit(&self, id: ChatBatchId, ops: Vec<Op>) -> Result<(), Error> {
        durable(self.node.shard(id.partition()).commit(id.partition(), ops)).await
    }
}

/// For the runner of batches.
impl Handle {
    /// The batches that something is still to be done for.
    #[must_use]
    pub fn open_chat_batches(&self) -> Vec<(Environment, ChatBatchId)> {
        let mut open = self.node.state.chat_batches.all();
        let served = self.node.environments();
        open.retain(|(environment, _)| served.contains(environment));
        open
    }

    /// Waits until a batch was created or changed.
    pub async fn chat_batch_changed(&self) {
        self.node.state.chat_batches.wake.notified().await;
    }

    /// The account of a batch, if it may still submit tasks.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Forbidden`].
    pub fn caller_of_chat_batch(
        &self,
        environment: Environment,
        batch: &ChatBatch,
    ) -> Result<Caller, Error> {
        let account: Account = batch.account.parse().map_err(|_| Error::Internal)?;
        let slot = environment.slot();
        let caller = caller_of(&self.node.state.accounts, account, slot, self.node.now())?;
        caller.may(Action::BatchesRun)?;
        Ok(Caller { environment, ..caller })
    }

    /// A line that is durable.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn chat_line(
        &self,
        environment: Environment,
        at: (ChatBatchId, u32),
    ) -> Result<Option<ChatLine>, Error> {
        let line = tables::line(self.node.store(), environment, at).await;
        line.map_err(|error| unreadable(&error))
    }

    /// Durable lines of a batch from a number on.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn chat_lines(
        &self,
        environment: Environment,
        from: (ChatBatchId, u32),
    ) -> Result<Vec<(u32, ChatLine)>, Error> {
        let lines = tables::lines(self.node.store(), environment, from, LOT).await;
        lines.map_err(|error| unreadable(&error))
    }

    /// Makes the task of a line, together with the line's row.
    ///
    /// # Errors
    /// Those of [`Handle::submit`] without those of a key.
    pub async fn submit_chat_line(
        &self,
        owner: &Owner,
        (batch, line): (ChatBatchId, u32),
        custom_id: String,
        request: Request,
    ) -> Result<(), Error> {
        let tasks = vec![request];
        let files = self.check_tasks(owner, &tasks, |_| String::new()).await?;
        if let Some(pause) = self.node.pause() {
            pause.admit()?;
        }
        let order = NewWork::Tasks(tasks, false);
        let (pool, project) = (&self.node.limits.submissions, owner.environment.slot());
        let admitted = pool.take(project, order.weight()).await;
        let row = ChatLine { custom_id, refusal: None };
        let rows = vec![tables::put_line(owner.environment, (batch, line), &row)];
        let number = chat_batch::task(batch, line).as_u128();
        let submission = Submission {
            environment: owner.environment,
            account: owner.id.clone(),
            trace: None,
            order,
            key: None,
            partition: batch.partition(),
            admitted,
            files,
            scheduled: Some(Box::new(Scheduled { number, rows })),
        };
        // What has begun goes on if the runner stops.
        Finish::new(submission::create(Arc::clone(&self.node), submission)).await.map(drop)
    }

    /// Writes a line of which no task is made.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn refuse_chat_line(
        &self,
        environment: Environment,
        at: (ChatBatchId, u32),
        line: &ChatLine,
    ) -> Result<(), Error> {
        self.commit(at.0, vec![tables::put_line(environment, at, line)]).await
    }

    /// The number of a batch's tasks that have not ended.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn unended_of_chat_batch(
        &self,
        environment: Environment,
        batch: ChatBatchId,
    ) -> Result<u64, Error> {
        let unended = [Status::Pending, Status::Running];
        let tasks = tables::tasks(self.node.store(), environment, batch, &unended, 0).await;
        tasks.map(|(_, count)| count).map_err(|error| unreadable(&error))
    }

    /// Cancels the tasks of a batch that have not ended, some at a time.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn cancel_tasks_of_chat_batch(
        &self,
        environment: Environment,
        batch: &ChatBatch,
    ) -> Result<(), Error> {
        let unended = [Status::Pending, Status::Running];
        let tasks = tables::tasks(self.node.store(), environment, batch.id, &unended, LOT).await;
        let (tasks, _) = tasks.map_err(|error| unreadable(&error))?;
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            let (reply, answer) = oneshot::channel();
            let message = task::Message::Cancel(batch.account.clone(), reply);
            self.node.send(TaskAddress { environment, task }, message);
            answers.push(answer);
        }
        for answer in answers {
            // A task that has ended meanwhile refuses; one whose actor broke is asked again.
            let _ = tokio::time::timeout(super::COMMAND, answer).await;
        }
        Ok(())
    }

    /// Removes the rows of the lines of a batch that has ended.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn clear_chat_batch(
        &self,
        environment: Environment,
        id: ChatBatchId,
    ) -> Result<(), Error> {
        loop {
            let lines = self.chat_lines(environment, (id, 0)).await?;
            if lines.is_empty() {
                return self.change_chat_batch(environment, id, Event::Cleared).await.map(drop);
            }
            let delete = |(line, _): &(u32, _)| {
                CHAT_LINES.delete(environment.number(), &(id.as_u128(), *line))
            };
            self.commit(id, lines.iter().map(delete).collect()).await?;
        }
    }
}
