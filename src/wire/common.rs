//! Values that are written the same way everywhere.

use std::fmt::Display;

use callboard_domain::query::Window;
use callboard_domain::{Error, Timestamp};
use serde::{Serialize, Serializer};

use super::read::{Fields, Read, rule};

/// An instant, as ISO 8601 in UTC with milliseconds (PROTOCOL.md 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iso(pub Timestamp);

impl Serialize for Iso {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Something that is written as its text, such as an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// How many characters a search may have.
pub const MAX_SEARCH: usize = 200;

/// The last offset: above it, not every number can be told apart in JSON.
const MAX_OFFSET: u64 = (1 << 53) - 1;

/// Which page of a list (PROTOCOL.md 1).
#[derive(Debug, Clone, Copy, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

impl Paging {
    /// The page, with what was left out filled in.
    #[must_use]
    pub fn window(self) -> Window {
        let Window { limit, offset } = Window::default();
        Window { limit: self.limit.unwrap_or(limit), offset: self.offset.unwrap_or(offset) }
    }
}

impl Read for Paging {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            limit: fields.optional("limit", rule::whole(1..=100_u8))?.map(usize::from),
            offset: fields.optional("offset", rule::whole(0..=MAX_OFFSET))?.map(saturated),
        })
    }
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
