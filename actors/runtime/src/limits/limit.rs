//! A limit on tasks, as the commit of a unit knows it.

use callboard_domain::id::Environment;
use callboard_domain::machine::Step;
use callboard_domain::task::{Inputs, Spec, Task};

use crate::limits::prices::CurrentPrices;
use crate::limits::reservation::Reservation;

/// A limit on tasks. A further one is a type with these three, and a line in [`Limits::on_tasks`].
pub(crate) trait Limit {
    /// Counts a new task, out of what was reserved for its unit.
    fn enter(&self, new: &NewTask<'_>, reserved: &mut Reservation);

    /// Counts a new task no more, as it was not stored.
    fn undo(&self, environment: Environment, spec: &Spec);

    /// Follows a step of a task that is durable.
    fn stepped(&self, environment: Environment, step: &Step<Task>);
}

/// A task that is about to be stored.
pub(crate) struct NewTask<'t> {
    pub(crate) environment: Environment,
    pub(crate) task: &'t Task,
    pub(crate) inputs: &'t Inputs,
    pub(crate) prices: &'t CurrentPrices,
    /// True if the account's room was found before.
    pub(crate) is_admitted: bool,
}
