//! The event log: without a hole, in order for each item, and with the end of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::execution::Stage;
use callboard_domain::id::{ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::task::Status;
use callboard_store::Store;

use super::super::world::{LIVE, World};
use super::{Picture, must};
use crate::observers::events::{Cursor, StreamItem, Transient};
use crate::tables::{self, Event, Subject};

/// The place before the first record.
const BEFORE_ALL: Cursor = Cursor { place: 63, mark: None };

/// The logged events of each item: the names, and the versions that they came with.
#[derive(Default)]
struct Log {
    tasks: BTreeMap<TaskId, Vec<(String, u64)>>,
    approvals: BTreeMap<TaskId, Vec<(String, u64)>>,
    executions: BTreeMap<ExecutionId, Vec<(String, u64)>>,
    /// The leases of tasks that no step has: of which queue, and when.
    leases: Vec<(String, Timestamp)>,
    /// The items that were completed.
    items: BTreeSet<(ExecutionId, String, u16)>,
}

impl World {
    /// Reads the whole log, and compares it with what there is at rest.
    ///
    /// # Errors
    /// An event is missing, out of order, or logged twice.
    pub(super) async fn judge_events(&self, picture: &Picture) -> Result<(), String> {
        self.is_dense().await?;
        self.logged().await?.judge(picture)
    }

    /// How many leases of tasks of a queue that no step has were given out in the last minute.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(in super::super) async fn leases_of_last_minute(
        &self,
        queue: &str,
    ) -> Result<usize, String> {
        let (log, now) = (self.logged().await?, self.handle.now());
        let is_recent = |at: Timestamp| now.since(at) <= Duration::from_secs(61);
        let counts = |(of, at): &&(String, Timestamp)| of == queue && is_recent(*at);
        Ok(log.leases.iter().filter(counts).count())
    }

    async fn logged(&self) -> Result<Log, String> {
        let subscribed = self.handle.subscribe(LIVE, Some(BEFORE_ALL), Transient::default()).await;
        let mut subscription = subscribed.map_err(|e| e.to_string())?;
        must(subscription.resumed(), || "the log has lost its beginning".into())?;
        let mut log = Log::default();
        let mut place = 0;
        // At rest all of it is there; nothing more comes.
        while let Ok(logged) =
            tokio::time::timeout(Duration::from_millis(50), subscription.next()).await
        {
            match logged.map_err(|error| error.to_string())? {
                Some(StreamItem::Stored(at, event)) => {
                    must(at.place > place, || format!("the log goes from {place} to {at}"))?;
                    place = at.place;
                    log.take(&event);
                }
                Some(other) => return Err(format!("{other:?} in the log")),
                None => break,
            }
        }
        Ok(log)
    }

    async fn is_dense(&self) -> Result<(), String> {
        let log = tables::event_log(LIVE);
        let (oldest, newest) = self.memory.log_bounds(log).await.map_err(|e| e.to_string())?;
        let records = self.memory.read_log(log, 0, usize::MAX).await.map_err(|e| e.to_string())?;
        let numbers: Vec<_> = records.iter().map(|record| record.sequence).collect();
        let expected: Vec<_> = if newest == 0 { vec![] } else { (oldest..=newest).collect() };
        must(numbers == expected, || format!("the log has holes: {numbers:?}"))
    }
}

impl Log {
    fn take(&mut self, event: &Event) {
        let name = event.event.to_string();
        match &event.subject {
            Subject::Task(task) => {
                if name == "task.started" {
                    self.leases.push((task.spec.queue.clone(), event.at));
                }
                self.tasks.entry(task.spec.id).or_default().push((name, task.version));
            }
            Subject::Execution(head, _) => {
                self.executions.entry(head.spec.id).or_default().push((name, head.version));
            }
            Subject::Approval(approval) => {
                self.approvals.entry(approval.id()).or_default().push((name, approval.version));
            }
            Subject::Step(head, step, Some(item)) if name == "step.completed" => {
                self.items.insert((head.spec.id, step.clone(), *item));
            }
            Subject::TaskOfStep(..)
            | Subject::Step(..)
            | Subject::Worker(_)
            | Subject::Schedule(_)
            | Subject::Queue(_)
            | Subject::Bulk(_)
            | Subject::Batch(_)
            | Subject::Budget(_)
            | Subject::Delivery(..) => {}
        }
    }

