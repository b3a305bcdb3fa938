//! The rows of deliveries: those that are to be sent, and what became of the others.
//!
//! A row stands in `LIVE_DELIVERIES` and moves to `ENDED_DELIVERIES` with its last step, where it is
//! kept for [`KEPT`], so that an operator can see what became of a mail. Deliberately absent: what
//! was written, which is made anew for each attempt from what is true then.

use std::time::Duration;

use callboard_domain::delivery::Delivery;
use callboard_domain::id::Environment;
use callboard_domain::machine::{Machine, Step};
use callboard_store::Op;

use super::{ENDED_DELIVERIES, LIVE_DELIVERIES};

/// How long a delivery is kept after it was made, once it is over.
pub(crate) const KEPT: Duration = Duration::from_hours(30 * 24);

/// The rows of a step of a delivery. Its first step is part of the unit that orders it.
pub(super) fn rows(environment: Environment, step: &Step<Delivery>) -> Vec<Op> {
    let delivery = &step.next;
    let (number, id) = (environment.number(), delivery.cargo.id().as_u128());
    if delivery.is_finished() {
        let ended = ENDED_DELIVERIES.put(number, &id, delivery, None);
        vec![LIVE_DELIVERIES.delete(number, &id), ended]
    } else {
        vec![LIVE_DELIVERIES.put(number, &id, delivery, None)]
    }
}
