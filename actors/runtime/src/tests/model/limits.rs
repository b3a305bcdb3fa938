//! The limits of a run: budgets, a rate and a pause of queues, the limits of a model, an account's plan.
//!
//! They are set before any work, and loosened at its end, so that nothing has a reason to wait any more. What they
//! must keep is looked at in [`super::audit`].

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::account::User;
use callboard_domain::audit::By;
use callboard_domain::budget::Money;
use callboard_domain::id::{BudgetId, Environment};
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::query::Tasks;
use callboard_domain::queue::QueueChange;
use callboard_domain::rate::Tier;
use callboard_domain::spending::{Budget, BudgetChange, Match, OnExceed, Period};
use callboard_domain::task::Status;

use super::asks::{self, METERED, REJECTS, UNPRICED, WAITS};
use super::moves::ALL;
use super::world::{LIVE, World};
use crate::items::accounts::{NewUser, UserChange};
use crate::kernel::planted;
use crate::tests::approvals::new_user;

/// The leases that the queue with a rate gives out in a minute.
pub(super) const RATE: u32 = 30;
/// The queue with a rate, and the one that is paused now and then.
pub(super) const RATED: &str = "rated";
pub(super) const PAUSED: &str = "other";
/// So many budgets that the cost of a task has several rows.
const MANY: usize = 140;
/// A limit that nothing reaches.
const ENDLESS: f64 = 1e8;

/// The limits of a run.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The budgets that were there before all work, each with its model.
    pub(super) budgets: Vec<(BudgetId, &'static str)>,
    /// The budget that came late, for a model without a price.
    late: bool,
    pub(super) is_rated: bool,
    is_metered: bool,
    /// The account with a plan.
    pub(super) planned: Option<Planned>,
}

/// The account whose plan changes.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) id: callboard_domain::id::UserId,
    /// The bound of its running tasks; `None` while nobody knows whether the plan was changed.
    pub(super) bound: Option<u32>,
    /// The tasks that ran when that was looked at last.
    pub(super) running: u32,
}

impl World {
    /// Sets the limits of the run.
    pub(super) async fn set_limits(&mut self) {
        let mut draws = self.chance.fork();
        if draws.percent(75) {
            self.make_budget(WAITS, 12.0, OnExceed::Wait).await;
            self.make_budget(REJECTS, 30.0, OnExceed::Reject).await;
            self.make_budget("m", 50.0, OnExceed::Alert).await;
            if draws.percent(30) {
                self.make_budget(WAITS, 25.0, OnExceed::Wait).await;
            }
            if draws.percent(4) {
                for _ in 0..MANY {
                    self.make_budget("m", ENDLESS, OnExceed::Alert).await;
                }
            }
        }
        if draws.percent(60) {
            self.limits.is_rated = true;
            self.shared().oracle.rated = Some(Vec::new());
            let change = QueueChange { requests_per_minute: Some(RATE), ..QueueChange::default() };
            self.handle
                .change_queue(Environment::LIVE, RATED, change)
                .await
                .expect("nothing is wrong yet");
        }
        if draws.percent(60) {
            self.limits.is_metered = true;
            let limits = ModelLimits { output_tokens_per_minute: Some(100), ..unlimited() };
            let set = self.handle.set_model_limits(Environment::LIVE, METERED, limits).await;
            set.expect("nothing is wrong yet");
        }
        if draws.percent(60) {
            let new = NewUser { tier: Some(Tier::Free), ..new_user("ben", Role::Operator) };
            let made: Result<User, Error> = self.handle.create_user(new, By::SYSTEM).await;
            let id = made.expect("nothing is wrong yet").id;
            self.limits.planned = Some(Planned { id, bound: Some(asks::BOUND), running: 0 });
            planted::bound_is(&id.to_string(), asks::BOUND, self.handle.now());
        }
    }

    async fn make_budget(&mut self, model: &'static str, limit: f64, on_exceed: OnExceed) {
        let made = self
            .handle
            .create_budget(Environment::LIVE, self.budget(model, limit, on_exceed))
            .await;
        let id = made.expect("nothing is wrong yet").budget.id;
        self.limits.budgets.push((id, model));
    }

    fn budget(&self, model: &str, limit: f64, on_exceed: OnExceed) -> Budget {
        Budget {
            id: self.handle.fresh_budget_id(),
            matches: Match { model: Some(model.into()), ..Match::default() },
            limit: Money::from_usd(limit),
            period: Period::Total,
            timezone: "UTC".into(),
            alert_at: vec![0.5],
            on_exceed,
        }
    }

