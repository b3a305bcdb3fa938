//! Fuel: the counted budget of a computation on a caller's data.
//!
//! One unit is about 10 ns of work: a visited node, 32 compared bytes, one step of a pattern.
//! Deliberately absent: a clock. The same computation on the same values always burns the same.

/// The fuel that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fuel {
    left: u64,
}

/// The computation needs more fuel than is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of fuel")]
pub struct OutOfFuel;

impl Fuel {
    /// A tank with this many units.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self { left: units }
    }

    /// The units that are left.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Burns units before the work that they stand for.
    ///
    /// # Errors
    /// Fewer units are left; then none is left.
    pub fn burn(&mut self, units: u64) -> Result<(), OutOfFuel> {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(OutOfFuel)
    }

    /// Burns one unit, and one more for each `share` of `length`.
    ///
    /// # Errors
    /// Those of [`Self::burn`].
    pub fn burn_for(&mut self, length: usize, share: usize) -> Result<(), OutOfFuel> {
        self.burn(1 + (length / share) as u64)
    }
}
