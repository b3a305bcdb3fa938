//! Queries of listed rows: filter, order, offset, limit → document ids and an exact total.

/// One condition. A row must satisfy all conditions of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// The row has at least one of these terms of the field.
    AnyOf(u8, Vec<Box<[u8]>>),
    /// The row has all of these terms of the field.
    AllOf(u8, Vec<Box<[u8]>>),
    /// The row has none of these terms of the field.
    NoneOf(u8, Vec<Box<[u8]>>),
    /// The row has a term of the field that begins with these bytes. The field is one of words, from
    /// [`Filter::WORDS`] up.
    Prefix(u8, Box<[u8]>),
    /// `from <= value < to` of the entry's sort value of this number; a row without one has none.
    Sorted {
        /// The number of the sort value.
        value: usize,
        /// The least value.
        from: u64,
        /// The value above the greatest.
        to: u64,
    },
    /// `from <= document id < to`.
    Documents {
        /// The least id; `None` for no bound.
        from: Option<u128>,
        /// The id above the greatest; `None` for no bound.
        to: Option<u128>,
    },
}

impl Filter {
    /// The first field whose terms are kept in order, for [`Filter::Prefix`].
    pub const WORDS: u8 = 0x80;
    /// The most terms that may begin with the bytes of a [`Filter::Prefix`].
    pub const MAX_BEGUN: usize = 10_000;
}

/// The order of rows. Ties are broken by document id in the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The order of document ids: that of creation, for ids that ascend with it.
    Document,
    /// The order of the entry's n-th sort value; rows without one are last in either direction.
    Sort(usize),
}

/// A query of one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The list.
    pub list: [u8; 2],
    /// Conditions, all of which a row satisfies.
    pub filters: Vec<Filter>,
    /// The order.
    pub order: Order,
    /// True for the greatest first.
    pub descending: bool,
    /// The number of rows to skip.
    pub offset: usize,
    /// The most rows to return.
    pub limit: usize,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The documents, in order.
    pub documents: Vec<u128>,
    /// The number of rows that satisfy the conditions, regardless of offset and limit.
    pub total: u64,
}
