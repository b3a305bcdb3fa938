//! Cells on the wire (docs/reference/cells.md).

use std::collections::BTreeMap;
use std::str::FromStr;

use callboard_domain::cell::{Cell, HOME, MAX_NODES};
use callboard_domain::{Error, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use url::Url;
use utoipa::ToSchema;

use super::common::Iso;
use super::read::rule::{self, characters, text};
use super::system::{Component, Components, Health};
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
#[skip_serializing_none]
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
    seen_at: Option<Iso>,
    /// The state of the service there; absent if the cell did not answer.
    health: Option<CellHealth>,
}

/// The state of the service in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellHealth {
    /// The worst of its components: ok, degraded or unavailable.
    status: String,
    /// The components that are not ok, each with its reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    components: BTreeMap<String, String>,
}

impl CellHealth {
    /// The short form of a health.
    #[must_use]
    pub fn of(health: &Health) -> Self {
        let Components { engine, database, workers, .. } = &health.components;
        let parts = [("engine", engine), ("database", database), ("workers", workers)];
        let faults = parts.into_iter().filter(|(_, part)| part.status != "ok");
        let why = |part: &Component| part.detail.clone().unwrap_or_else(|| part.status.to_owned());
        Self {
            status: health.status.to_owned(),
            components: faults.map(|(name, part)| (name.to_owned(), why(part))).collect(),
        }
    }
}

/// A node as Prometheus discovers it.
#[derive(Debug, Serialize)]
pub struct MetricsTarget {
    /// Its host and port.
    targets: [String; 1],
    /// `cell`, and `__scheme__`.
    labels: BTreeMap<&'static str, String>,
}

impl MetricsTarget {
    /// The nodes of a cell.
    pub fn of(cell: &Cell) -> impl Iterator<Item = Self> {
        let urls = cell.nodes.iter().filter_map(|node| Url::parse(node).ok());
        urls.filter_map(|url| {
            let labels = [("cell", cell.name.clone()), ("__scheme__", url.scheme().to_owned())];
            let host = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
            Some(Self { targets: [host], labels: labels.into() })
        })
    }
}

impl CellBody {
    /// The cell where people sign in, with so many projects.
    #[must_use]
    pub fn home(projects: usize, health: CellHealth) -> Self {
        let (name, nodes) = (HOME.to_owned(), Vec::new());
        Self { name, nodes, projects, status: HOME, seen_at: None, health: Some(health) }
    }

    /// The cell with its health.
    #[must_use]
    pub fn with(self, health: Option<CellHealth>) -> Self {
        Self { health, ..self }
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
        Self { name, nodes, projects, status, seen_at: seen.map(Iso), health: None }
    }
}
