//! The entries of the audit log to list: the parameters of the query.

use callboard_domain::Timestamp;
use callboard_domain::audit::Action;
use callboard_domain::query::AuditQuery;

use super::common::Paging;
use super::read::rule::{self, Parse};
use super::read::shape;
use crate::request;

request! {
    /// The entries to list; the newest first.
    #[derive(Debug)]
    pub struct ListAudit as "ListAudit" {
        /// Only entries by this actor: the id of a user or a key, anonymous, or system.
        actor: Option<String> = optional("actor", rule::text(rule::characters(1..=64))),
        /// One of these actions.
        action: Option<Vec<Action>> = optional("action", actions()),
        /// Only entries of this instant or later.
        since: Option<Timestamp> = optional("since", rule::instant()),
        /// Only entries before this instant.
        until: Option<Timestamp> = optional("until", rule::instant()),
        /// At home: true for the logs of all cells as one; limit and offset are at most 1,000 together.
        everywhere: Option<bool> = optional("everywhere", rule::flag()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn actions() -> impl Parse<Vec<Action>> {
    rule::commas(1..=Action::ALL.len(), rule::one_of(&Action::ALL, Action::as_str))
}

impl From<ListAudit> for AuditQuery {
    fn from(list: ListAudit) -> Self {
        Self {
            actor: list.actor,
            actions: list.action.unwrap_or_default(),
            since: list.since,
            until: list.until,
            window: list.page.window(),
        }
    }
}
