//! Moves of projects to other cells: at home their beginning and their switch, in every cell its own part. The rules
//! are [`callboard_domain::moving`].

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::Action as Permission;
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::cell::{HOME, cell_for};
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{MoveId, ProjectId, Slot};
use callboard_domain::moving::{Moving, Order, Part, Stage, order};
use callboard_domain::project::{Project, next_place};
use callboard_store::Op;

use super::projects::{put, unreadable};
use super::{Accounts, NUMBER, PARTITION};
use crate::messages::accounts::MoveCommand;
use crate::tables::{KEY_USES, KEYS, MOVES, PROJECTS};

impl Accounts {
    pub(super) async fn take(&self, command: MoveCommand) {
        // The client may have left; the step is durable all the same.
        match command {
            MoveCommand::Begin(id, to, by, reply) => {
                let _ = reply.send(self.move_project(id, &to, by).await);
            }
            MoveCommand::Stay(id, by, reply) => {
                let _ = reply.send(self.stay(id, by).await);
            }
            MoveCommand::Switch(number, id, reply) => {
                let _ = reply.send(self.switch(number, id).await);
            }
            MoveCommand::Copied(part, reply) => {
                let _ = reply.send(self.copied(*part).await);
            }
            MoveCommand::Cleared(part, reply) => {
                let _ = reply.send(self.cleared(&part).await);
            }
        }
    }

    /// Begins to move a project to another cell; `home` is home.
    async fn move_project(&self, id: ProjectId, to: &str, by: By) -> Result<Arc<Project>, Error> {
        self.permit(&by, Permission::ProjectsManage)?;
        let before = self.changeable(id)?;
        let register = &self.0.state.accounts;
        let to = cell_for(Some(to), &register.cells(), &register.projects())?;
        let id = MoveId::from_u128(self.0.fresh_id(self.0.now(), PARTITION));
        let after = (*before).clone().moving_to(Moving { id, to, since: self.0.now() })?;
        let to = after.moving.as_ref().and_then(|moving| moving.to.clone());
        let there = register.projects();
        let there = there.iter().filter(|it| it.cell == to && it.id != after.id).count();
        if there + 1 >= usize::from(Slot::COUNT) {
            let name = to.as_deref().unwrap_or(HOME);
            let message = format!("cell {name} has {} projects, which is the limit", Slot::COUNT);
            return Err(Error::InvalidState(message));
        }
        let record = Record::new(Action::ProjectMoving, by).of(after.id).with("move", id);
        let record = record.with("to", to.as_deref().unwrap_or(HOME));
        self.take_order(None, after, vec![record]).await?;
        register.project(before.id)
    }

    /// Gives up a move that has not switched.
    async fn stay(&self, id: ProjectId, by: By) -> Result<Arc<Project>, Error> {
        self.permit(&by, Permission::ProjectsManage)?;
        let (after, moving) = (*self.changeable(id)?).clone().staying()?;
        let record = Record::new(Action::ProjectStays, by).of(id).with("move", moving.id);
        self.take_order(None, after, vec![record]).await?;
        self.0.state.accounts.project(id)
    }

    /// All rows of a project are in the new cell: it is there from now on.
    async fn switch(&self, number: u32, id: MoveId) -> Result<(), Error> {
        let projects = self.0.state.accounts.projects();
        let found = projects.iter().find(|project| project.number == number);
        let before = found.ok_or_else(|| Error::not_found("project", number))?;
        let Some(after) = (**before).clone().moved(id, self.0.now())? else { return Ok(()) };
        let record = Record::new(Action::ProjectMoved, By::SYSTEM).of(after.id).with("move", id);
        let record = record.with("from", before.cell.as_deref().unwrap_or(HOME));
        let record = record.with("to", after.cell.as_deref().unwrap_or(HOME));
        self.take_order(None, after, vec![record]).await
    }

    /// All rows of a project have come, and are equal.
    async fn copied(&self, part: Part) -> Result<(), Error> {
        let register = &self.0.state.accounts;
        let known = register.part_in(part.id);
        if known.is_none_or(|known| known.stage != Stage::Coming) {
            return Err(Error::InvalidState(format!("move {} was given up", part.id)));
        }
        let part = Part { stage: Stage::Copied, ..part };
        self.store(put_part(&part), Vec::new()).await?;
        register.put_part(part);
        Ok(())
    }

