//! The only door to the runtime: what the edge may ask, and every time-out.
//!
//! Each write is one message to an actor, which finishes it whether or not the asker stays.
//! Deliberately absent: who may ask. The edge has checked it.

mod approvals;
mod runs;
mod track;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Caller, Role};
use callboard_domain::account::{Email, User};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::{ApiKey, Secret};
use callboard_domain::digest::Digest;
use callboard_domain::id::{Environment, SessionId, TaskId, UserId, WorkerId};
use callboard_domain::query::{Page, Tasks};
use callboard_domain::task::{LeaseToken, Request, State, Task};
use callboard_domain::worker::{Leases, Moment, Profile};
use callboard_domain::{Error, Timestamp};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};

pub use approvals::{Approve, Reject};
pub use runs::{Deploy, Start};

use crate::accounts::{self, NewKey, NewUser, SignedIn};
use crate::events::Subscription;
use crate::intake::{self, Order, Submission, Submitted};
use crate::node::Node;
use crate::read::{self, TaskDetail};
use crate::shard::Address;
use crate::task;
use crate::worker::{self, Registration, Said, Told, View};

/// How long a command may take before its caller is told to try again.
const COMMAND: Duration = Duration::from_secs(10);
/// How long a submission waits for another one with the same idempotency key (PROTOCOL.md 3).
const SAME_KEY: Duration = Duration::from_secs(2);

/// Whose tasks they are, and what its plan says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The user's or the key's identifier.
    pub id: String,
    /// Production or sandbox.
    pub environment: Environment,
    /// How many of its tasks may run at once, if its plan says so.
    pub concurrent: Option<u32>,
}

/// The door.
#[derive(Debug, Clone)]
pub struct Handle {
    node: Arc<Node>,
}

