//! Projects: teams that share a server and see nothing of each other (docs/reference/projects.md).
//!
//! A project is one byte of the keys of its rows, its [`Slot`]; people are members with a role each. The project
//! `default` has no row: every user of the server is its member, with the user's own role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::access::{Account, Role};
use crate::credential::MAX_PROJECT;
use crate::error::{Error, Rule};
use crate::id::{ProjectId, Slot, UserId};
use crate::moving::{Moved, Moving};

/// The most members of a project.
pub const MAX_MEMBERS: usize = 1_000;

/// The name of the project that every server has.
pub const DEFAULT_NAME: &str = "default";

/// A project.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The identifier, which holds the time of creation.
    pub id: ProjectId,
    /// The number, which keys name and no later project gets again.
    pub number: u32,
    /// The place in the store; `None` at home for a project of another cell.
    pub slot: Option<Slot>,
    /// The cell that has the project's rows; `None` if it is this one.
    pub cell: Option<String>,
    /// The name, which no other project has.
    pub name: String,
    /// The text for people.
    pub description: Option<String>,
    /// The account that made the project; `None` for the program itself.
    pub created_by: Option<Account>,
    /// The days for which ended items are kept; `None` for as long as the server's settings say.
    pub retention_days: Option<u16>,
    /// The time since which the project takes no new work.
    pub archived_at: Option<Timestamp>,
    /// The time of the deletion: nobody sees the project since, and its rows are being removed.
    pub deleted_at: Option<Timestamp>,
    /// The time at which no row of the deleted project was left.
    pub purged_at: Option<Timestamp>,
    /// The move to another cell, while it has not switched.
    pub moving: Option<Moving>,
    /// The last moves that have switched, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Moved>,
    /// The place whose number stands in the digests of idempotency keys: the first one that the project had. `None`
    /// for the present one.
    pub digests_of: Option<Slot>,
    /// The members, with a role each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<UserId, Member>,
}

/// A member of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The role within the project.
    pub role: Role,
    /// The time of joining.
    pub since: Timestamp,
}

/// A change of a project; `None` leaves a member as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub name: Option<String>,
    /// The text for people; an empty one takes it away.
    pub description: Option<String>,
    /// The days for which ended items are kept; 0 for as long as the server's settings say.
    pub retention_days: Option<u16>,
    /// True to take no new work any more, false to take it again.
    pub archived: Option<bool>,
}

impl Project {
    /// The project `default`.
    #[must_use]
    pub fn default_one() -> Self {
        Self {
            id: ProjectId::DEFAULT,
            number: 0,
            slot: Some(Slot::DEFAULT),
            cell: None,
            name: DEFAULT_NAME.to_owned(),
            description: None,
            created_by: None,
            retention_days: None,
            archived_at: None,
            deleted_at: None,
            purged_at: None,
            moving: None,
            moves: Vec::new(),
            digests_of: None,
            members: BTreeMap::new(),
        }
    }

    /// True for the project that every server has.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.id == ProjectId::DEFAULT
    }

    /// True if this is the project's identifier or name.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        self.name == text || text.parse() == Ok(self.id)
    }

    /// The project after a change at `now`.
    #[must_use]
    pub fn with(mut self, change: Change, now: Timestamp) -> Self {
        let Change { name, description, retention_days, archived } = change;
        if let Some(name) = name {
            self.name = name;
        }
        if let Some(description) = description {
            self.description = Some(description).filter(|text| !text.is_empty());
        }
        if let Some(days) = retention_days {
            self.retention_days = Some(days).filter(|days| *days > 0);
        }
        match archived {
            Some(true) => self.archived_at = self.archived_at.or(Some(now)),
            Some(false) => self.archived_at = None,
            None => {}
        }
        self
    }

    /// Gives a user a role in the project; returns false if the user has it already.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `role`, for a role that is for keys; [`Error::InvalidState`] if there are too many
    /// members.
    pub fn admit(&mut self, user: UserId, role: Role, now: Timestamp) -> Result<bool, Error> {
        if matches!(role, Role::Worker | Role::Backup) {
            let message = "the role of a member must be one of admin, operator, reviewer, viewer";
            return Err(Error::invalid("role", Rule::Enum, message));
        }
        if let Some(member) = self.members.get_mut(&user) {
            let is_new = member.role != role;
            member.role = role;
            return Ok(is_new);
        }
        if self.members.len() >= MAX_MEMBERS {
            let message = format!(
                "project {} has {MAX_MEMBERS} members, which is the limit: remove one first",
                self.name
            );
            return Err(Error::InvalidState(message));
        }
        self.members.insert(user, Member { role, since: now });
        Ok(true)
    }

    /// The project as deleted at `now`; `confirm` is its name again.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `confirm`.
    pub fn deleted(self, confirm: &str, now: Timestamp) -> Result<Self, Error> {
        if *confirm != self.name {
            let message = format!("must be the name of the project, which is {}", self.name);
            return Err(Error::invalid("confirm", Rule::Enum, message));
        }
        Ok(Self { deleted_at: Some(now), ..self })
    }

    /// Passes unless the project takes no new work.
    ///
    /// # Errors
    /// [`Error::InvalidState`].
    pub fn check_open(&self) -> Result<(), Error> {
        let Some(at) = self.archived_at else { return Ok(()) };
        Err(Error::InvalidState(format!(
            "project {} was archived at {at} and takes no new work: an admin takes it out of the archive with PATCH \
             /api/projects/{}",
            self.name, self.id
        )))
    }
}

