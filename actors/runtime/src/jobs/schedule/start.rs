//! The start of an occurrence's work.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::access::Action;
use callboard_domain::error::Rule;
use callboard_domain::function::{MAX_ARGS, json_length};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::schedule::{Occurrence, Outcome, Schedule, Started};
use callboard_domain::task::Message;
use callboard_domain::{Error, Timestamp};
use ractor::ActorProcessingErr;

use super::{Loaded, ScheduleItem, Start, Target};
use crate::handle::Handle;
use crate::items::accounts::caller_of;
use crate::items::submission::{self, NewWork, Scheduled, Submission};
use crate::kernel::item::Activation;
use crate::kernel::project_pool::PoolPermit;
use crate::messages::submission::Owner;
use crate::tables::schedules::{self, RunRow, ScheduleRow};

impl From<Start> for crate::handle::Start {
    fn from(Start { input, hitl, options, named }: Start) -> Self {
        Self { input, hitl, options, start_at: None, named }
    }
}

impl Target {
    /// Writes the occurrence into the texts of a task, or into the input of an execution.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a text is too long then.
    pub(crate) fn fill(&mut self, occurrence: &Occurrence) -> Result<(), Error> {
        let request = match self {
            Self::Task(request) => request,
            Self::Plan(_, start) | Self::Template(_, _, start) => {
                occurrence.fill_map(&mut start.input);
                if let Some(title) = &mut start.named.labels.title {
                    occurrence.fill(title);
                }
                return Ok(());
            }
        };
        let inputs = &mut request.inputs;
        if let Some(title) = request.labels.as_mut().and_then(|labels| labels.title.as_mut()) {
            occurrence.fill(title);
        }
        occurrence.fill(&mut inputs.prompt);
        inputs.system_prompt.iter_mut().for_each(|text| occurrence.fill(text));
        let texts = inputs.messages.iter_mut().flat_map(Message::texts_mut);
        texts.for_each(|text| occurrence.fill(text));
        inputs.context.iter_mut().for_each(|context| occurrence.fill_map(context));
        inputs.args.iter_mut().for_each(|args| occurrence.fill_map(args));
        if inputs.args.as_ref().is_some_and(|args| json_length(args) > MAX_ARGS) {
            let why = format!("args has more than {MAX_ARGS} bytes of JSON at {}", occurrence.at);
            return Err(Error::invalid("args", Rule::Length, why));
        }
        if inputs.prompt.len() > MAX_PROMPT {
            let why = format!("prompt has more than {MAX_PROMPT} bytes at {}", occurrence.at);
            return Err(Error::invalid("prompt", Rule::Length, why));
        }
        Ok(())
    }

    /// The request for a deploy.
    pub(crate) fn deploy(version: Option<String>, start: Start) -> crate::handle::Deploy {
        let (models, queues) = (BTreeMap::new(), BTreeMap::new());
        crate::handle::Deploy { start: start.into(), version, models, queues }
    }
}

impl Activation<ScheduleItem> {
    /// Starts the work of an occurrence; `None` if it is left for later. `moves` says that the cursor
    /// moves on to it.
    pub(super) async fn begin(
        &mut self,
        at: Timestamp,
        moves: bool,
    ) -> Result<Option<RunRow>, ActorProcessingErr> {
        let environment = self.address.environment;
        let Some(own) = &self.item.0 else { return Ok(None) };
        let id = own.row.schedule.id;
        let store = &*self.node.shard(id.partition()).store;
        let before = schedules::run(store, environment, id, at).await?;
        if let Some(run) = before.filter(|run| run.started.is_some()) {
            return Ok(Some(run));
        }
        let permit = self.node.limits.submissions.take(environment.slot(), 1).await;
        let owner = self.owner(own);
        let ordered = match &owner {
            Ok(owner) => self.order(owner, own.row.schedule.occurrence(at)).await,
            Err(error) => Err(error.clone()),
        };
        match ordered {
            Ok(order) => self.submit((at, moves), order, permit).await,
            Err(error) => self.failed((at, moves), &error).await.map(Some),
        }
    }

