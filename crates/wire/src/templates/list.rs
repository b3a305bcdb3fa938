//! The templates to list, and the version to get: the parameters of the query.

use callboard_domain::Error;
use callboard_domain::query::Templates;
use callboard_domain::template::{Industry, Version, Visibility};

use crate::common::{MAX_SEARCH, Paging, tags};
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    /// The templates to list, each in its latest version; the newest first.
    #[derive(Debug)]
    pub struct ListTemplates as "ListTemplates" {
        /// Only items of this industry.
        industry: Option<Industry> = optional("industry", rule::one_of(&Industry::ALL, Industry::as_str)),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// A text of the name or the description, in upper or lower case.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Only items of this visibility.
        visibility: Option<Visibility> = optional("visibility", rule::one_of(&Visibility::ALL, Visibility::as_str)),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

impl From<ListTemplates> for Templates {
    fn from(list: ListTemplates) -> Self {
        let window = list.page.window();
        Self {
            industry: list.industry,
            tags: list.tags.unwrap_or_default(),
            search: list.search,
            visibility: list.visibility,
            window,
        }
    }
}

request! {
    /// The version of a template to get.
    #[derive(Debug)]
    pub struct GetTemplate as "GetTemplate" {
        /// The version; by default the latest.
        version: Option<String> = optional("version", version()),
    }
}

request! {
    /// The version that deploys take from now on.
    #[derive(Debug, Clone, Copy)]
    pub struct SetLatest as "SetLatestVersion" {
        /// The version.
        version: Version = required("version", number()),
    }
}

request! {
    /// The change of a version of a template.
    #[derive(Debug, Clone, Copy)]
    pub struct ChangeTemplate as "ChangeTemplate" {
        /// The version.
        version: Version = required("version", number()),
        /// True if no deploy is to take the version any more; false if deploys may take it again.
        retired: bool = required("retired", rule::flag()),
    }
}

fn number() -> impl Parse<Version> {
    version().then(|text| text.parse().map_err(|_| Error::Internal))
}

/// The pattern of versions.
pub(super) const VERSION: &str = r"^[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}$";

/// A version of a template.
pub(crate) fn version() -> impl Parse<String> {
    let is_version = |text: &str| text.parse::<Version>().is_ok();
    let says = "must be three numbers such as 1.0.0";
    rule::matching(rule::characters(1..=64), VERSION, is_version, says)
}
