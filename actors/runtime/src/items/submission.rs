//! Submissions of one shard: makes tasks, plans and executions durable, and remembers the idempotency keys
//! that made them.
//!
//! A submission without a key is made durable by the request that brings it. The others go through an actor
//! per shard, spawned by the system: it alone knows the keys whose submissions are pending. The actor does
//! not wait for the disk: each submission is finished by a continuation of its own, which goes on after its
//! client has left. Deliberately absent: the checks of a request, which were made before.

pub(crate) mod creation;
pub(crate) mod prices;
pub(crate) mod warnings;

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::execution::Execution;
use callboard_domain::id::Environment;
use callboard_domain::machine::Machine;
use callboard_domain::task::Task;
use ractor::{Actor, ActorProcessingErr, ActorRef};

pub(crate) use crate::messages::submission::{
    Created, KEPT, Key, Message, Named, NewWork, OldKey, Options, Reply, Runs, Scheduled,
    StartExecution, Submission, Submitted, length,
};
use crate::node::Node;
use crate::read::runs::whole;
use crate::tables::{self, IDEMPOTENCY, IdempotencyRow, TEXTS, executions, text};

pub(crate) use creation::create;

/// The actor.
#[derive(Debug)]
pub(crate) struct Submissions(pub(crate) Arc<Node>);

/// The keys whose submissions are under way, and their waiting callers.
pub(crate) type State = HashMap<[u8; 32], Vec<(Box<Submission>, Reply)>>;

/// The items of an idempotency key.
struct Made {
    /// The items as they were created.
    items: Created,
    ended: bool,
    /// True if texts of them were erased.
    erased: bool,
}

impl Submissions {
    async fn submit(
        &self,
        myself: &ActorRef<Message>,
        state: &mut State,
        submission: Box<Submission>,
        reply: Reply,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(key) = &submission.key {
            if let Some(waiting) = state.get_mut(&key.scope) {
                waiting.push((submission, reply));
                return Ok(());
            }
            // Boxed: most submissions have no key, and every one would pay for the larger future.
            if let Some(answer) = Box::pin(self.remembered(&submission, key)).await? {
                let _ = reply.send(answer);
                return Ok(());
            }
            state.insert(key.scope, Vec::new());
        }
        let (node, myself) = (Arc::clone(&self.0), myself.clone());
        tokio::spawn(async move {
            let scope = submission.key.as_ref().map(|key| key.scope);
            // The client may have left; its items are durable all the same.
            let _ = reply.send(create(node, *submission).await);
            if let Some(scope) = scope {
                // Fails only when the system is stopping.
                let _ = myself.cast(Message::Finished(scope));
            }
        });
        Ok(())
    }

    /// The earlier use of the key, if that is remembered.
    async fn remembered(
        &self,
        submission: &Submission,
        key: &Key,
    ) -> Result<Option<Result<Submitted, Error>>, ActorProcessingErr> {
        let environment = submission.environment;
        let store = &*self.0.shard(submission.partition).store;
        let row = IDEMPOTENCY.get(store, environment.number(), &key.scope).await?;
        let Some(row) = row else { return Ok(None) };
        let made = self.made(environment, &row).await?;
        let ended = made.as_ref().is_none_or(|made| made.ended);
        if self.0.now().since(row.at) >= KEPT && ended {
            return Ok(None);
        }
        // A repetition of the submission would do its work twice.
        let Some(Made { items: made, erased, .. }) = made else {
            let removed =
                "what this idempotency key made has ended and was removed; use another key";
            return Ok(Some(Err(Error::InvalidState(removed.into()))));
        };
        let body = match row.salted_by {
            None => Some(key.body.clone()),
            Some(item) => {
                let number = environment.number();
                let salt = TEXTS.get(store, number, item, text::KEY_SALT).await?;
                salt.filter(|salt| !salt.is_empty()).map(|salt| key.salted(&salt))
            }
        };
        let answer = match body.filter(|_| !erased) {
            None => Err(Error::InvalidState(
                "the texts of what this idempotency key made were erased; use another key".into(),
            )),
            Some(body) if body != row.body => Err(Error::IdempotencyKeyReused),
            Some(_) => Ok(Submitted { made, replayed: true, warnings: Vec::new() }),
        };
        Ok(Some(answer))
    }

    /// Forgets keys that were not used again since somebody looked at them.
    async fn forget(&self, state: &State, keys: Vec<OldKey>) {
        let mut ops = Vec::new();
        let partition = keys.first().map_or(0, |key| key.scope[0]);
        for key in keys {
            let number = key.environment.number();
            // One that cannot be read now is found by the next look.
            let row = IDEMPOTENCY.get(self.0.store(), number, &key.scope).await.ok().flatten();
            if row.is_some_and(|row| row.at == key.at) && !state.contains_key(&key.scope) {
                ops.push(IDEMPOTENCY.delete(number, &key.scope));
                ops.extend(key.ops);
            }
        }
        if !ops.is_empty() {
            // Submissions do not wait for it: one that uses a key again comes to the store after it.
            drop(self.0.shard(partition).commit_or_refuse(partition, ops));
        }
    }

    /// The items of a key; `None` if some of it was removed.
    async fn made(
        &self,
        environment: Environment,
        row: &IdempotencyRow,
    ) -> Result<Option<Made>, ActorProcessingErr> {
        let store = self.0.store();
        if let Some(id) = row.execution {
            let Some(head) = executions::head(store, environment, id).await? else {
                return Ok(None);
            };
            let Some((execution, _, compiled)) = whole(&self.0, environment, id, head).await?
            else {
                return Ok(None);
            };
            let (spec, started_at) =
                ((*execution.head.spec).clone(), execution.head.spec.created_at);
            let graph = Arc::clone(&compiled.graph);
            let first = Execution::started(spec, graph, started_at).next;
            let (ended, erased) = (execution.is_finished(), execution.has_erased_output());
            return Ok(Some(Made { items: Created::Execution(Box::new(first)), ended, erased }));
        }
        let mut tasks = Vec::with_capacity(row.tasks.len());
        for id in &row.tasks {
            let Some(found) = tables::task(store, environment, *id).await? else {
                return Ok(None);
            };
            tasks.push(found.task);
        }
        let ended = tasks.iter().all(Machine::is_finished);
        let erased = tasks.iter().any(|task| task.erased_at.is_some());
        let batch = tasks.first().and_then(|task| task.spec.origin.batch);
        let tasks =
            tasks.into_iter().map(|task| Task::submitted((*task.spec).clone()).next).collect();
        Ok(Some(Made { items: Created::Tasks(tasks, batch), ended, erased }))
    }
}

impl Actor for Submissions {
    type Msg = Message;
    type State = State;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<State, ActorProcessingErr> {
        Ok(HashMap::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Submit(submission, reply) => {
                self.submit(&myself, state, submission, reply).await?;
            }
            Message::Forget(keys) => self.forget(state, keys).await,
            Message::Finished(scope) => {
                for (submission, reply) in state.remove(&scope).unwrap_or_default() {
                    self.submit(&myself, state, submission, reply).await?;
                }
            }
        }
        Ok(())
    }
}
