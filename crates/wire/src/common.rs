//! Values that are written the same way everywhere.

use std::fmt::Display;

use callboard_domain::Timestamp;
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::query::Window;
use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, Object, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::read::rule::{self, Parse};
use crate::request;

/// An instant, as ISO 8601 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iso(pub Timestamp);

impl Serialize for Iso {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Iso {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        Object::builder().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Iso {}

/// A value that is written as its text, such as an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The most characters of a search.
pub const MAX_SEARCH: usize = 200;

/// The last offset: above it, JSON numbers are not exact.
const MAX_OFFSET: u64 = (1 << 53) - 1;

request! {
    /// The page of a list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Paging as "Paging" {
        /// The most items of the page; by default 20.
        limit: Option<usize> = optional("limit", rule::whole(1..=100_u8).map(usize::from)),
        /// The number of items before the page.
        offset: Option<usize> = optional("offset", rule::whole(0..=MAX_OFFSET).map(saturated)),
    }
}

/// `tags` in a query: an item has all of them.
pub(super) fn tags() -> impl Parse<Vec<String>> {
    rule::commas(1..=MAX_TAGS, rule::text(rule::characters(1..=MAX_TAG)))
}

impl Paging {
    /// The page, with defaults filled in.
    #[must_use]
    pub fn window(self) -> Window {
        let Window { limit, offset } = Window::default();
        Window { limit: self.limit.unwrap_or(limit), offset: self.offset.unwrap_or(offset) }
    }
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