impl Handle {
    pub(crate) const fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Who an API key stands for, if it is valid now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`].
    pub fn caller_of_key(&self, digest: &Digest) -> Result<Caller, Error> {
        accounts::caller_of_key(&self.node.accounts, digest, self.node.now())
    }

    /// Who a session stands for: the user as it is now.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the session is over or not this user's, or the user is gone.
    pub fn caller_of_session(&self, session: SessionId, user: UserId) -> Result<Caller, Error> {
        accounts::caller_of_session(&self.node.accounts, session, user)
    }

    /// Begins a session of a user whose password was right (SPEC.md, "JWT sessions").
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if the user is gone, [`Error::Unavailable`].
    pub async fn sign_in(&self, user: UserId) -> Result<SignedIn, Error> {
        self.account_command(|reply| accounts::Message::BeginSession(user, reply)).await
    }

    /// Renews the session of a refresh token, which is replaced (PROTOCOL.md 7). After `Err` to one
    /// that was replaced long before, the session is over.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Unavailable`].
    pub async fn refresh(&self, token: RefreshToken) -> Result<SignedIn, Error> {
        // The time at which it came in: how long it waits for its turn is not its holder's doing.
        let at = self.node.now();
        self.account_command(|reply| accounts::Message::RenewSession(token, at, reply)).await
    }

    /// The user who signs in with this e-mail.
    #[must_use]
    pub fn user_by_email(&self, email: &Email) -> Option<User> {
        self.node.accounts.user_by_email(email)
    }

    /// All users, oldest first.
    #[must_use]
    pub fn users(&self) -> Vec<User> {
        self.node.accounts.users()
    }

    /// Makes a user (SPEC.md, Authentication endpoints).
    ///
    /// # Errors
    /// [`Error::EmailExists`], [`Error::Unavailable`].
    pub async fn create_user(&self, new: NewUser) -> Result<User, Error> {
        self.account_command(|reply| accounts::Message::CreateUser(new, reply)).await
    }

    /// Makes the first user, unless there is one; says whether it was made.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn create_first_user(&self, new: NewUser) -> Result<Option<User>, Error> {
        self.account_command(|reply| accounts::Message::CreateFirstUser(new, reply)).await
    }

    /// Gives a user another role, from the next request on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for the last admin, [`Error::Unavailable`].
    pub async fn set_role(&self, id: UserId, role: Role) -> Result<User, Error> {
        self.account_command(|reply| accounts::Message::SetRole(id, role, reply)).await
    }

    /// Makes an API key. Its text is told here and never again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such kind of key, [`Error::Unavailable`].
    pub async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        self.account_command(|reply| accounts::Message::CreateKey(new, reply)).await
    }

    async fn account_command<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> accounts::Message,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell_accounts(message(reply))?;
        within(COMMAND, answer).await?
    }

    pub(crate) fn tell_accounts(&self, message: accounts::Message) -> Result<(), Error> {
        let writer = self.node.account_writer.get().ok_or(STOPPING)?;
        writer.cast(message).map_err(|_| STOPPING)
    }

    /// The time, as the service tells it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.node.now()
    }

    /// The monotonic time, by which a worker's silence is measured.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.node.ports.clock.moment()
    }

    /// Makes tasks durable, all or none: as a batch with an identifier, or one alone (SPEC.md,
    /// Tasks; PROTOCOL.md 3). After `Ok` they survive a power cut.
    ///
    /// # Errors
    /// [`Error::IdempotencyKeyReused`], [`Error::IdempotencyKeyInUse`], [`Error::Unavailable`].
    pub async fn submit(
        &self,
        owner: &Owner,
        tasks: Vec<Request>,
        as_batch: bool,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        let endpoint = if as_batch { "tasks/batch" } else { "tasks" };
        let key = idempotency_key.map(|key| intake_key(owner, endpoint, key, &tasks));
        self.make(owner, Order::Tasks(tasks, as_batch), key).await
    }

    /// Makes something durable. After `Ok` it survives a power cut.
    async fn make(
        &self,
        owner: &Owner,
        order: Order,
        key: Option<intake::Key>,
    ) -> Result<Submitted, Error> {
        // What a key made shares the key's partition, so that one commit holds both.
        let partition = match &key {
            Some(key) => key.scope[0],
            None => (self.node.ports.entropy.bits() & 0xff) as u8,
        };
        let (wait, keyed) = if key.is_some() { (SAME_KEY, true) } else { (COMMAND, false) };
        let weight = u32::try_from(order.weight().min(intake::UNDER_WAY)).unwrap_or(u32::MAX);
        let admitted = Arc::clone(&self.node.submissions).try_acquire_many_owned(weight);
        let admitted =
            admitted.map_err(|_| Error::Unavailable("too much is on its way to the disk"))?;
        let submission = Submission {
            environment: owner.environment,
            account: owner.id.clone(),
            concurrent: owner.concurrent,
            order,
            key,
            partition,
            admitted,
        };
        let (reply, answer) = oneshot::channel();
        let intake = self.node.shard(partition).intake.get().ok_or(STOPPING)?;
        intake.cast(intake::Message::Submit(Box::new(submission), reply)).map_err(|_| STOPPING)?;
        match tokio::time::timeout(wait, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Internal),
            Err(_) if keyed => Err(Error::IdempotencyKeyInUse),
            Err(_) => Err(Error::Unavailable("the disk is too slow")),
        }
    }

    /// A task with its texts.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn task(&self, environment: Environment, id: TaskId) -> Result<TaskDetail, Error> {
        let store = &*self.node.shard(id.partition()).store;
        read::task(store, environment, id)
            .await
            .map_err(|error| unreadable(&error))?
            .ok_or_else(|| Error::not_found("task", id))
    }

    /// Tasks, and how many there are in all.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn tasks(
        &self,
        environment: Environment,
        query: &Tasks,
    ) -> Result<Page<Task>, Error> {
        read::tasks(self.node.store(), environment, query).await.map_err(|error| unreadable(&error))
    }

    /// Cancels a task, for the account `by`. After `Ok` no worker is given it any more, and what a worker still answers
    /// changes nothing (SPEC.md, States).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has ended, [`Error::Unavailable`].
    pub async fn cancel(
        &self,
        environment: Environment,
        id: TaskId,
        by: &str,
    ) -> Result<Task, Error> {
        self.admit()?;
        let store = &*self.node.shard(id.partition()).store;
        if crate::tables::task(store, environment, id)
            .await
            .map_err(|error| unreadable(&error))?
            .is_none()
        {
            return Err(Error::not_found("task", id));
        }
        let (reply, answer) = oneshot::channel();
        let message = task::Message::Cancel(by.to_owned(), reply);
        self.node.send(Address { environment, task: id }, message);
        let cancelled = within(COMMAND, answer).await??;
        self.flush_workers().await;
        Ok(cancelled)
    }

    /// Waits until every worker was told what it had been given before: a task that was on its way
    /// out when it was cancelled is followed by its cancellation.
    async fn flush_workers(&self) {
        let (said, mut all_said) = mpsc::channel(1);
        let flush = || worker::Message::Flush(said.clone());
        self.node.workers.directory.send_to_all_awake(flush);
        drop(said);
        // Ends when the last worker's actor has dropped its part.
        let _ = all_said.recv().await;
    }

    /// What a pending task waits for (PROTOCOL.md 3); `None` if it is not pending.
    #[must_use]
    pub fn waiting_for(&self, task: &Task) -> Option<&'static str> {
        match task.state {
            State::Ready => match self.node.concurrency.account(&task.spec) {
                Some(account) if !self.node.concurrency.has_room(&account) => Some("limit"),
                Some(_) | None => Some("worker"),
            },
            State::Backoff { .. } => Some("backoff"),
            State::AwaitingApproval { .. } => Some("approval"),
            State::Running { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => None,
        }
    }

    /// The workers, lost ones for an hour.
    #[must_use]
    pub fn workers(&self, environment: Environment) -> Vec<View> {
        self.node.workers.list(environment)
    }

    /// Tells a worker to take nothing new.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn drain_worker(&self, environment: Environment, id: WorkerId) -> Result<View, Error> {
        let found = self.node.workers.get(id).filter(|view| view.environment == environment);
        let mut view = found.ok_or_else(|| Error::not_found("worker", id))?;
        let address = worker::Address { environment, worker: id };
        self.node.workers.directory.send_if_awake(&address, worker::Message::Drain);
        view.worker.drain();
        Ok(view)
    }

    /// Registers a worker on a new connection (PROTOCOL.md 11). What it is told arrives on
    /// `outgoing`; [`Told::Close`] or the channel's end means that the connection is over.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn connect_worker(
        &self,
        owner: &Owner,
        profile: Profile,
        resume: Option<(WorkerId, Vec<LeaseToken>)>,
        outgoing: mpsc::UnboundedSender<Told>,
    ) -> Result<(WorkerLink, Leases), Error> {
        if self.node.is_draining() {
            return Err(STOPPING);
        }
        let (resumed, leases) =
            resume.map_or((None, Vec::new()), |(id, leases)| (Some(id), leases));
        // Only the same account may come back as a worker; anybody else becomes a new one.
        let own = |id: &WorkerId| {
            self.node.workers.get(*id).is_none_or(|view| {
                view.environment == owner.environment
                    && view.account.as_ref().is_none_or(|known| *known == owner.id)
            })
        };
        let partition = (self.node.ports.entropy.bits() & 0xff) as u8;
        let worker = resumed
            .filter(own)
            .unwrap_or_else(|| WorkerId::from_u128(self.node.fresh_id(partition)));
        let (reply, answer) = oneshot::channel();
        let registration =
            Registration { account: owner.id.clone(), profile, leases, outgoing, reply };
        let address = worker::Address { environment: owner.environment, worker };
        self.node
            .workers
            .directory
            .send(address, worker::Message::Register(Box::new(registration)));
        let (number, leases) = within(COMMAND, answer).await?;
        Ok((WorkerLink { node: Arc::clone(&self.node), address, number }, leases))
    }

    /// How long leases last and how often workers are to speak.
    #[must_use]
    pub fn worker_terms(&self) -> (Duration, Duration) {
        (self.node.settings.terms.lease, self.node.settings.heartbeat)
    }

    /// The events after `cursor`, or from now on (PROTOCOL.md 10).
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn subscribe(
        &self,
        environment: Environment,
        cursor: Option<u64>,
    ) -> Result<Subscription, Error> {
        self.node.events.subscribe(environment, cursor).await.map_err(|error| unreadable(&error))
    }

    /// Whether new work is given out.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    /// How many workers are connected and heard of.
    #[must_use]
    pub fn reachable_workers(&self) -> usize {
        let moment = self.moment();
        let live = self.node.workers.list(Environment::Live);
        live.iter().filter(|view| view.worker.is_reachable(moment)).count()
    }

    /// How many task actors are awake.
    #[must_use]
    pub fn awake(&self) -> usize {
        self.node.awake()
    }

    /// How many asked to be woken.
    #[cfg(test)]
    pub(crate) async fn sleepers(&self) -> usize {
        self.node.sleepers().await
    }

    fn admit(&self) -> Result<(), Error> {
        if self.node.awake() >= self.node.settings.active {
            return Err(Error::Unavailable("too much is under way"));
        }
        Ok(())
    }
}

