//! The rows of deliveries: those that are to be sent, and what became of the others.
//!
//! A row stands in `LIVE_DELIVERIES` and moves to `ENDED_DELIVERIES` with its last step, where it is
//! kept for [`KEPT`], so that an operator can see what became of a mail. Deliberately absent: what
//! was written, which is made anew for each attempt from what is true then.

use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::approval::Mail;
use callboard_domain::delivery::{Cargo, Delivery};
use callboard_domain::id::Environment;
use callboard_domain::machine::{Machine, Step};
use callboard_store::Op;

use super::{ENDED_DELIVERIES, LIVE_DELIVERIES};
use crate::durable::Persist;

/// How long a delivery is kept after it was made, once it is over.
pub(crate) const KEPT: Duration = Duration::from_hours(30 * 24);

impl Persist for Delivery {
    type Texts = ();

    fn partition(&self) -> u8 {
        self.cargo.id().partition()
    }

    fn rows(step: &Step<Self>, environment: Environment, _: Timestamp, (): ()) -> Vec<Op> {
        let delivery = &step.next;
        let (number, id) = (environment.number(), delivery.cargo.id().as_u128());
        if delivery.is_finished() {
            let ended = ENDED_DELIVERIES.put(number, &id, delivery, None);
            vec![LIVE_DELIVERIES.delete(number, &id), ended]
        } else {
            vec![LIVE_DELIVERIES.put(number, &id, delivery, None)]
        }
    }
}

/// The rows of a mail that is to be sent: part of the commit of what it tells of, in whose
/// partition its identifier was made.
pub(crate) fn first_rows(environment: Environment, mail: &Mail, now: Timestamp) -> Vec<Op> {
    debug_assert_eq!(mail.id.partition(), mail.task.partition(), "a batch stays in a partition");
    Delivery::rows(&Step::to(Delivery::new(Cargo::Mail(*mail), now)), environment, now, ())
}
