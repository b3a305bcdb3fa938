//! The cells in memory, and what each of them follows.

use std::sync::Arc;

use callboard_domain::access::Role;
use callboard_domain::account::User;
use callboard_domain::cell::{Assigned, Cell, Person, Place};

use super::Register;

impl Register {
    /// The cells besides home.
    pub(crate) fn cells(&self) -> Arc<[Cell]> {
        Arc::clone(&self.read().cells)
    }

    /// Notes the cells, which are durable.
    pub(crate) fn put_cells(&self, cells: Vec<Cell>) {
        self.write().cells = cells.into();
        self.changes.send_replace(());
    }

    /// The place of the project with this number, if another cell has it.
    pub(crate) fn cell_of(&self, number: u32) -> Option<String> {
        let inner = self.read();
        let found = inner.elsewhere.get(&number);
        found.filter(|project| project.deleted_at.is_none()).and_then(|it| it.cell.clone())
    }

    /// True if a project of this number is here.
    pub(crate) fn has_number(&self, number: u32) -> bool {
        self.read().projects.values().any(|project| project.number == number)
    }

    /// The cell of the project of an identifier or a name, if it is not this one.
    pub(crate) fn cell_named(&self, text: &str) -> Option<String> {
        let inner = self.read();
        let mut open = inner.elsewhere.values().filter(|project| project.deleted_at.is_none());
        open.find(|project| project.is_named(text)).and_then(|project| project.cell.clone())
    }

    /// The part of the list that a cell follows; `None` if there is no such cell.
    pub(crate) fn assigned_to(&self, cell: &str) -> Option<Assigned> {
        let inner = self.read();
        inner.cells.iter().find(|known| known.name == cell)?;
        let elsewhere = inner.elsewhere.values();
        let all = inner.projects.values().chain(inner.elsewhere.values());
        let own = all.filter(|project| project.concerns(cell));
        let projects: Vec<_> = own.map(|project| (**project).clone()).collect();
        let is_member = |user: &User| {
            let open = projects.iter().filter(|project| project.deleted_at.is_none());
            let mut own = open.filter(|project| project.is_or_comes_to(cell));
            own.any(|project| project.members.contains_key(&user.id))
        };
        let known = inner.users.values();
        let known = known.filter(|user| user.role == Role::Admin || is_member(user));
        let people = known.map(|user| Person {
            id: user.id,
            email: user.email.clone(),
            name: user.name.clone(),
            role: if user.role == Role::Admin { Role::Admin } else { Role::Viewer },
            tier: user.tier,
            created_at: user.created_at,
        });
        let places = elsewhere.filter(|project| project.deleted_at.is_none());
        let places = places.filter_map(|project| {
            Some(Place { number: project.number, cell: project.cell.clone()? })
        });
        Some(Assigned {
            people: people.collect(),
            cells: inner.cells.to_vec(),
            places: places.collect(),
            projects,
        })
    }
}
