//! The room on the disk: how much the work may take, and when the reserve goes (docs/how-to/operate.md).
//!
//! ```text
//!   Enough ── free < min_free ──▶ Low ── free < LAST, half the reserve given back ──▶ Full
//!     ▲ ◀──── free ≥ min_free ───── ▲ ◀──────────────── free ≥ 2 × LAST ─────────────┘
//! ```

/// The free bytes below which the reserve is given back, and without it, what writes is refused.
pub const LAST: u64 = 16 << 20;

/// The room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// New work is accepted.
    #[default]
    Enough,
    /// New work is refused.
    Low,
    /// Only what needs no room, or makes some, is accepted.
    Full,
}

/// The reserve on the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The bytes that it takes now.
    pub now: u64,
    /// The bytes of a whole one.
    pub whole: u64,
}

/// A look at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The room for work.
    pub room: Room,
    /// The bytes that the reserve is to take from now on, if others than now.
    pub reserve: Option<u64>,
}

impl Held {
    /// The bytes that stay of a reserve on a disk with so little room that a store cannot be opened: half of a whole one,
    /// then nothing. `None` if there is room, or nothing to give back.
    #[must_use]
    pub const fn at_start(self, free: u64) -> Option<u64> {
        let Self { now, whole } = self;
        if free >= LAST || now == 0 {
            return None;
        }
        Some(if now > whole / 2 { whole / 2 } else { 0 })
    }
}

impl Room {
    /// The room after a look at a disk with `free` bytes, of which new work needs `min_free`.
    #[must_use]
    pub const fn next(self, free: u64, min_free: u64, held: Held) -> Look {
        let Held { now, whole } = held;
        if free < LAST && now > whole / 2 {
            return Look { room: Self::Low, reserve: Some(whole / 2) };
        }
        let is_full = match self {
            Self::Full => free < 2 * LAST,
            Self::Enough | Self::Low => free < LAST,
        };
        if is_full {
            return Look { room: Self::Full, reserve: None };
        }
        if free < min_free {
            return Look { room: Self::Low, reserve: None };
        }
        // A whole reserve must not bring the disk below the bound again.
        let fills = now < whole && free >= min_free.saturating_add(whole).saturating_add(LAST);
        Look { room: Self::Enough, reserve: if fills { Some(whole) } else { None } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 256 << 20;
    const WHOLE: u64 = 64 << 20;

    fn next(room: Room, free: u64, now: u64) -> (Room, Option<u64>) {
        let look = room.next(free, MIN, Held { now, whole: WHOLE });
        (look.room, look.reserve)
    }

    #[test]
    fn a_disk_that_fills_up_gets_half_the_reserve_and_then_takes_no_writes() {
        assert_eq!(next(Room::Enough, 1 << 40, WHOLE), (Room::Enough, None));
        assert_eq!(next(Room::Enough, MIN - 1, WHOLE), (Room::Low, None));
        assert_eq!(next(Room::Low, LAST - 1, WHOLE), (Room::Low, Some(WHOLE / 2)));
        assert_eq!(next(Room::Low, LAST, WHOLE / 2), (Room::Low, None));
        assert_eq!(next(Room::Low, LAST - 1, WHOLE / 2), (Room::Full, None));
        // It stays full until there is twice the room, and does not swing.
        assert_eq!(next(Room::Full, LAST, WHOLE / 2), (Room::Full, None));
        assert_eq!(next(Room::Full, 2 * LAST, WHOLE / 2), (Room::Low, None));
        assert_eq!(next(Room::Full, MIN, 0), (Room::Enough, None));
    }

    #[test]
    fn a_start_gets_what_is_left_of_the_reserve() {
        let at_start = |free, now| Held { now, whole: WHOLE }.at_start(free);
        assert_eq!(at_start(LAST, WHOLE), None);
        assert_eq!(at_start(0, WHOLE), Some(WHOLE / 2));
        assert_eq!(at_start(0, WHOLE / 2), Some(0));
        assert_eq!(at_start(0, 0), None);
    }

    #[test]
    fn the_reserve_is_made_again_where_it_leaves_enough() {
        assert_eq!(next(Room::Enough, MIN + WHOLE, 0), (Room::Enough, None));
        assert_eq!(next(Room::Low, MIN + WHOLE + LAST, 0), (Room::Enough, Some(WHOLE)));
        let none = Held { now: 0, whole: 0 };
        assert_eq!(Room::Enough.next(1 << 40, MIN, none).reserve, None);
        assert_eq!(Room::Enough.next(1, MIN, none).room, Room::Full);
    }
}
