//! Queues as operators see and control them.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::id::{Environment, TaskId};
use callboard_domain::query::{Page, Tasks, Window};
use callboard_domain::queue::{QueueChange, QueueSettings};
use callboard_domain::task::{Concurrency, State, Status, Task};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_store::{Filter, Order, Query};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::queue::{Address, Message};
use crate::read::{self, unreadable};
use crate::tables::{self, term};

/// The most pending tasks that a filter by their obstacle looks at.
const LOOKED_AT: usize = 20_000;
/// The most queues that have settings.
const MAX_CONTROLLED: usize = 1_000;

/// A queue as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// The queue's name.
    pub name: Arc<str>,
    /// The queue's settings.
    pub settings: QueueSettings,
    /// Tasks that are ready and wait for a lease.
    pub depth: usize,
    /// The creation of the oldest of the ready tasks.
    pub oldest: Option<Timestamp>,
    /// Tasks with a worker.
    pub running: u64,
    /// Connected workers that serve the queue.
    pub workers: usize,
}

impl Handle {
    /// The queues of a project that have ready tasks, workers or settings, by name.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn queues(
        &self,
        environment: Environment,
        window: Window,
    ) -> Result<Page<QueueView>, Error> {
        let known = self.known_queues(environment).await?;
        let total = known.len() as u64;
        let mut items = Vec::new();
        for view in known.into_values().skip(window.offset).take(window.limit) {
            items.push(self.with_running(environment, view).await?);
        }
        Ok(Page { items, total })
    }

    /// True if a queue has settings, or a worker that serves it.
    #[must_use]
    pub fn has_queue(&self, environment: Environment, name: &str) -> bool {
        let workers = self.node.actors.workers.list(environment);
        let mut served = workers.iter().filter_map(|worker| worker.worker.profile.as_ref());
        self.node.limits.flow.queues(environment).contains_key(name)
            || served.any(|profile| profile.queues.iter().any(|queue| queue == name))
    }

    /// Changes the settings of a queue. After `Ok` the change survives a power cut, and
    /// no lease is given out against it.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if too many other queues have settings, [`Error::Unavailable`].
    pub async fn change_queue(
        &self,
        environment: Environment,
        name: &str,
        change: QueueChange,
    ) -> Result<QueueView, Error> {
        self.admit()?;
        let is_new = !self.node.limits.flow.queues(environment).contains_key(name);
        let _counting = if is_new { Some(self.node.limits.counting.lock().await) } else { None };
        if is_new && self.node.limits.flow.queues(environment).len() >= MAX_CONTROLLED {
            return Err(Error::InvalidState(format!(
                "{MAX_CONTROLLED} queues have settings, which is the limit: remove the limits of one"
            )));
        }
        let (reply, answer) = oneshot::channel();
        let address = Address { environment, queue: name.into() };
        self.node.actors.queues.send(address, Message::Change(change, reply));
        let settings = within(COMMAND, answer).await?;
        let mut known = self.known_queues(environment).await?;
        let view = known.remove(name).unwrap_or_else(|| QueueView::named(name.into()));
        self.with_running(environment, QueueView { settings, ..view }).await
    }

    /// The obstacle of a pending task; `None` if the task is not pending.
    #[must_use]
    pub fn waiting_in(&self, environment: Environment, task: &Task) -> Option<&'static str> {
        let waits = self.waiting_for(environment, task)?;
        if task.state != State::Ready {
            return Some(waits);
        }
        if self.node.is_paused() {
            return Some("paused");
        }
        let budgets = self.node.limits.budgets(environment);
        if budgets.is_some_and(|budgets| budgets.has_parked(task.spec.id)) {
            return Some("budget");
        }
        let rule = task.spec.flow.as_ref().and_then(|flow| flow.concurrency.as_ref());
        let is_full = |rule: &Concurrency| {
            !self.node.limits.flow.has_room(environment, &rule.key, rule.limit)
        };
        let key_waits = || rule.filter(|rule| is_full(rule)).map(|_| "limit");
        let queue_waits = {
            let queue = Address { environment, queue: task.spec.queue.as_str().into() };
            self.node.limits.flow.queue_waits(&queue)
        };
        Some(queue_waits.or_else(key_waits).unwrap_or(waits))
    }

    /// A page of the pending tasks with one of the obstacles of a filter.
    pub(super) async fn waiting_page(
        &self,
        environment: Environment,
        query: &Tasks,
    ) -> Result<Page<Task>, Error> {
        let ids = self.waiting_tasks(environment, query).await?;
        let (Window { offset, limit }, total) = (query.window, ids.len() as u64);
        let read = async |id: TaskId| {
            let found = tables::task(self.node.store(), environment, id).await?;
            Ok(found.map(|found| found.task))
        };
        let items =
            read::together(read::TOGETHER, ids.into_iter().skip(offset).take(limit).map(read));
        Ok(Page { items: items.await.map_err(|error| unreadable(&error))?, total })
    }

    /// The pending tasks with one of the obstacles of a filter, in its order. Obstacles are in memory, so each task is
    /// looked at.
    ///
    /// # Errors
    /// [`Error::Invalid`] if too many pending tasks match the rest of the filter, [`Error::Unavailable`].
    pub(super) async fn waiting_tasks(
        &self,
        environment: Environment,
        filter: &Tasks,
    ) -> Result<Vec<TaskId>, Error> {
        let mut filter = filter.clone();
        if !filter.statuses.is_empty() && !filter.statuses.contains(&Status::Pending) {
            return Ok(Vec::new());
        }
        filter.statuses = vec![Status::Pending];
        filter.window = Window { offset: 0, limit: LOOKED_AT };
        let page = self.node.store().query(&read::query(environment, &filter)).await;
        let page = page.map_err(|error| unreadable(&error))?;
        if page.total > LOOKED_AT as u64 {
            let says = format!(
                "waitingFor looks at {LOOKED_AT} pending tasks at most, and {} match: name a queue, a model or tags too",
                page.total
            );
            return Err(Error::invalid("waitingFor", Rule::Length, says));
        }
        let waits = async |id: u128| {
            let id = TaskId::from_u128(id);
            let found = tables::task(self.node.store(), environment, id).await?;
            let waits = found.and_then(|found| self.waiting_in(environment, &found.task));
            let is_wanted =
                |waits| filter.waiting_for.iter().any(|wanted| wanted.as_str() == waits);
            Ok(waits.filter(|waits| is_wanted(*waits)).map(|_| id))
        };
        let found = read::together(read::TOGETHER, page.documents.into_iter().map(waits)).await;
        found.map_err(|error| unreadable(&error))
    }

    async fn known_queues(
        &self,
        environment: Environment,
    ) -> Result<BTreeMap<Arc<str>, QueueView>, Error> {
        let mut known = BTreeMap::new();
        let mut of = |name: Arc<str>, change: &dyn Fn(&mut QueueView)| {
            let view =
                known.entry(name).or_insert_with_key(|name| QueueView::named(Arc::clone(name)));
            change(view);
        };
        let depths = self.node.depths().await?;
        for depth in depths.into_iter().filter(|depth| depth.environment == environment) {
            of(depth.queue, &|view| (view.depth, view.oldest) = (depth.ready, depth.oldest));
        }
        for worker in self.node.actors.workers.list(environment) {
            let is_connected = worker.capacity.as_ref().is_some_and(|it| !it.is_gone());
            let profile = worker.worker.profile.as_ref().filter(|_| is_connected);
            for queue in profile.map(|profile| profile.queues.as_slice()).unwrap_or_default() {
                of(queue.as_str().into(), &|view| view.workers += 1);
            }
        }
        for (name, settings) in self.node.limits.flow.queues(environment) {
            of(name, &|view| view.settings = settings);
        }
        Ok(known)
    }

    async fn with_running(
        &self,
        environment: Environment,
        view: QueueView,
    ) -> Result<QueueView, Error> {
        let query = Query {
            list: tables::task_list(environment),
            filters: vec![
                Filter::AnyOf(term::STATUS, tables::status_terms(&[Status::Running])),
                Filter::AnyOf(term::QUEUE, vec![tables::term_of(&view.name)]),
            ],
            order: Order::Document,
            descending: true,
            offset: 0,
            limit: 0,
        };
        let page = self.node.store().query(&query).await.map_err(|error| unreadable(&error))?;
        Ok(QueueView { running: page.total, ..view })
    }
}

impl QueueView {
    fn named(name: Arc<str>) -> Self {
        let settings = QueueSettings::default();
        Self { name, settings, depth: 0, oldest: None, running: 0, workers: 0 }
    }
}
