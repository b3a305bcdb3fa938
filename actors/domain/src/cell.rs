//! Cells: servers that share the projects of one company among them (docs/reference/cells.md).
//!
//! ```text
//!   home    people, sessions, the list of projects and cells ─┐ follows, over HTTP
//!   berlin  projects with their keys, work and events ◀───────┘
//! ```
//!
//! A cell is a whole server with a store of its own. Home gives each new project a number, which its keys name, and a
//! cell; the cell gives it a place in its store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::access::Role;
use crate::account::Email;
use crate::error::{Error, Rule};
use crate::id::UserId;
use crate::project::Project;
use crate::rate::Tier;

/// The name of the cell where people sign in.
pub const HOME: &str = "home";
/// The most characters of a name.
const MAX_NAME: usize = 32;
/// The most cells besides home.
pub const MAX_CELLS: usize = 100;
/// The most addresses of a cell.
pub const MAX_NODES: usize = 16;

/// A cell besides home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The name.
    pub name: String,
    /// The addresses of its nodes; each passes requests on to the active one.
    pub nodes: Vec<String>,
    /// The time since which projects are made there.
    pub added_at: Timestamp,
}

/// Reads the name of a cell besides home: lower-case letters, digits and `-`, a letter first.
///
/// # Errors
/// [`Error::Invalid`] for `field`.
pub fn checked_name(field: &str, name: &str) -> Result<(), Error> {
    let mut characters = name.chars();
    let is_right = characters.next().is_some_and(|first| first.is_ascii_lowercase())
        && characters.all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '-')
        && name.len() <= MAX_NAME;
    if !is_right {
        let message = format!(
            "must be up to {MAX_NAME} lower-case letters, digits and -, with a letter first"
        );
        return Err(Error::invalid(field, Rule::Pattern, message));
    }
    if name == HOME {
        let message = "is the name of the cell where people sign in: choose another one";
        return Err(Error::invalid(field, Rule::Reserved, message));
    }
    Ok(())
}

/// The cell of the next project: the asked one, else the one with the fewest projects, home first among equals.
/// `None` is home.
///
/// # Errors
/// [`Error::Invalid`], field `cell`, for a cell that does not exist.
pub fn cell_for(
    asked: Option<&str>,
    cells: &[Cell],
    projects: &[impl AsRef<Project>],
) -> Result<Option<String>, Error> {
    if let Some(asked) = asked {
        if asked == HOME {
            return Ok(None);
        }
        if cells.iter().any(|cell| cell.name == asked) {
            return Ok(Some(asked.to_owned()));
        }
        let known = cells.iter().map(|cell| cell.name.as_str());
        let known = [HOME].into_iter().chain(known).collect::<Vec<_>>().join(", ");
        let message = format!("must be one of {known}");
        return Err(Error::invalid("cell", Rule::Enum, message));
    }
    let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for project in projects {
        *counts.entry(project.as_ref().cell.as_deref()).or_default() += 1;
    }
    let all = [None].into_iter().chain(cells.iter().map(|cell| Some(cell.name.as_str())));
    let emptiest = all.min_by_key(|cell| counts.get(cell).copied().unwrap_or_default());
    Ok(emptiest.flatten().map(str::to_owned))
}

/// The part of home's list that a cell follows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Assigned {
    /// The cell's projects, with their members; deleted ones too, until the number of projects that there ever were.
    /// Those that come to the cell or have left it too.
    pub projects: Vec<Project>,
    /// The people who are members of these projects, and the admins of home.
    pub people: Vec<Person>,
    /// The cells besides home.
    pub cells: Vec<Cell>,
    /// The projects of all cells besides home, in the order of their numbers.
    pub places: Vec<Place>,
}

/// A person of home, as a cell knows the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The identifier.
    pub id: UserId,
    /// The e-mail.
    pub email: Email,
    /// The name for people.
    pub name: String,
    /// The role for the cell as a whole: admin for admins of home, else viewer.
    pub role: Role,
    /// The billing tier; `None` means the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The creation time.
    pub created_at: Timestamp,
}

/// Where a project is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number, which its keys name.
    pub number: u32,
    /// The cell.
    pub cell: String,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn cell(name: &str) -> Cell {
        Cell { name: name.into(), nodes: Vec::new(), added_at: Timestamp::from_millis(0) }
    }

    fn projects(cells: &[Option<&str>]) -> Vec<Arc<Project>> {
        let cells = cells.iter().map(|cell| cell.map(str::to_owned));
        cells.map(|cell| Arc::new(Project { cell, ..Project::default_one() })).collect()
    }

    #[test]
    fn a_new_project_goes_to_the_emptiest_cell_or_where_it_is_sent() {
        let cells = [cell("berlin"), cell("oslo")];
        let next = |asked, all: &[Option<&str>]| cell_for(asked, &cells, &projects(all)).unwrap();
        assert_eq!(next(None, &[]), None);
        assert_eq!(next(None, &[None]).as_deref(), Some("berlin"));
        assert_eq!(next(None, &[None, Some("berlin")]).as_deref(), Some("oslo"));
        assert_eq!(next(None, &[None, Some("berlin"), Some("oslo")]), None);
        assert_eq!(next(Some("oslo"), &[Some("oslo")]).as_deref(), Some("oslo"));
        assert_eq!(next(Some(HOME), &[None, None]), None);
        let unknown = cell_for(Some("rome"), &cells, &projects(&[])).unwrap_err();
        assert!(unknown.to_string().contains("home, berlin, oslo"), "{unknown}");
    }

    #[test]
    fn names_are_short_and_plain() {
        for right in ["a", "berlin-2", &"x".repeat(MAX_NAME)] {
            assert_eq!(checked_name("name", right), Ok(()), "{right}");
        }
        for wrong in ["", "2", "Berlin", "a b", "ä", "-a", HOME, &"x".repeat(MAX_NAME + 1)] {
            assert!(checked_name("name", wrong).is_err(), "{wrong}");
        }
    }
}