    /// The account in whose name the work starts, as it is now.
    fn owner(&self, own: &Loaded) -> Result<Owner, Error> {
        let ScheduleRow { schedule, role, .. } = &own.row;
        let (account, environment) = (&schedule.account, self.address.environment);
        if let Some(project) = self.node.state.accounts.project_at(environment.slot()) {
            project.check_open()?;
        }
        let role = match account.parse() {
            Ok(known) => {
                let gone =
                    |_| Error::Forbidden(format!("the account {account} has no rights any more"));
                let register = &self.node.state.accounts;
                if register.is_handed_over(account) {
                    register.owner_may(account, environment, Action::TasksCreate)?.unwrap_or(*role)
                } else {
                    let (slot, now) = (environment.slot(), self.node.now());
                    let caller = caller_of(register, known, slot, now).map_err(gone)?;
                    caller.may(Action::TasksCreate)?;
                    caller.role
                }
            }
            Err(_) => *role,
        };
        let id = account.clone();
        Ok(Owner { id, environment, role, trace: None, bound: Arc::default() })
    }

    async fn order(&self, owner: &Owner, occurrence: Occurrence) -> Result<NewWork, Error> {
        let id = self.address.schedule;
        let store = &*self.node.shard(id.partition()).store;
        let target = schedules::read_target(store, self.address.environment, id).await;
        let target = target.map_err(|error| crate::read::unreadable(&error))?;
        let target = target.ok_or(Error::Internal)?;
        Handle::owed(Arc::clone(&self.node)).order(owner, target, occurrence).await
    }

    fn next(&self, (at, moves): (Timestamp, bool)) -> Option<ScheduleRow> {
        let own = self.item.0.as_ref()?;
        let change = |mut schedule: Schedule| {
            schedule.queued.retain(|queued| *queued != at);
            schedule
        };
        let cursor = if moves { at } else { own.row.schedule.cursor };
        Some(own.decided(cursor, change))
    }

    async fn submit(
        &mut self,
        which: (Timestamp, bool),
        order: NewWork,
        admitted: PoolPermit,
    ) -> Result<Option<RunRow>, ActorProcessingErr> {
        let (at, environment) = (which.0, self.address.environment);
        let Some(mut row) = self.next(which) else { return Ok(None) };
        let id = row.schedule.id;
        let started = match &order {
            NewWork::Tasks(..) => Started::task(id, at),
            NewWork::Execution(_) => Started::execution(id, at),
            NewWork::Retry(..) | NewWork::Plan(..) => return Ok(None),
        };
        row.schedule.running.add(at, started);
        row.schedule.last_started = row.schedule.last_started.max(Some(at));
        row.plan = order.plan();
        let run =
            RunRow { started: Some(started), ..RunRow::of(at, Outcome::Started, self.node.wall()) };
        // It is counted once its work is there.
        let mut rows = schedules::rows_of_run(environment, &row, &run);
        rows.extend(schedules::put(environment, &row));
        let submission = Submission {
            environment,
            account: row.schedule.account.clone(),
            trace: None,
            order,
            key: None,
            partition: row.schedule.id.partition(),
            admitted,
            files: Vec::new(),
            scheduled: Some(Box::new(Scheduled { number: started.number(), rows })),
        };
        match submission::create(Arc::clone(&self.node), submission).await {
            Ok(_) => {
                self.count(run.outcome);
                self.become_(row)?;
                Ok(Some(run))
            }
            // Nothing is known about the disk.
            Err(error @ (Error::Unavailable(_) | Error::Internal)) => Err(error.into()),
            Err(error) => self.failed(which, &error).await.map(Some),
        }
    }

    async fn failed(
        &mut self,
        which: (Timestamp, bool),
        error: &Error,
    ) -> Result<RunRow, ActorProcessingErr> {
        let at = which.0;
        let mut run = RunRow::of(at, Outcome::Failed, self.node.wall());
        run.error = Some(error.to_string());
        if let Some(row) = self.next(which) {
            let rows = self.rows_of_run(&row, &run);
            self.commit(row, rows).await?;
        }
        Ok(run)
    }
}
