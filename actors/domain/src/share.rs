//! The share of a pool that one project may take (docs/reference/limits.md).
//!
//! A project may hold three times as much as is free, or another multiple if the settings weigh it. One that takes all
//! that it gets has three quarters, and the others find a quarter; several that do so have equal shares, and each leaves
//! a place for the next. A server with one project has no such bound.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::id::Slot;

/// The most that a project may hold, as a multiple of what is free.
const TIMES: usize = 3;

/// The room in a pool.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The number of projects that share the pool.
    pub projects: usize,
    /// The amount that nobody holds.
    pub free: usize,
    /// The weight of the project.
    pub weight: ProjectWeight,
}

/// The weight of a project, in percent of the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectWeight(u16);

impl ProjectWeight {
    /// The weight of this many percent.
    #[must_use]
    pub const fn percent(percent: u16) -> Self {
        Self(percent)
    }

    /// The percent.
    #[must_use]
    pub const fn as_percent(self) -> u16 {
        self.0
    }
}

impl Default for ProjectWeight {
    fn default() -> Self {
        Self(100)
    }
}

/// The weight of each project.
#[derive(Debug)]
pub struct ProjectWeights(Box<[AtomicU16]>);

impl Default for ProjectWeights {
    fn default() -> Self {
        let usual = || AtomicU16::new(ProjectWeight::default().as_percent());
        Self((0..Slot::COUNT).map(|_| usual()).collect())
    }
}

impl ProjectWeights {
    /// The weight of a project.
    #[must_use]
    pub fn of(&self, project: Slot) -> ProjectWeight {
        ProjectWeight::percent(self.0[usize::from(project.number())].load(Ordering::Relaxed))
    }

    /// Sets the weight of a project.
    pub fn set(&self, project: Slot, weight: ProjectWeight) {
        self.0[usize::from(project.number())].store(weight.as_percent(), Ordering::Relaxed);
    }
}

impl Room {
    /// True if a project that holds `held` may take `more`. A project that holds nothing may take all that is free, so
    /// that something large is not refused for ever.
    #[must_use]
    pub const fn fits(self, held: usize, more: usize) -> bool {
        let Some(left) = self.free.checked_sub(more) else { return false };
        let most = TIMES * left * self.weight.0 as usize / 100;
        self.projects < 2 || held == 0 || held + more <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The amount that each of some projects holds after all have taken, one by one, as much of 1,000 as they get.
    fn flooded(projects: usize, flooding: usize) -> Vec<usize> {
        let mut held = vec![0; flooding];
        loop {
            let before = held.clone();
            for at in 0..flooding {
                let free = 1_000 - held.iter().sum::<usize>();
                let room = Room { projects, free, weight: ProjectWeight::default() };
                held[at] += usize::from(room.fits(held[at], 1));
            }
            if held == before {
                return held;
            }
        }
    }

    #[test]
    fn a_flood_leaves_room_for_other_projects() {
        assert_eq!(flooded(1, 1), [1_000], "there is no other");
        assert_eq!(flooded(2, 1), [750]);
        assert_eq!(flooded(3, 2), [429, 428], "and 143 are free");
        assert!(flooded(128, 100).iter().sum::<usize>() < 1_000, "there is always some");
    }

    #[test]
    fn a_weight_moves_the_bound() {
        let most = |weight: u16| {
            let weight = ProjectWeight::percent(weight);
            (1..1_000)
                .take_while(|held| Room { projects: 2, free: 1_000 - held, weight }.fits(*held, 1))
                .count()
                + 1
        };
        assert_eq!([most(10), most(50), most(100), most(400)], [230, 600, 750, 923]);
    }

    #[test]
    fn something_large_fits_if_nothing_else_is_held() {
        let room = Room { projects: 2, free: 10, weight: ProjectWeight::default() };
        assert!(room.fits(0, 10));
        assert!(!room.fits(1, 9));
        assert!(!room.fits(0, 11));
    }
}
