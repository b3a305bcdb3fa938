//! The move of a project to another cell (docs/reference/cells.md).
//!
//! ```text
//!   home         moving ────────────────────────────────────────▶ moved
//!                  │ └ given up                                     │
//!   the source     └▶ leaving: the project stands still ───────────┴▶ left: its rows are removed
//!   destination       coming: rows arrive ─▶ copied: all are equal ─▶ open
//!                        └ given up: dropped, its rows are removed
//! ```
//!
//! Home decides. A cell keeps its [`Part`] in its own store and brings it up to date with home's list, by [`order`]:
//! a cell that was away, or a list that is older than the cell, loses no row. Deliberately absent: rows and HTTP.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::cell::HOME;
use crate::credential::ApiKey;
use crate::error::Error;
use crate::id::{MoveId, ProjectId, Slot};
use crate::project::Project;

/// The moves of a project that home remembers. A cell that was away for more of them keeps the rows of a project that
/// has left it.
const REMEMBERED: usize = 16;

/// The move of a project that stands still because home names another cell for it, and no move leads there.
const NO_MOVE: MoveId = MoveId::from_u128(0);

/// A move that has not switched yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// The identifier.
    pub id: MoveId,
    /// The destination; `None` is home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The time since which the project moves.
    pub since: Timestamp,
}

/// A move that has switched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The identifier.
    pub id: MoveId,
    /// The cell that the project left; `None` is home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The time of the switch.
    pub at: Timestamp,
}

/// A cell's part in a move.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The move.
    pub id: MoveId,
    /// The project.
    pub project: ProjectId,
    /// The number of the project, which its keys name.
    pub number: u32,
    /// The project's place in this cell.
    pub slot: Slot,
    /// The other cell; `None` is home.
    pub other: Option<String>,
    /// The progress.
    pub stage: Stage,
    /// The project's keys, each with the time of its last use, once all is copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<(ApiKey, Option<Timestamp>)>,
    /// The place whose number stands in the digests of the project's idempotency keys, once all is copied.
    pub digests_of: Option<Slot>,
}

/// The progress of a cell's part in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The project stands still here, and its rows are read.
    Leaving,
    /// The project is in the other cell: the rows are removed.
    Left,
    /// The rows arrive.
    Coming,
    /// All rows are here, and equal.
    Copied,
    /// The move was given up: the rows are removed.
    Dropped,
}

impl Stage {
    /// True while the move goes on.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Leaving | Self::Coming | Self::Copied => true,
            Self::Left | Self::Dropped => false,
        }
    }
}

/// The next step of a cell, as home's list orders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Everything stays as it is.
    Stay,
    /// The cell is to have a project that it does not know.
    Create,
    /// The project begins to leave: it stands still.
    Freeze(MoveId),
    /// The move was given up: the project goes on here.
    Release,
    /// The project is in the other cell.
    Leave,
    /// The project begins to come: it gets a place.
    Prepare(MoveId),
    /// The project is here from now on.
    Open,
    /// The move was given up: the copied rows go.
    Drop,
}

/// The next step of the cell `own` (`None` is home) with a project that home's list gives as `given`. `is_here` says
/// that the project is open in this cell, `part` is the cell's open part in a move of it.
#[must_use]
pub fn order(own: Option<&str>, is_here: bool, part: Option<&Part>, given: &Project) -> Order {
    let is_ours = given.cell.as_deref() == own;
    let has_moved = |id| given.moves.iter().any(|moved| moved.id == id);
    let goes_on = |id| given.moving.as_ref().is_some_and(|moving| moving.id == id);
    if given.deleted_at.is_some() {
        return match part.map(|part| part.stage) {
            Some(Stage::Leaving) => Order::Release,
            Some(Stage::Coming | Stage::Copied) => Order::Drop,
            Some(Stage::Left | Stage::Dropped) | None => Order::Stay,
        };
    }
    let comes = given.moving.as_ref().filter(|moving| moving.to.as_deref() == own);
    match (part.map(|part| (part.stage, part.id)), is_here) {
        (Some((Stage::Leaving, id)), _) if is_ours => {
            if goes_on(id) {
                Order::Stay
            } else {
                Order::Release
            }
        }
        // A list of an older home does not know the move: nothing is removed.
        (Some((Stage::Leaving, id)), _) => {
            if has_moved(id) {
                Order::Leave
            } else {
                Order::Stay
            }
        }
        (Some((Stage::Copied, id)), _) if is_ours && has_moved(id) => Order::Open,
        (Some((Stage::Coming | Stage::Copied, id)), _) => {
            if comes.is_some() && goes_on(id) {
                Order::Stay
            } else {
                Order::Drop
            }
        }
        (None | Some((Stage::Left | Stage::Dropped, _)), true) => match &given.moving {
            Some(moving) if is_ours => Order::Freeze(moving.id),
            // This cell, or home, was restored from a backup: two cells would do the same work.
            Some(_) | None if !is_ours => Order::Freeze(NO_MOVE),
            Some(_) | None => Order::Stay,
        },
        (None | Some((Stage::Left | Stage::Dropped, _)), false) => match comes {
            _ if is_ours => Order::Create,
            Some(moving) => Order::Prepare(moving.id),
            None => Order::Stay,
        },
    }
}

