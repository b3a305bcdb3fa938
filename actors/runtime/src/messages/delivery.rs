//! The messages of a delivery's actor.

use callboard_domain::Error as Refused;
use callboard_domain::delivery::Delivery;
use tokio::sync::oneshot;

use crate::messages::permits::SendPermit;

/// A message to a delivery.
#[derive(Debug)]
pub(crate) enum Message {
    /// An instant passed that the delivery had asked for, or the delivery was made just now.
    TimePassed,
    /// The delivery's turn has come: it may be posted.
    Permitted(SendPermit),
    /// An operator wants the message sent again.
    Redeliver(oneshot::Sender<Result<Delivery, Refused>>),
}
