//! The title of a task or an execution, and what its webhooks announce, on the wire.

use callboard_domain::Rule;
use callboard_domain::labels::{CallbackEvent, Labels, MAX_TITLE, title_of};
use serde::Serialize;
use utoipa::ToSchema;

use super::read::rule::{self, Parse};
use super::read::{Fields, Refused};
use crate::request;

request! {
    impl Labels as "LabelsRequest" {
        /// The title, for people: one line of at most 200 characters.
        title = optional("title", title()),
        /// The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default
        /// those of `[webhooks] events`.
        callback_events = optional("callbackEvents", events()),
        /// True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review.
        callback_details = or_default("callbackDetails", rule::flag()),
    }
}

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

/// The title, and what the webhooks announce.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelsBody<'a> {
    /// The title, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    /// The announced events, if it names its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_events: Option<Vec<&'static str>>,
    /// True if webhooks say more than the result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    callback_details: bool,
}

impl<'a> LabelsBody<'a> {
    /// The members of an item.
    #[must_use]
    pub fn of(labels: Option<&'a Labels>) -> Self {
        let Some(Labels { title, callback_events, callback_details }) = labels else {
            return Self::default();
        };
        let names = |events: &Vec<CallbackEvent>| events.iter().map(|it| it.as_str()).collect();
        Self {
            title: title.as_deref(),
            callback_events: callback_events.as_ref().map(names),
            callback_details: *callback_details,
        }
    }
}