impl Project {
    /// Passes unless the project is being moved.
    ///
    /// # Errors
    /// [`Error::InvalidState`].
    pub fn check_settled(&self) -> Result<(), Error> {
        let Some(moving) = &self.moving else { return Ok(()) };
        let to = moving.to.as_deref().unwrap_or(HOME);
        Err(Error::InvalidState(format!(
            "project {} is being moved to cell {to}: wait, or give the move up with DELETE /api/projects/{}/move",
            self.name, self.id
        )))
    }

    /// The project as one that begins to move.
    ///
    /// # Errors
    /// [`Error::InvalidState`] for `default`, for a project that moves already, and for one that is there.
    pub fn moving_to(mut self, moving: Moving) -> Result<Self, Error> {
        if self.is_default() {
            let message = "the project default belongs to home and cannot be moved".to_owned();
            return Err(Error::InvalidState(message));
        }
        self.check_settled()?;
        if self.cell == moving.to {
            let there = moving.to.as_deref().unwrap_or(HOME);
            return Err(Error::InvalidState(format!("project {} is in cell {there}", self.name)));
        }
        self.moving = Some(moving);
        Ok(self)
    }

    /// The project as one that stays, and the move that was given up.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if it does not move.
    pub fn staying(mut self) -> Result<(Self, Moving), Error> {
        let message = || Error::InvalidState(format!("project {} is not being moved", self.name));
        let moving = self.moving.take().ok_or_else(message)?;
        Ok((self, moving))
    }

    /// The project in its new cell; `Ok(None)` if this move has switched before.
    ///
    /// # Errors
    /// [`Error::InvalidState`] for a move that was given up.
    pub fn moved(mut self, id: MoveId, now: Timestamp) -> Result<Option<Self>, Error> {
        if self.moves.iter().any(|moved| moved.id == id) {
            return Ok(None);
        }
        let Some(moving) = self.moving.take().filter(|moving| moving.id == id) else {
            return Err(Error::InvalidState(format!("move {id} was given up")));
        };
        let from = std::mem::replace(&mut self.cell, moving.to);
        self.moves.push(Moved { id, from, at: now });
        let old = self.moves.len().saturating_sub(REMEMBERED);
        self.moves.drain(..old);
        Ok(Some(self))
    }

    /// True if the list of a cell besides home has to name the project: it is there, comes there or has left it.
    #[must_use]
    pub fn concerns(&self, cell: &str) -> bool {
        self.is_or_comes_to(cell) || self.moves.iter().any(|it| it.from.as_deref() == Some(cell))
    }