    /// Forgets a part whose rows were removed.
    async fn cleared(&self, part: &Part) -> Result<(), Error> {
        self.store(self.delete_part(part).await?, Vec::new()).await?;
        self.0.state.accounts.remove_part(part.slot, false);
        Ok(())
    }

    /// Takes the next step with a project that home's list gives; at home the project is stored with it. `records` are
    /// home's entries of the audit log.
    pub(super) async fn take_order(
        &self,
        own: Option<&str>,
        given: Project,
        records: Vec<Record>,
    ) -> Result<(), Error> {
        let register = &self.0.state.accounts;
        let (here, part) = (register.slot_of(given.id), register.open_part(given.id));
        let step = Step { own, given, here, records };
        match (order(own, here.is_some(), part.as_deref(), &step.given), here, part) {
            (Order::Freeze(id), Some(slot), _) => {
                let other = step.given.moving.as_ref().and_then(|moving| moving.to.clone());
                let part = part_of(id, &step.given, (slot, other), Stage::Leaving);
                self.record(step, put_part(&part)).await?;
                register.put_part(part);
                self.0.freeze(slot);
            }
            (Order::Release, _, Some(part)) => {
                let ops = self.delete_part(&part).await?;
                self.record(step, ops).await?;
                // A start behind the freeze has read nothing of the project.
                let is_loaded = self.0.kernel.standstill.holds(part.slot);
                if is_loaded {
                    self.0.thaw(part.slot);
                } else {
                    self.0.shut_project(part.slot);
                }
                register.remove_part(part.slot, !is_loaded);
                self.0.state.opening.notify_one();
            }
            (Order::Leave, _, Some(part)) => self.leave(step, &part).await?,
            (Order::Prepare(id), ..) => {
                let part = part_of(
                    id,
                    &step.given,
                    (self.free_place()?, step.given.cell.clone()),
                    Stage::Coming,
                );
                self.record(step, put_part(&part)).await?;
                register.put_part(part);
            }
            (Order::Drop, _, Some(part)) => {
                let part = dropped(&part);
                self.record(step, put_part(&part)).await?;
                self.keep_dropped(part);
            }
            (Order::Open, _, Some(part)) => self.admit(step, &part).await?,
            _ => self.record(step, Vec::new()).await?,
        }
        Ok(())
    }

    /// The rows that have come are to be removed.
    pub(super) async fn drop_part(&self, part: &Part) -> Result<(), Error> {
        let part = dropped(part);
        self.store(put_part(&part), Vec::new()).await?;
        self.keep_dropped(part);
        Ok(())
    }

    fn keep_dropped(&self, part: Part) {
        self.0.state.accounts.put_part(part);
        self.0.state.purging.notify_one();
    }

    /// Stores a step; at home with the project's row.
    async fn record(&self, step: Step<'_>, mut ops: Vec<Op>) -> Result<(), Error> {
        let Step { own, given, here, records } = step;
        if own.is_some() {
            return if ops.is_empty() { Ok(()) } else { self.store(ops, records).await };
        }
        let project = Project { slot: here, ..given };
        ops.extend(put(&project));
        self.store(ops, records).await?;
        self.keep(project);
        Ok(())
    }

    /// The project is in the other cell: nothing of it counts here any more.
    async fn leave(&self, step: Step<'_>, part: &Part) -> Result<(), Error> {
        let (store, register) = (self.0.store(), &self.0.state.accounts);
        let left = Part { stage: Stage::Left, ..part.clone() };
        let mut ops = put_part(&left);
        let keys = register.keys_in(part.slot);
        for known in &keys {
            let key = known.key.id.as_u128();
            ops.extend(KEYS.delete(store, NUMBER, key).await.map_err(unreadable)?);
            ops.push(KEY_USES.delete(NUMBER, &key));
        }
        if step.own.is_some() {
            let id = part.project.as_u128();
            ops.extend(PROJECTS.delete(store, NUMBER, id).await.map_err(unreadable)?);
        }
        let step = Step { here: None, ..step.told(part) };
        self.record(step, ops).await?;
        for known in keys {
            register.remove_key(&known.key);
        }
        register.let_go(part.slot);
        register.put_part(left);
        self.0.leave(part.slot);
        self.0.state.purging.notify_one();
        Ok(())
    }

