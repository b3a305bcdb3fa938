//! Several nodes on one database: one is active, the others forward to it and take over from it.

mod alone;
mod cells;
mod elsewhere;
mod forwarded;
mod front;
mod identity;
mod member;
mod moves;
mod peers;
mod pulse;
mod socket;
mod store;

pub(crate) use alone::front;
pub(crate) use member::Node;

#[cfg(test)]
mod tests;
