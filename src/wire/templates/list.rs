//! Which templates to list, and which version to get: the parameters of the query.

use callboard_domain::Error;
use callboard_domain::query::Templates;
use callboard_domain::template::{Industry, Version, Visibility};
use utoipa::IntoParams;

use crate::wire::common::{MAX_SEARCH, Paging};
use crate::wire::read::{Field, Fields, Read, rule};

/// Which templates to list, each in its highest version; the newest first (SPEC.md, Templates).
#[derive(Debug, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListTemplates {
    /// legal, finance, devops, marketing, healthcare or custom.
    #[param(value_type = Option<String>)]
    pub industry: Option<Industry>,
    /// Tags separated by commas; a template has all of them.
    #[param(value_type = Option<String>)]
    pub tags: Option<Vec<String>>,
    /// In the name or the description, in upper or lower case.
    pub search: Option<String>,
    /// private, organization or public.
    #[param(value_type = Option<String>)]
    pub visibility: Option<Visibility>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

impl Read for ListTemplates {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let tag = rule::text(rule::characters(1..=64));
        let visibility = rule::one_of(&Visibility::ALL, Visibility::as_str);
        let paging = Paging::read(fields)?;
        Ok(Self {
            industry: fields
                .optional("industry", rule::one_of(&Industry::ALL, Industry::as_str))?,
            tags: fields.optional("tags", rule::commas(1..=32, tag))?,
            search: fields.optional("search", rule::text(rule::characters(1..=MAX_SEARCH)))?,
            visibility: fields.optional("visibility", visibility)?,
            limit: paging.limit,
            offset: paging.offset,
        })
    }
}

impl From<ListTemplates> for Templates {
    fn from(list: ListTemplates) -> Self {
        let window = Paging { limit: list.limit, offset: list.offset }.window();
        Self {
            industry: list.industry,
            tags: list.tags.unwrap_or_default(),
            search: list.search,
            visibility: list.visibility,
            window,
        }
    }
}

/// Which version of a template to get.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GetTemplate {
    /// major.minor.patch; by default the highest.
    pub version: Option<String>,
}

impl Read for GetTemplate {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self { version: fields.optional("version", version)? })
    }
}

/// A version of a template, as text.
pub(super) fn version(field: Field<'_>) -> Result<String, Error> {
    let is_version = |text: &str| text.parse::<Version>().is_ok();
    let says = "three numbers such as 1.0.0";
    rule::matching(rule::characters(1..=64), is_version, says)(field)
}
