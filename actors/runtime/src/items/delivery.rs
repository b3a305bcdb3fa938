//! A delivery's actor: it alone sends, and records the outcome.
//!
//! The shard's supervisor spawns the actor when the delivery is due; the actor stops when the attempt is over, be it
//! for good or until the next. The actor reads the content at that moment: a mail's recipient as it is now, and the
//! reviewer's item, if that still waits; a webhook's task as it was committed at its end. A webhook needs a permit
//! ([`crate::messages::permits`]), and waits for one without an actor.

mod contents;

use std::sync::Arc;

use callboard_domain::Error as Refused;
use callboard_domain::delivery::{
    Delivery, Effect, Event, Failure, MAIL_WAITS, Notification, Refusal, State as DeliveryState,
};
use callboard_domain::id::DeliveryId;
use callboard_domain::machine::Machine;
use callboard_domain::retry::Jitter;
use callboard_domain::unit::{self, Change};
use callboard_store::Error;
use ractor::ActorProcessingErr;
use tokio::sync::oneshot;

use crate::commit::{durable, effects};
pub(crate) use crate::kernel::address::DeliveryAddress as Address;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::ports::{NotSent, WebhookContent};
use crate::kernel::project_pool::PoolPermit;
use crate::kernel::supervisor::Reason;
use crate::limits::reservation::Reservation;
pub(crate) use crate::messages::delivery::Message;
use crate::messages::permits::SendPermit;
use crate::node::Node;
use crate::observers::metrics::NotificationKind;
use crate::tables::deliveries;

/// A delivery in the memory of its actor; `None` if there is none.
#[derive(Default)]
pub(crate) struct DeliveryItem(Option<Delivery>);

impl Item for DeliveryItem {
    const NAME: &'static str = "delivery";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &Address) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        let Address { environment, delivery } = held.address;
        let store = &*held.node.shard(delivery.partition()).store;
        held.item.0 = deliveries::delivery(store, environment, delivery).await?;
        match reason {
            Reason::Woken => Ok(()),
            Reason::Restarted => held.time_passed(None).await,
            Reason::GivenUp => {
                let message = "internal error: the delivery's actor failed repeatedly".into();
                held.failed(Failure { permanent: true, message, ..Failure::default() }).await
            }
        }
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::TimePassed => held.time_passed(None).await,
            Message::Permitted(permit) => held.time_passed(Some(permit)).await,
            Message::Redeliver(reply) => held.redeliver(reply).await,
        }
    }

    fn is_idle(&self) -> bool {
        true
    }
}

impl Activation<DeliveryItem> {
    /// Makes the attempt that is due, if one is; a webhook's with a permit, or in its turn.
    async fn time_passed(&mut self, permit: Option<SendPermit>) -> Done {
        if self.node.settings.stands_still {
            return Ok(());
        }
        let is_due = self.item.0.as_ref().filter(|delivery| delivery.is_due(self.node.now()));
        let _permit = match (permit, is_due.and_then(|delivery| delivery.notification.url())) {
            (None, Some(url)) => {
                let Some(permit) = self.node.actors.send_permits.take(&host(url), self.address)
                else {
                    return Ok(());
                };
                Some(permit)
            }
            (permit, _) => permit,
        };
        match self.take(Event::TimePassed).await? {
            Ok(effects) => {
                if effects.contains(&Effect::Send) {
                    self.attempt().await?;
                }
            }
            // The clock went back after the timer had fired: ask for the instant again.
            Err(Refusal::NotDue) => {
                for effect in self.item.0.iter().flat_map(Machine::outstanding) {
                    effects::of_deliveries(&self.node, self.address, effect);
                }
            }
            Err(Refusal::Finished | Refusal::UnderWay) => {}
        }
        Ok(())
    }

    async fn redeliver(&mut self, reply: oneshot::Sender<Result<Delivery, Refused>>) -> Done {
        let id = self.address.delivery;
        let taken = self.take(Event::Redelivered).await?;
        let answer = match (taken, &self.item.0) {
            (Ok(_), Some(delivery)) => Ok(delivery.clone()),
            (Err(Refusal::UnderWay), Some(_)) => Err(under_way(id)),
            (Ok(_) | Err(_), _) => Err(Refused::not_found("delivery", id)),
        };
        // The client may have left; it is sent again all the same.
        let _ = reply.send(answer);
        Ok(())
    }

