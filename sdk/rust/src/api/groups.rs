//! The methods of a client by the kinds of things that they are about.

use super::Callboard;

macro_rules! groups {
    ($($(#[$doc:meta])* $method:ident $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone)]
            pub struct $name {
                pub(super) cb: Callboard,
            }
        )*

        impl Callboard {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(&self) -> $name {
                    $name { cb: self.clone() }
                }
            )*
        }
    };
}

groups! {
    /// Tasks: one prompt each, which one worker runs on one model, or one call of a worker's function.
    tasks Tasks;
    /// Plans: graphs of steps.
    plans Plans;
    /// Templates of plans.
    templates Templates;
    /// Runs of plans.
    executions Executions;
    /// Projects and their members.
    projects Projects;
    /// Schedules of templates and plans.
    schedules Schedules;
    /// Outputs that wait for a reviewer, and the decisions.
    hitl Hitl;
    /// Batches: a template for each row of a table.
    batches Batches;
    /// Files: images and documents of tasks.
    files Files;
    /// Budgets of many tasks.
    budgets Budgets;
    /// Saved views of lists.
    views Views;
    /// Jobs that cancel, retry or delete many things.
    bulk Bulk;
    /// Functions that connected workers announce.
    functions Functions;
    /// API keys.
    keys Keys;
    /// Models, with their limits and pauses.
    models Models;
    /// Queues, with their settings and lengths.
    queues Queues;
    /// Sessions of users who signed in.
    sessions Sessions;
    /// The server itself.
    system System;
    /// Users and invitations.
    users Users;
    /// Webhooks: their secret and their deliveries.
    webhooks Webhooks;
    /// Connected workers.
    workers Workers;
}