/// A worker's connection: what it says goes in here. Dropping it is the connection's end.
#[derive(Debug)]
pub struct WorkerLink {
    node: Arc<Node>,
    address: worker::Address,
    number: u64,
}

impl WorkerLink {
    /// The worker.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.address.worker
    }

    /// The worker says something.
    pub fn say(&self, said: Said) {
        let message = worker::Message::Heard(self.number, said);
        self.node.workers.directory.send(self.address, message);
    }
}

impl Drop for WorkerLink {
    fn drop(&mut self) {
        let message = worker::Message::Disconnected(self.number);
        self.node.workers.directory.send_if_awake(&self.address, message);
    }
}

const STOPPING: Error = Error::Unavailable("it is stopping");

async fn within<T>(limit: Duration, answer: oneshot::Receiver<T>) -> Result<T, Error> {
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        // The actor broke over it; it is logged there.
        Ok(Err(_)) => Err(Error::Internal),
        Err(_) => Err(Error::Unavailable("it takes too long")),
    }
}

fn unreadable(error: &callboard_store::Error) -> Error {
    tracing::error!(%error, "a read failed");
    Error::Unavailable("the store cannot be read")
}

fn intake_key(
    owner: &Owner,
    endpoint: &str,
    key: &str,
    body: &(impl Serialize + ?Sized),
) -> intake::Key {
    let mut scope = Sha256::new();
    for part in
        [&[owner.environment.number()], owner.id.as_bytes(), endpoint.as_bytes(), key.as_bytes()]
    {
        // With its length, so that no two scopes run together to the same bytes.
        scope.update((part.len() as u64).to_be_bytes());
        scope.update(part);
    }
    let body = serde_json::to_string(body).expect("a request has a JSON form");
    let body = Digest::of(&body).to_string();
    intake::Key { scope: scope.finalize().into(), body }
}
