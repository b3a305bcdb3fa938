//! The rows of deliveries: those that are to be sent, and the outcomes of the others.
//!
//! A row stands in `LIVE_DELIVERIES` and moves to `ENDED_DELIVERIES` with its last step, where it is
//! kept for [`KEPT`], so that an operator can see its outcome and send it again. Both stand in
//! one list. Deliberately absent: the content, which is made anew for each attempt.

use std::time::Duration;

use callboard_domain::delivery::{Delivery, Fact, Notification, Subject};
use callboard_domain::event::EventName;
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::{Timestamp, delivery};
use callboard_store::{Entry, Error, Filter, Op, Order, Query, Store};

use super::log::{self, Kind};
use super::{ENDED_DELIVERIES, LIVE_DELIVERIES, delivery_list, delivery_term as term, event_words};

/// The time for which a delivery is kept after it was made, once it has ended.
pub(crate) const KEPT: Duration = Duration::from_hours(30 * 24);

/// The rows of a step of a delivery, whose first step is part of the unit that orders it.
pub(super) fn rows(environment: Environment, now: Timestamp, step: &Step<Delivery>) -> Vec<Op> {
    let delivery = &step.next;
    let (number, id) = (environment.number(), delivery.notification.id().as_u128());
    let entry = Some(listed(environment, delivery));
    let mut ops = Vec::with_capacity(3);
    if delivery.is_finished() {
        ops.push(LIVE_DELIVERIES.delete(number, &id));
        ops.push(ENDED_DELIVERIES.put(number, &id, delivery, entry));
    } else {
        if step.facts.contains(&Fact::Revived) {
            ops.push(ENDED_DELIVERIES.delete(number, &id));
        }
        ops.push(LIVE_DELIVERIES.put(number, &id, delivery, entry));
    }
    let names = step.facts.iter().filter_map(|fact| event(&delivery.notification, *fact));
    for event in names {
        let mut then = delivery.clone();
        if let Some(error) = &mut then.last_error {
            let words = std::mem::take(error);
            ops.push(event_words::row(environment, words_of(delivery), words, None));
        }
        ops.push(log::append(environment, (event.as_str(), now), Kind::Delivery, then));
    }
    ops
}

/// The place of the words of a delivery's event.
fn words_of(delivery: &Delivery) -> event_words::Place {
    (delivery.notification.id().as_u128(), u64::from(delivery.attempts_before + delivery.attempts))
}

/// Puts the words of an event back.
pub(super) async fn put_words_back(
    store: &dyn Store,
    environment: Environment,
    delivery: &mut Delivery,
) -> Result<(), Error> {
    let place = words_of(delivery);
    match &mut delivery.last_error {
        Some(error) => event_words::put_back(store, environment, place, error).await,
        None => Ok(()),
    }
}

/// The event of a fact; mails have none.
const fn event(notification: &Notification, fact: Fact) -> Option<EventName> {
    match (notification, fact) {
        (Notification::Mail(_) | Notification::KeyEnd(_), _) | (_, Fact::Revived) => None,
        (Notification::Webhook(_) | Notification::ExecutionWebhook(_), Fact::Delivered) => {
            Some(EventName::WebhookDelivered)
        }
        (Notification::Webhook(_) | Notification::ExecutionWebhook(_), Fact::Failed) => {
            Some(EventName::WebhookFailed)
        }
    }
}

pub(crate) fn listed(environment: Environment, delivery: &Delivery) -> Entry {
    let terms = vec![
        (term::STATUS, delivery.status().as_str().as_bytes().into()),
        (term::SUBJECT, subject_term(delivery.notification.subject())),
    ];
    Entry { list: delivery_list(environment), terms, sort: [None; 2] }
}

/// A task or an execution as a term of the list.
pub(crate) fn subject_term(subject: Subject) -> Box<[u8]> {
    Box::from(subject.as_u128().to_be_bytes())
}

/// A delivery, wherever it stands.
pub(crate) async fn delivery(
    store: &dyn Store,
    environment: Environment,
    id: DeliveryId,
) -> Result<Option<Delivery>, Error> {
    let (number, id) = (environment.number(), id.as_u128());
    // The third look is for one that was sent again between the first two.
    for table in [LIVE_DELIVERIES, ENDED_DELIVERIES, LIVE_DELIVERIES] {
        if let Some(row) = table.get(store, number, &id).await? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// True if a delivery about the item is still to be sent.
pub(crate) async fn is_awaited(
    store: &dyn Store,
    environment: Environment,
    subject: Subject,
) -> Result<bool, Error> {
    let pending = delivery::Status::Pending.as_str().as_bytes();
    let mut query = about(environment, subject);
    query.filters.push(Filter::AnyOf(term::STATUS, vec![pending.into()]));
    Ok(store.query(&Query { limit: 0, ..query }).await?.total > 0)
}

/// The ended deliveries about the item, without the answers of receivers, which may quote its texts.
pub(crate) async fn without_answers(
    store: &dyn Store,
    environment: Environment,
    subject: Subject,
) -> Result<Vec<Op>, Error> {
    let mut ops = Vec::new();
    for id in store.query(&about(environment, subject)).await?.documents {
        let number = environment.number();
        ops.extend(event_words::removal(store, environment, id, None).await?);
        let Some(found) = ENDED_DELIVERIES.get(store, number, &id).await? else { continue };
        if found.last_error.is_some() {
            let rest = Delivery { last_error: None, ..found };
            let entry = Some(listed(environment, &rest));
            ops.push(ENDED_DELIVERIES.put(number, &id, &rest, entry));
        }
    }
    Ok(ops)
}

/// The deliveries about an item.
fn about(environment: Environment, subject: Subject) -> Query {
    Query {
        list: delivery_list(environment),
        filters: vec![Filter::AnyOf(term::SUBJECT, vec![subject_term(subject)])],
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: 1_000,
    }
}
