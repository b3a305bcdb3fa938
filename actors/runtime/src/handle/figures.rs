//! All figures at one moment: those that are counted, and those that are asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::budget::Money;
use callboard_domain::execution;
use callboard_domain::id::{Environment, Mode};
use callboard_domain::schedule;
use callboard_domain::task::{EndingCode, Status};
use tokio::sync::mpsc;

use crate::kernel::address::QueueAddress;
use crate::messages::queue;
use crate::node::Node;
use crate::observers::metrics::numbers::Counter;
use crate::observers::metrics::{
    DECISIONS, Depth, Figures, Model, NOTIFICATIONS, OUTCOMES, PATIENCE, Project, Queue,
};
use crate::read::{approvals, unreadable};

impl Node {
    /// All figures at this moment.
    pub(crate) async fn figures(&self) -> Result<Figures, Error> {
        let depths = self.depths().await?;
        let pending = approvals::count_undecided(self.store(), &self.environments()).await;
        Ok(self.figures_with(depths, pending.map_err(|error| unreadable(&error))?))
    }

    fn figures_with(&self, measured: Vec<Depth>, approvals_pending: u64) -> Figures {
        let (now, metrics) = (self.now(), &self.observers.metrics);
        let mut depths: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
        let mut depths_of_projects = BTreeMap::<Environment, u64>::new();
        for Depth { environment, queue, ready, oldest } in measured {
            *depths_of_projects.entry(environment).or_default() += ready as u64;
            let (depth, age) = depths.entry(metrics.queues.label(&queue).to_owned()).or_default();
            *depth += ready as u64;
            *age = oldest.map_or(*age, |oldest| now.since(oldest).max(*age));
        }
        let mut unaffordable: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
        for (queue, count, oldest) in self
            .environments()
            .iter()
            .filter_map(|it| self.limits.budgets(*it))
            .flat_map(|it| it.waiting())
        {
            let label = metrics.queues.label(&queue).to_owned();
            let (sum, age) = unaffordable.entry(label).or_default();
            (*sum, *age) = (*sum + count, now.since(oldest).max(*age));
        }
        let workers = self.workers_by_queue();
        let queues = metrics.queues.all().map(|(name, figures)| {
            let (depth, oldest) = depths.get(name).copied().unwrap_or_default();
            let (unaffordable, oldest_unaffordable) =
                unaffordable.get(name).copied().unwrap_or_default();
            let queue = QueueAddress { environment: Environment::LIVE, queue: name.into() };
            let obstacle = self.limits.flow.queue_waits(&queue);
            let queue = Queue {
                depth,
                oldest,
                waiting_for: if self.is_paused() { "paused" } else { obstacle.unwrap_or("worker") },
                unaffordable,
                oldest_unaffordable,
                waits: figures.waits.read(1_000.0),
                lost: figures.lost.get(),
                workers: workers.get(name).copied().unwrap_or_default(),
            };
            (name.to_owned(), queue)
        });
        let models = metrics.models.all().map(|(name, figures)| {
            let model = Model {
                entries: named(&figures.entries, Status::ALL.map(Status::as_str)),
                quantiles: figures.durations.quantiles(now),
                duration: figures.durations.sum(),
                ended: figures.durations.count(),
                runs: figures.runs.read(1_000.0),
                input: figures.input.get(),
                output: figures.output.get(),
                cost: Money::from_nanos(figures.cost.get()).as_usd(),
            };
            (name.to_owned(), model)
        });
        let projects = self.state.accounts.project_names().into_iter().map(|(slot, name)| {
            let environment = slot.environment(Mode::Live);
            let figures = metrics.projects.of(environment);
            let project = Project {
                entries: named(&figures.entries, Status::ALL.map(Status::as_str)),
                depth: depths_of_projects.get(&environment).copied().unwrap_or_default(),
                running: self.limits.concurrency.running_in(environment),
                input: figures.input.get(),
                output: figures.output.get(),
                cost: Money::from_nanos(figures.cost.get()).as_usd(),
                webhooks: named(&figures.webhooks, OUTCOMES),
            };
            (name, project)
        });
        let codes = EndingCode::ALL.map(EndingCode::as_str);
        let deliveries = NOTIFICATIONS.iter().zip(&metrics.deliveries);
        let deliveries = deliveries.flat_map(|(kind, counters)| {
            let each = OUTCOMES.iter().zip(counters);
            each.map(|(outcome, counter)| (*kind, *outcome, counter.get()))
        });
        let store = self.store().stats();
        Figures {
            models: models.collect(),
            queues: queues.collect(),
            projects: projects.collect(),
            executions: named(
                &metrics.executions,
                execution::Status::ALL.map(execution::Status::as_str),
            ),
            retries: named(&metrics.retries, codes),
            failures: named(&metrics.failures, codes),
            decisions: named(&metrics.decisions, DECISIONS),
            deliveries: deliveries.collect(),
            occurrences: named(
                &metrics.occurrences,
                schedule::Outcome::ALL.map(schedule::Outcome::as_str),
            ),
            commits: metrics.commits.read(1_000_000.0),
            approvals_pending,
            workers_active: self.actors.workers.reachable(self.kernel.ports.clock.moment()) as u64,
            // A full disk stops leases too, and has figures of its own.
            paused: self.settings.stands_still || self.pause().is_some(),
            paused_queues: self.limits.flow.paused() as u64,
            key_ends: self.state.accounts.key_ends(now),
            subscribers: self.observers.events.subscribers() as u64,
            awake: self.awake() as u64,
            store_batches: store.batches,
            store_syncs: store.syncs,
        }
    }

    /// The workers that serve each queue. A queue that is served has its series from then on.
    fn workers_by_queue(&self) -> BTreeMap<String, u64> {
        let (mut workers, queues) = (BTreeMap::new(), &self.observers.metrics.queues);
        for queue in self.actors.workers.queues_served(self.kernel.ports.clock.moment()) {
            queues.of(&queue);
            *workers.entry(queues.label(&queue).to_owned()).or_default() += 1;
        }
        workers
    }

    /// Every queue that is awake, after all messages that it was sent so far.
    pub(crate) async fn depths(&self) -> Result<Vec<Depth>, Error> {
        let (reply, mut answers) = mpsc::unbounded_channel();
        self.actors.queues.send_to_all_awake(|| queue::Message::Measure(reply.clone()));
        drop(reply);
        let mut depths = Vec::new();
        let all = async {
            while let Some(depth) = answers.recv().await {
                depths.extend(depth);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, all).await;
        in_time.map_err(|_| {
            Error::Unavailable("the queues do not answer: send this again in a few seconds")
        })?;
        Ok(depths)
    }
}

fn named<const N: usize>(
    counters: &[Counter; N],
    names: [&'static str; N],
) -> Vec<(&'static str, u64)> {
    names.into_iter().zip(counters).map(|(name, counter)| (name, counter.get())).collect()
}
