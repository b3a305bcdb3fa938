//! Deliveries of webhooks and mails (docs/reference/webhooks.md).

use callboard_domain::Error;
use callboard_domain::delivery::Delivery;
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::query::{Deliveries, Page};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::delivery::{Address, Message, under_way};
use crate::read::{self, unreadable};
use crate::tables::deliveries;

impl Handle {
    /// Deliveries, newest first, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn deliveries(
        &self,
        environment: Environment,
        query: &Deliveries,
    ) -> Result<Page<Delivery>, Error> {
        let page = read::deliveries::deliveries(self.node.store(), environment, query).await;
        page.map_err(|error| unreadable(&error))
    }

    /// Sends a delivery again, or at once if it waits for its next attempt. After `Ok` the delivery is
    /// pending, over crashes too, with the whole schedule before it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if an attempt is due or under way,
    /// [`Error::Unavailable`].
    pub async fn redeliver(
        &self,
        environment: Environment,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        self.admit()?;
        let store = &*self.node.shard(id.partition()).store;
        let found = deliveries::delivery(store, environment, id).await;
        let found = found.map_err(|error| unreadable(&error))?;
        // The delivery's actor would answer only after the attempt.
        if found.ok_or_else(|| Error::not_found("delivery", id))?.is_due(self.node.now()) {
            return Err(under_way(id));
        }
        let (reply, answer) = oneshot::channel();
        let address = Address { environment, delivery: id };
        self.node.shard(id.partition()).deliveries.send(address, Message::Redeliver(reply));
        within(COMMAND, answer).await?
    }
}