    /// Takes a step; returns its effects. `Ok(Err(_))` is a refusal.
    async fn take(
        &mut self,
        event: Event,
    ) -> Result<Result<Vec<Effect>, Refusal>, ActorProcessingErr> {
        let Address { environment, delivery } = self.address;
        let Some(current) = &self.item.0 else { return Ok(Err(Refusal::Finished)) };
        let unit = match unit::of_delivery(current, event, self.node.now()) {
            Ok(unit) => unit,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let unit = durable::commit(
            &self.node,
            environment,
            delivery.partition(),
            unit,
            Reservation::default(),
        )
        .await?;
        let mut effects = Vec::new();
        for change in unit.changes {
            if let Change::Delivery(step) = change {
                self.item.0 = Some(step.next);
                effects = step.effects;
            }
        }
        Ok(Ok(effects))
    }

    async fn attempt(&mut self) -> Done {
        let Some(delivery) = &self.item.0 else { return Ok(()) };
        // A server for mail was configured when a mail was ordered, and may be so again.
        let unsent = || Err(unconfigured("no server for mail is configured"));
        let mailer = &self.node.kernel.ports.mailer;
        let sent = match &delivery.notification {
            Notification::Mail(mail) => {
                match contents::letter(&self.node, self.address.environment, mail).await? {
                    Ok(letter) => match mailer {
                        Some(mailer) => mailer.send(letter).await.map(|()| None).map_err(failed),
                        None => unsent(),
                    },
                    Err(why) => return self.not_needed(why).await,
                }
            }
            Notification::KeyEnd(mail) => match contents::key_end(&self.node, mail) {
                Ok(letter) => match mailer {
                    Some(mailer) => {
                        mailer.send_key_end(letter).await.map(|()| None).map_err(failed)
                    }
                    None => unsent(),
                },
                Err(why) => return self.not_needed(why).await,
            },
            notification @ (Notification::Webhook(_) | Notification::ExecutionWebhook(_)) => {
                match self.notice(notification).await? {
                    Ok((notice, _share)) => match &self.node.kernel.ports.webhooks {
                        Some(client) => client.post(notice).await.map(Some),
                        None => Err(unconfigured("this server sends no webhooks")),
                    },
                    Err(why) => return self.not_needed(why).await,
                }
            }
        };
        match sent {
            Ok(status) => self.conclude(Event::Sent { status }).await,
            Err(failure) => self.failed(failure).await,
        }
    }

    /// The content of a webhook, with its share of memory. A long output that has to wait for it is
    /// read again, so that it takes none meanwhile.
    async fn notice(
        &self,
        notification: &Notification,
    ) -> Result<Result<(WebhookContent, PoolPermit), &'static str>, Error> {
        let (node, project, mut waited) = (&self.node, self.address.environment.slot(), None);
        loop {
            let read = contents::notice(node, self.address.environment, notification).await?;
            let notice = match read {
                Ok(notice) => notice,
                Err(why) => return Ok(Err(why)),
            };
            let length = notice.output.as_ref().map_or(0, String::len);
            if let Some(share) =
                waited.take().or_else(|| node.actors.send_permits.try_share(project, length))
            {
                return Ok(Ok((notice, share)));
            }
            drop(notice);
            waited = Some(node.actors.send_permits.share(project, length).await);
        }
    }

    async fn not_needed(&mut self, why: &str) -> Done {
        self.conclude(Event::NotNeeded { message: why.to_owned() }).await
    }

    async fn failed(&mut self, failure: Failure) -> Done {
        let Some(delivery) = &self.item.0 else { return Ok(()) };
        let waits = match delivery.notification {
            Notification::Mail(_) | Notification::KeyEnd(_) => MAIL_WAITS.into(),
            Notification::Webhook(_) | Notification::ExecutionWebhook(_) => {
                Arc::clone(&self.node.settings.webhooks.waits)
            }
        };
        let jitter = Jitter((self.node.kernel.ports.entropy.bits() & 0xffff) as u16);
        self.conclude(Event::Failed { failure, waits, jitter }).await
    }

    /// Records the result of an attempt.
    async fn conclude(&mut self, event: Event) -> Done {
        if let (Ok(_), Some(delivery)) = (self.take(event).await?, &self.item.0) {
            log_end(delivery);
            if self.address.environment.is_live() {
                let (metrics, kind) =
                    (&self.node.observers.metrics, kind_of(&delivery.notification));
                metrics.delivered(self.address.environment, kind, &delivery.state);
            }
        }
        Ok(())
    }
}

fn failed(NotSent { permanent, message }: NotSent) -> Failure {
    Failure { permanent, message, ..Failure::default() }
}

fn unconfigured(message: &str) -> Failure {
    Failure { message: message.to_owned(), ..Failure::default() }
}

/// The refusal of a redelivery while an attempt is due.
pub(crate) fn under_way(id: DeliveryId) -> Refused {
    Refused::InvalidState(format!("delivery {id} is being sent already: wait for the result"))
}

/// Host and port of a URL, or the text in their place.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest).to_ascii_lowercase()
}

fn display<T: std::fmt::Display + 'static>(id: T) -> tracing::field::DisplayValue<T> {
    tracing::field::display(id)
}

const fn kind_of(notification: &Notification) -> NotificationKind {
    match notification {
        Notification::Mail(_) | Notification::KeyEnd(_) => NotificationKind::Mail,
        Notification::Webhook(_) | Notification::ExecutionWebhook(_) => NotificationKind::Webhook,
    }
}

/// Logs the end of an attempt; for a webhook without the receiver's words, which may repeat
/// an output.
fn log_end(delivery: &Delivery) {
    let (id, subject, attempts) =
        (delivery.notification.id(), delivery.notification.subject(), delivery.attempts);
    let (task, execution) = (subject.task().map(display), subject.execution().map(display));
    let status = delivery.last_status;
    let (what, error) = match &delivery.notification {
        Notification::Mail(_) | Notification::KeyEnd(_) => {
            ("mail", delivery.last_error.as_deref().unwrap_or_default())
        }
        Notification::Webhook(_) | Notification::ExecutionWebhook(_) => ("webhook", ""),
    };
    match delivery.state {
        DeliveryState::Delivered { .. } => {
            tracing::info!(delivery = %id, task, execution, what, "a delivery arrived");
        }
        DeliveryState::Dropped { .. } => {
            tracing::info!(delivery = %id, task, execution, what, "a delivery was not needed any more");
        }
        DeliveryState::Pending { next_attempt_at } => {
            tracing::warn!(delivery = %id, task, execution, what, attempts, status, next = %next_attempt_at,
                error, "a delivery failed and is tried again");
        }
        DeliveryState::Dead { .. } => {
            tracing::error!(delivery = %id, task, execution, what, attempts, status, error,
                "a delivery failed for good");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_ends_where_its_path_begins() {
        for url in ["http://a:1/b", "HTTP://A:1", "http://a:1?b", "http://a:1#b", "http://a:1\\b"] {
            assert_eq!(host(url), "a:1", "{url}");
        }
    }
}
