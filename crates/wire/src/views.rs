//! Saved views on the wire.

use callboard_domain::Rule;
use callboard_domain::access::Account;
use callboard_domain::id::ViewId;
use callboard_domain::view::{Change, List, MAX_NAME, MAX_QUERY, View};
use serde::Serialize;
use utoipa::ToSchema;

use crate::common::{Iso, Paging, Text};
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    /// The views to list: the caller's own, then the shared ones.
    #[derive(Debug)]
    pub struct ListViews as "ListViews" {
        /// Only views of this list.
        of: Option<List> = optional("page", list()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// A view to be saved.
    #[derive(Debug, Clone)]
    pub struct CreateView as "CreateView" {
        /// The name, for people.
        name: String = required("name", name()),
        /// The list: the path of its page.
        page: List = required("page", list()),
        /// The query string of the list's address, without its `?`: at most 2,048 bytes.
        query: String = required("query", query()),
        /// True to show the view to everybody who sees the project; by default false.
        shared: bool = or_default("shared", rule::flag()),
    }
}

request! {
    /// A change of a view; a member that is left out stays as it is.
    #[derive(Debug, Clone)]
    pub struct ChangeView as "ChangeView" {
        /// The name, for people.
        name: Option<String> = optional("name", name()),
        /// The query string of the list's address, without its `?`: at most 2,048 bytes.
        query: Option<String> = optional("query", query()),
        /// True to share the view, false to take it back.
        shared: Option<bool> = optional("shared", rule::flag()),
    }
}

fn list() -> impl Parse<List> {
    rule::one_of(&List::ALL, List::as_str)
}

fn name() -> impl Parse<String> {
    let is_shown = |name: &String| !name.trim().is_empty() && !name.contains(char::is_control);
    let says = "must have a letter, and no control characters";
    rule::text(rule::characters(1..=MAX_NAME)).only(is_shown, Rule::Pattern, says)
}

fn query() -> impl Parse<String> {
    let is_query =
        |query: &String| !query.contains(['?', '#']) && !query.contains(char::is_control);
    let says = "must be a query string, without ? and #";
    rule::text(rule::bytes(0..=MAX_QUERY)).only(is_query, Rule::Pattern, says)
}

impl CreateView {
    /// The view of its maker.
    #[must_use]
    pub fn view(self, created_by: Account) -> View {
        let Self { name, page, query, shared } = self;
        View { name, page, query, shared, created_by }
    }
}

impl From<ChangeView> for Change {
    fn from(ChangeView { name, query, shared }: ChangeView) -> Self {
        Self { name, query, shared }
    }
}

/// A saved view.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ViewBody {
    /// `view_…`
    #[schema(value_type = String)]
    id: Text<ViewId>,
    /// The name.
    name: String,
    /// The list: the path of its page.
    page: &'static str,
    /// The query string of the list's address, without its `?`.
    query: String,
    /// True if everybody who sees the project sees it.
    shared: bool,
    /// The maker: the id of a user or a key.
    created_by: String,
    /// The time at which it was saved.
    created_at: Iso,
}

impl ViewBody {
    /// A view with its identifier.
    #[must_use]
    pub fn of(id: ViewId, view: &View) -> Self {
        Self {
            id: Text(id),
            name: view.name.clone(),
            page: view.page.as_str(),
            query: view.query.clone(),
            shared: view.shared,
            created_by: view.created_by.to_string(),
            created_at: Iso(id.created_at()),
        }
    }
}
