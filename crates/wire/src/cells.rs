//! Cells on the wire (docs/reference/cells.md).

use std::str::FromStr;

use callboard_domain::cell::{Cell, HOME, MAX_NODES};
use callboard_domain::{Error, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::common::Iso;
use super::read::rule::{self, characters, text};
use crate::request;

request! {
    /// A cell to be added, or one to be given other addresses.
    #[derive(Debug, Clone)]
    pub struct PutCell as "PutCell" {
        /// The name: lower-case letters, digits and `-`.
        name: String = required("name", text(characters(1..=32))),
        /// The addresses of its nodes.
        nodes: Vec<String> = required("nodes", rule::list(1..=MAX_NODES, rule::url())),
    }
}

impl PutCell {
    /// The cell, added at `now`.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `name`.
    pub fn cell(self, now: Timestamp) -> Result<Cell, Error> {
        callboard_domain::cell::checked_name("name", &self.name)?;
        Ok(Cell { name: self.name, nodes: self.nodes, added_at: now })
    }
}

/// The name of a cell in a path.
#[derive(Debug)]
pub struct CellName(pub String);

impl FromStr for CellName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_one = callboard_domain::cell::checked_name("name", text).is_ok();
        if is_one { Ok(Self(text.to_owned())) } else { Err(Error::not_found("cell", text)) }
    }
}

/// A cell.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellBody {
    /// The name; `home` is the one where people sign in.
    name: String,
    /// The addresses of its nodes; none for home.
    nodes: Vec<String>,
    /// The number of projects that it has.
    projects: usize,
    /// `home`; `following` if the cell has home's list of now, `behind` if it has an older one, `silent` if it was not
    /// heard for 5 seconds.
    status: &'static str,
    /// The time at which the cell was heard last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    seen_at: Option<Iso>,
}

impl CellBody {
    /// The cell where people sign in, with so many projects.
    #[must_use]
    pub fn home(projects: usize) -> Self {
        let (name, nodes) = (HOME.to_owned(), Vec::new());
        Self { name, nodes, projects, status: HOME, seen_at: None }
    }

    /// Another cell.
    #[must_use]
    pub fn new(
        cell: &Cell,
        projects: usize,
        status: &'static str,
        seen: Option<Timestamp>,
    ) -> Self {
        let Cell { name, nodes, .. } = cell.clone();
        Self { name, nodes, projects, status, seen_at: seen.map(Iso) }
    }
}
