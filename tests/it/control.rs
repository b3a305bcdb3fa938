//! Control of the work by operators: queues, retries, keys that bound tasks or take turns.

mod budgets;
mod bulk;
mod flow;
mod pause;
mod queues;
mod retries;