    /// Somebody changes a limit.
    pub(super) async fn some_limit(&mut self) {
        match self.chance.below(100) {
            0..20 => self.some_raise().await,
            20..35 => self.late_budget().await,
            35..50 => self.some_impatience().await,
            50..70 => {
                let paused = self.chance.percent(50);
                self.note(format!("{PAUSED} is paused: {paused}"));
                let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
                let changed = self.handle.change_queue(Environment::LIVE, PAUSED, change).await;
                self.heard("a change of a queue", changed.map(drop));
            }
            _ => {
                let bound = self.limits.planned.as_ref().and_then(|planned| planned.bound);
                let tier = if bound == Some(asks::BOUND) { Tier::Pro } else { Tier::Free };
                self.change_plan(tier).await;
            }
        }
    }

    /// Somebody cancels what waits for the model with a limit.
    async fn some_impatience(&mut self) {
        let statuses = vec![Status::Pending];
        let query = Tasks { statuses, window: ALL, ..Tasks::default() };
        let mut items = self.read(self.handle.tasks(LIVE, &query).await);
        items.retain(|task| task.spec.model == METERED);
        for task in items {
            self.cancel(task.spec.id);
        }
    }

    async fn some_raise(&mut self) {
        let all: Vec<_> = self.limits.budgets.iter().take(4).map(|(id, _)| *id).collect();
        let Some(id) = self.chance.pick(&all) else { return };
        let Ok(before) = self.handle.budget(Environment::LIVE, id) else { return };
        let limit = Money::from_usd(before.budget.limit.as_usd() + 15.0);
        self.note(format!("{id} is raised to {limit}"));
        let change = BudgetChange { limit: Some(limit), ..BudgetChange::default() };
        let changed = self.handle.change_budget(Environment::LIVE, id, change).await;
        self.heard("a change of a budget", changed.map(drop));
    }

    /// A budget comes that waits for a task that was submitted without a price.
    async fn late_budget(&mut self) {
        if std::mem::replace(&mut self.limits.late, true) {
            return;
        }
        self.note("a budget for a model without a price");
        let made = self
            .handle
            .create_budget(Environment::LIVE, self.budget(UNPRICED, 10.0, OnExceed::Wait))
            .await;
        self.heard("a budget", made.map(drop));
    }

    async fn change_plan(&mut self, tier: Tier) {
        let Some(Planned { id, .. }) = self.limits.planned else { return };
        self.note(format!("the plan of {id} is {}", tier.as_str()));
        let change = UserChange { tier: Some(tier), ..UserChange::default() };
        let changed = self.handle.change_user(id, change, By::SYSTEM).await;
        let bound = asks::quotas().of(Some(tier)).concurrent_tasks;
        let is_known = changed.is_ok();
        self.heard("a change of a plan", changed.map(drop));
        let known = bound.expect("both plans bound");
        planted::bound_is(&id.to_string(), known, self.handle.now());
        // Until the change was stored, tasks were given out under the former plan.
        let running = self.handle.running_of(&id.to_string());
        if let Some(planned) = &mut self.limits.planned {
            planned.bound = bound.filter(|_| is_known);
            planned.running = running;
        }
    }

    /// Notes the refusal of a change.
    fn heard(&self, what: &str, answer: Result<(), Error>) {
        if let Err(error) = answer {
            self.client().refused(what, &error);
        }
    }

    /// Nothing has to wait for a limit any more.
    ///
    /// # Errors
    /// One cannot be loosened.
    pub(super) async fn loosen(&mut self) -> Result<(), String> {
        let budgets: Vec<_> = self.limits.budgets.iter().take(4).map(|(id, _)| *id).collect();
        let says = |error: Error| format!("a limit cannot be loosened: {error}");
        for id in budgets {
            let limit = Some(Money::from_usd(ENDLESS));
            let change = BudgetChange { limit, ..BudgetChange::default() };
            self.handle.change_budget(Environment::LIVE, id, change).await.map_err(says)?;
        }
        let change = QueueChange { paused: Some(false), ..QueueChange::default() };
        self.handle.change_queue(Environment::LIVE, PAUSED, change).await.map_err(says)?;
        if self.limits.is_metered {
            let limits = ModelLimits { output_tokens_per_minute: Some(1_000_000), ..unlimited() };
            self.handle.set_model_limits(Environment::LIVE, METERED, limits).await.map_err(says)?;
        }
        self.change_plan(Tier::Free).await;
        Ok(())
    }

    /// The account whose running tasks are bounded.
    pub(super) fn bounded(&self) -> crate::Owner {
        let planned = self.limits.planned.as_ref().map(|planned| planned.id);
        asks::account(true, planned)
    }
}

fn unlimited() -> ModelLimits {
    ModelLimits::default()
}
