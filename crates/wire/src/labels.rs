//! The title of a task or an execution, and what its webhooks announce, on the wire.

use callboard_domain::Rule;
use callboard_domain::labels::{CallbackEvent, Labels, MAX_TITLE, title_of};

use super::read::rule::{self, Parse};
use super::read::{Fields, Refused};
use crate::answer::Given;
use crate::request;

request! {
    impl Labels as "LabelsRequest", answered as "Labels" {
        /// The title, for people: one line of at most 200 characters.
        title = optional("title", title()),
        /// The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default
        /// those of `[webhooks] events`.
        callback_events = optional("callbackEvents", events()),
        /// True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review.
        callback_details = or_default("callbackDetails", rule::flag()),
    }
}

/// The members of an item.
pub type LabelsBody<'a> = Given<'a, Labels>;

fn title() -> impl Parse<String> {
    let says = "must have a visible character";
    rule::text(rule::characters(1..=MAX_TITLE))
        .only(|text: &String| title_of(text).is_some(), Rule::Pattern, says)
        .map(|text| title_of(&text).unwrap_or(text))
}

fn events() -> impl Parse<Vec<CallbackEvent>> {
    let event = rule::one_of(&CallbackEvent::ALL, CallbackEvent::as_str).map(Some);
    rule::list(1..=CallbackEvent::ALL.len(), event)
        .map(|events| events.into_iter().flatten().collect::<Vec<_>>())
}

/// Refuses settings of a callback without an address, and events that the item does not have.
pub(super) fn fit(
    labels: &Labels,
    has_url: bool,
    known: &[CallbackEvent],
    fields: &Fields<'_>,
) -> Result<(), Refused> {
    let without = "has no effect without callbackUrl";
    if !has_url && labels.callback_events.is_some() {
        return Err(fields.refuse("callbackEvents", Rule::Unknown, without));
    }
    if !has_url && labels.callback_details {
        return Err(fields.refuse("callbackDetails", Rule::Unknown, without));
    }
    let unknown = |event: &CallbackEvent| !known.contains(event);
    if labels.callback_events.iter().flatten().any(unknown) {
        let names: Vec<_> = known.iter().map(|event| event.as_str()).collect();
        let says = format!("of an execution must be {}", names.join(", "));
        return Err(fields.refuse("callbackEvents", Rule::Enum, &says));
    }
    Ok(())
}