    fn judge(&self, picture: &Picture) -> Result<(), String> {
        for (id, detail) in &picture.tasks {
            let logged = self.tasks.get(id).map_or(&[][..], Vec::as_slice);
            in_order(id, logged)?;
            let status = detail.task.status();
            let end = (format!("task.{}", status.as_str()), detail.task.version);
            let ended = status != Status::Pending && status != Status::Running;
            let ends = logged.iter().filter(|one| is_end(&one.0)).count();
            must(!ended || (logged.last() == Some(&end) && ends == 1), || {
                format!("{id} is {status:?}, version {}: {logged:?}", detail.task.version)
            })?;
            let created = logged.iter().filter(|one| one.0 == "task.created").count();
            must(created == 1, || format!("{id} was created {created} times: {logged:?}"))?;
            let held = logged.iter().filter(|one| one.0 == "task.awaiting_approval").count();
            must(held == usize::from(picture.approvals.contains_key(id)), || {
                format!("{id} was held {held} times: {logged:?}")
            })?;
        }
        for (id, detail) in &picture.approvals {
            let logged = self.approvals.get(id).map_or(&[][..], Vec::as_slice);
            in_order(id, logged)?;
            let ends = |one: &&(String, u64)| one.0 == "hitl.approved" || one.0 == "hitl.rejected";
            let decided = usize::from(detail.approval.decision.is_some());
            must(logged.iter().filter(ends).count() == decided, || format!("{id}: {logged:?}"))?;
            let first = logged.first().is_some_and(|first| first.0 == "hitl.pending");
            must(first, || format!("{id}: {logged:?}"))?;
        }
        for (id, detail) in &picture.executions {
            let logged = self.executions.get(id).map_or(&[][..], Vec::as_slice);
            in_order(id, logged)?;
            let execution = &detail.overview.execution;
            let end = format!("execution.{}", execution.status().as_str());
            let last = logged.last().is_some_and(|last| last.0 == end);
            must(last || !execution.is_finished(), || format!("{id} is {end}: {logged:?}"))?;
            for (step, _) in execution.steps() {
                let completed = execution.items(step);
                let completed = completed.filter(|(_, row)| row.stage == Stage::Completed);
                for (item, _) in completed {
                    let key = (*id, execution.graph().name(step).to_owned(), item);
                    must(self.items.contains(&key), || format!("nobody was told of {key:?}"))?;
                }
            }
            let begun = logged.iter().filter(|one| one.0 == "execution.started").count();
            let runs = usize::try_from(execution.head.run).expect("a few");
            // The first run of one that was cancelled before its startAt never began.
            let may_lack_one = execution.head.spec.start_at.is_some();
            must(begun == runs || may_lack_one && begun + 1 == runs, || {
                format!("{id} ran {runs} times: {logged:?}")
            })?;
        }
        let strangers = self.tasks.keys().find(|id| !picture.tasks.contains_key(id));
        must(strangers.is_none(), || format!("the log tells of {strangers:?}, which is not there"))
    }
}

fn is_end(name: &str) -> bool {
    ["task.completed", "task.failed", "task.cancelled", "task.rejected"].contains(&name)
}

fn in_order(id: &impl std::fmt::Display, logged: &[(String, u64)]) -> Result<(), String> {
    let ordered = logged.is_sorted_by_key(|(_, version)| *version);
    must(ordered, || format!("{id} is told out of order: {logged:?}"))
}