    /// True if the project is in a cell besides home, or comes there.
    #[must_use]
    pub fn is_or_comes_to(&self, cell: &str) -> bool {
        let comes = self.moving.as_ref().is_some_and(|it| it.to.as_deref() == Some(cell));
        comes || self.cell.as_deref() == Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn id(number: u128) -> MoveId {
        MoveId::from_u128(number << 10)
    }

    fn project() -> Project {
        let (id, name) = (ProjectId::from_u128(1 << 10), "search".into());
        Project { id, number: 1, name, slot: None, ..Project::default_one() }
    }

    fn moving(number: u128, to: Option<&str>) -> Moving {
        Moving { id: id(number), to: to.map(str::to_owned), since: NOW }
    }

    fn part(number: u128, stage: Stage) -> Part {
        let (project, slot) = (project(), Slot::DEFAULT);
        let (keys, digests_of, other) = (Vec::new(), None, None);
        let (number, id) = (project.number, id(number));
        Part { id, project: project.id, number, slot, other, stage, keys, digests_of }
    }

    #[test]
    fn a_project_moves_once_at_a_time_and_not_to_where_it_is() {
        assert!(Project::default_one().moving_to(moving(1, Some("berlin"))).is_err());
        assert!(project().moving_to(moving(1, None)).is_err());
        let moves = project().moving_to(moving(1, Some("berlin"))).unwrap();
        assert!(moves.clone().moving_to(moving(2, Some("oslo"))).is_err());
        let (stays, given_up) = moves.clone().staying().unwrap();
        assert_eq!((&stays, given_up), (&project(), moving(1, Some("berlin"))));
        assert!(stays.clone().staying().is_err());
        assert!(stays.moved(id(1), NOW).is_err(), "it was given up");
        let there = moves.moved(id(1), NOW).unwrap().unwrap();
        assert_eq!((there.cell.as_deref(), &there.moving), (Some("berlin"), &None));
        assert_eq!(there.moves, [Moved { id: id(1), from: None, at: NOW }]);
        assert_eq!(there.clone().moved(id(1), NOW).unwrap(), None, "it is told twice");
        let back = there.moving_to(moving(2, None)).unwrap().moved(id(2), NOW).unwrap().unwrap();
        assert_eq!((back.cell.as_deref(), back.moves.len()), (None, 2));
        assert!(
            back.concerns("berlin") && !back.is_or_comes_to("berlin") && !back.concerns("oslo")
        );
    }

    #[test]
    fn only_the_last_moves_are_remembered() {
        let mut moved = project();
        for number in 1..40 {
            let to = (number % 2 == 1).then_some("berlin");
            moved = moved.moving_to(moving(number, to)).unwrap();
            moved = moved.moved(id(number), NOW).unwrap().unwrap();
        }
        assert_eq!((moved.moves.len(), moved.moves[0].id), (REMEMBERED, id(24)));
    }

    /// A cell as it takes orders: true while the project is open there, and its part.
    #[derive(Debug, Clone, PartialEq)]
    struct Cell(Option<&'static str>, bool, Option<Part>);

    impl Cell {
        fn take(&mut self, given: &Project) -> Order {
            let order = order(self.0, self.1, self.2.as_ref(), given);
            let stage = |id: MoveId, stage| Some(Part { id, ..part(0, stage) });
            (self.1, self.2) = match order {
                Order::Stay => (self.1, self.2.clone()),
                Order::Freeze(id) => (true, stage(id, Stage::Leaving)),
                Order::Leave | Order::Drop => (false, None),
                Order::Prepare(id) => (false, stage(id, Stage::Coming)),
                Order::Create | Order::Release | Order::Open => (true, None),
            };
            order
        }

        fn copied(&mut self) {
            let part = self.2.as_mut().expect("it comes");
            assert_eq!(part.stage, Stage::Coming);
            part.stage = Stage::Copied;
        }
    }

    #[test]
    fn two_cells_hand_a_project_over_and_repeat_nothing() {
        let home = project();
        let (mut source, mut destination) =
            (Cell(None, true, None), Cell(Some("berlin"), false, None));
        assert_eq!((source.take(&home), destination.take(&home)), (Order::Stay, Order::Stay));
        let home = home.moving_to(moving(1, Some("berlin"))).unwrap();
        assert_eq!(destination.take(&home), Order::Prepare(id(1)));
        assert_eq!(source.take(&home), Order::Freeze(id(1)));
        assert_eq!((source.take(&home), destination.take(&home)), (Order::Stay, Order::Stay));
        destination.copied();
        assert_eq!(destination.take(&home), Order::Stay);
        let home = home.moved(id(1), NOW).unwrap().unwrap();
        assert_eq!(destination.take(&home), Order::Open);
        assert_eq!(source.take(&home), Order::Leave);
        assert_eq!((source.take(&home), destination.take(&home)), (Order::Stay, Order::Stay));
        assert_eq!((source.1, destination.1), (false, true));
    }

    #[test]
    fn a_move_that_is_given_up_at_any_time_leaves_the_project_where_it_was() {
        for progress in 0..4 {
            let (mut source, mut destination) =
                (Cell(None, true, None), Cell(Some("berlin"), false, None));
            let moves = project().moving_to(moving(1, Some("berlin"))).unwrap();
            if progress > 0 {
                destination.take(&moves);
            }
            if progress > 1 {
                source.take(&moves);
            }
            if progress > 2 {
                destination.copied();
            }
            let (home, _) = moves.staying().unwrap();
            source.take(&home);
            destination.take(&home);
            assert_eq!(source, Cell(None, true, None), "{progress}");
            assert_eq!(destination, Cell(Some("berlin"), false, None), "{progress}");
        }
    }

    #[test]
    fn another_move_begins_with_another_copy() {
        let mut destination = Cell(Some("berlin"), false, Some(part(1, Stage::Copied)));
        let home = project().moving_to(moving(2, Some("berlin"))).unwrap();
        assert_eq!(destination.take(&home), Order::Drop);
        assert_eq!(destination.take(&home), Order::Prepare(id(2)));
        let mut source = Cell(None, true, Some(part(1, Stage::Leaving)));
        assert_eq!(source.take(&home), Order::Release);
        assert_eq!(source.take(&home), Order::Freeze(id(2)));
    }

    #[test]
    fn a_home_that_is_older_than_a_cell_removes_nothing() {
        let elsewhere = elsewhere_of("oslo");
        let mut source = Cell(Some("berlin"), true, Some(part(1, Stage::Leaving)));
        assert_eq!(source.take(&elsewhere), Order::Stay);
        let mut open = Cell(Some("berlin"), true, None);
        assert_eq!(open.take(&elsewhere), Order::Freeze(NO_MOVE), "it acts in another cell");
        assert_eq!(open.take(&elsewhere), Order::Stay);
        assert_eq!(open.clone().take(&elsewhere_of("berlin")), Order::Release);
        let moved = Project { moves: vec![Moved { id: id(1), from: None, at: NOW }], ..elsewhere };
        assert_eq!(open.take(&moved), Order::Stay, "the cell knows of no move");
        assert_eq!(source.take(&moved), Order::Leave);
        let deleted = Project { deleted_at: Some(NOW), ..elsewhere_of("berlin") };
        assert_eq!(open.take(&deleted), Order::Release);
        assert_eq!(open.take(&deleted), Order::Stay);
    }

    fn elsewhere_of(cell: &str) -> Project {
        Project { cell: Some(cell.into()), ..project() }
    }
}