/// Passes in the project `default`, whose admins look after the whole server.
///
/// # Errors
/// [`Error::Forbidden`].
pub fn check_server(project: Slot, what: &str) -> Result<(), Error> {
    if project.is_default() {
        return Ok(());
    }
    let message =
        format!("{what} is about the whole server: use a session or a key of the project default");
    Err(Error::Forbidden(message))
}

/// The place of the next project; `taken` are the projects that there are.
///
/// # Errors
/// [`Error::InvalidState`] if no place is free.
pub fn next_place(taken: impl Iterator<Item = Slot>) -> Result<Slot, Error> {
    let taken: Vec<_> = taken.collect();
    let is_free = |slot: &Slot| !taken.contains(slot);
    let free = (1..Slot::COUNT).filter_map(Slot::new).find(is_free);
    free.ok_or_else(|| {
        Error::InvalidState(format!(
            "the server has {} projects, which is the limit: delete one that is not needed",
            Slot::COUNT
        ))
    })
}

/// The number of the next project; `last` is the highest that any project had.
///
/// # Errors
/// [`Error::InvalidState`] if no number is left.
pub fn next_number(last: u32) -> Result<u32, Error> {
    if last >= MAX_PROJECT {
        let message = format!(
            "{MAX_PROJECT} projects were made on this server, which is the limit: make further ones in \
             another cell"
        );
        return Err(Error::InvalidState(message));
    }
    Ok(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn project(number: u32, slot: u8) -> Project {
        let id = ProjectId::from_u128(u128::from(number) << 10);
        let slot = Slot::new(slot);
        Project { id, number, slot, name: format!("p{number}"), ..Project::default_one() }
    }

    #[test]
    fn a_place_is_taken_again_and_a_number_never() {
        let projects = [project(1, 1), project(3, 3)];
        assert_eq!(
            next_place(projects.iter().filter_map(|project| project.slot)).unwrap(),
            Slot::new(2).unwrap()
        );
        assert_eq!(next_number(3), Ok(4));
        let all: Vec<_> = (1..Slot::COUNT).map(|slot| project(u32::from(slot), slot)).collect();
        assert!(matches!(
            next_place(all.iter().filter_map(|project| project.slot)),
            Err(Error::InvalidState(_))
        ));
    }

    #[test]
    fn a_project_goes_into_the_archive_once_and_out_again() {
        let archive = |archived| Change { archived: Some(archived), ..Change::default() };
        let archived = project(1, 1).with(archive(true), NOW);
        let later =
            archived.clone().with(archive(true), NOW.after(std::time::Duration::from_secs(1)));
        assert_eq!((archived.archived_at, &later), (Some(NOW), &archived));
        assert!(archived.check_open().is_err());
        assert_eq!(archived.with(archive(false), NOW).check_open(), Ok(()));
    }

    #[test]
    fn a_project_is_deleted_by_whoever_says_its_name() {
        let project = Project { name: "search".into(), ..Project::default_one() };
        for other in ["", "Search", "default"] {
            assert!(project.clone().deleted(other, NOW).is_err(), "{other}");
        }
        assert_eq!(project.deleted("search", NOW).map(|it| it.deleted_at), Ok(Some(NOW)));
    }

    #[test]
    fn a_member_has_one_role_which_is_for_people() {
        let (mut project, user) = (project(1, 1), UserId::from_u128(7 << 10));
        assert_eq!(project.admit(user, Role::Viewer, NOW), Ok(true));
        assert_eq!(project.admit(user, Role::Viewer, NOW), Ok(false));
        assert_eq!(project.admit(user, Role::Admin, NOW), Ok(true));
        assert_eq!(project.members.len(), 1);
        for role in [Role::Worker, Role::Backup] {
            assert!(matches!(project.admit(user, role, NOW), Err(Error::Invalid { .. })), "{role}");
        }
        for number in 1..MAX_MEMBERS as u128 {
            project.admit(UserId::from_u128(number << 20), Role::Viewer, NOW).unwrap();
        }
        let more = project.admit(UserId::from_u128(9 << 10), Role::Viewer, NOW);
        assert!(matches!(more, Err(Error::InvalidState(_))));
    }
}