    /// The project is here from now on. It answers once its state is read.
    async fn admit(&self, step: Step<'_>, part: &Part) -> Result<(), Error> {
        let register = &self.0.state.accounts;
        let digests_of = part.digests_of.filter(|slot| *slot != part.slot);
        let given = Project { digests_of, ..step.given.clone() };
        let mut ops = self.delete_part(part).await?;
        let mut keys = Vec::new();
        for (key, used_at) in &part.keys {
            let key = self.still_valid(key.clone(), &given);
            ops.extend(KEYS.put(NUMBER, key.id.as_u128(), &key, None));
            ops.extend(used_at.map(|at| KEY_USES.put(NUMBER, &key.id.as_u128(), &at, None)));
            keys.push((key, *used_at));
        }
        let here = Some(part.slot);
        let project = if step.own.is_some() {
            let moves = Vec::new();
            let here = Project { slot: here, cell: None, moving: None, moves, ..given.clone() };
            ops.extend(put(&here));
            Some(here)
        } else {
            None
        };
        self.0.shut_project(part.slot);
        self.record(Step { given, here, ..step.told(part) }, ops).await?;
        // Requests are refused until the state is read.
        if let Some(project) = project {
            self.keep(project);
        }
        for (key, used_at) in keys {
            let id = key.id;
            register.put_key(key);
            if let Some(at) = used_at {
                register.put_use(id, at);
            }
        }
        register.remove_part(part.slot, true);
        self.0.state.opening.notify_one();
        Ok(())
    }

    /// A key of the other cell, revoked if the user who answers for it has lost the right meanwhile.
    fn still_valid(&self, key: ApiKey, project: &Project) -> ApiKey {
        let Some(user) = key.user else { return key };
        let role = project.members.get(&user).map(|member| member.role);
        if key.ends_with(user, role) { key.revoked(self.0.now()) } else { key }
    }

    /// A place in the store of this cell that no project has, deleted ones and those on their way included.
    pub(super) fn free_place(&self) -> Result<Slot, Error> {
        let register = &self.0.state.accounts;
        let open = register.projects().into_iter().filter_map(|project| project.slot);
        let leaving = register.leaving_projects().into_iter().map(|(slot, _)| slot);
        let moving = register.parts().into_iter().map(|part| part.slot);
        next_place(open.chain(leaving).chain(moving))
    }

    async fn delete_part(&self, part: &Part) -> Result<Vec<Op>, Error> {
        let row = u128::from(part.slot.number());
        MOVES.delete(self.0.store(), NUMBER, row).await.map_err(unreadable)
    }
}

/// A step with a project, on its way to the disk.
struct Step<'s> {
    /// This cell; `None` is home.
    own: Option<&'s str>,
    /// The project as home has it.
    given: Project,
    /// The project's place here.
    here: Option<Slot>,
    records: Vec<Record>,
}

impl Step<'_> {
    /// The step with an entry of the audit log of a cell besides home, whose own entry says more.
    fn told(mut self, part: &Part) -> Self {
        if self.own.is_some() {
            let record = Record::new(Action::ProjectMoved, By::SYSTEM).of(part.project);
            self.records.push(record.with("move", part.id));
        }
        self
    }
}

/// The part of this cell in a move of a project.
fn part_of(
    id: MoveId,
    project: &Project,
    (slot, other): (Slot, Option<String>),
    stage: Stage,
) -> Part {
    let (number, keys) = (project.number, Vec::new());
    Part { id, project: project.id, number, slot, other, stage, keys, digests_of: None }
}

fn dropped(part: &Part) -> Part {
    Part { stage: Stage::Dropped, keys: Vec::new(), ..part.clone() }
}

fn put_part(part: &Part) -> Vec<Op> {
    MOVES.put(NUMBER, u128::from(part.slot.number()), part, None)
}
