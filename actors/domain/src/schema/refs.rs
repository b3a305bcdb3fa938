//! The check of a schema's size, patterns and references before it is compiled; the resolution of
//! references for defaults.
//!
//! References may lead anywhere within the document: by pointer, `$anchor`, `$dynamicAnchor` or a
//! local `$id`, also in circles, or to the schemas of the drafts. The library resolves them; nothing is ever
//! fetched.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::keywords::{MAX_NAME_PATTERN, MAX_PATTERN, MAX_PATTERNS};
use super::{MAX_DEPTH, MAX_NODES};
use crate::error::Rule;
use crate::fuel::{Fuel, OutOfFuel};
use crate::pattern::{Invalid, Patterns, Syntax};
use crate::problem::{Problem, shortened};

/// Keywords whose value is data and contains no schemas.
pub(super) const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];

/// Keywords whose members are named schemas; a name is not a keyword.
pub(super) const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The most references of one schema, and the most targets of one of them in a search for defaults.
const MAX_REFS: usize = 1_000;

/// The least share of a pattern in the budget of patterns: the memory around it.
const LEAST_PATTERN: usize = 4 * 1024;

/// The result for a schema that passed.
#[derive(Debug)]
pub(super) struct Checked {
    /// The draft that the schema is of.
    pub(super) draft: Draft,
    /// The work to match all patterns of members' names with one byte of a name.
    pub(super) per_name: u64,
    /// The compiled patterns.
    pub(super) patterns: Patterns,
}

/// Checks a schema's size, patterns and references.
pub(super) fn check(field: &str, schema: &Value) -> Result<Checked, Vec<Problem>> {
    let mut walk = Walk::with_budget(MAX_PATTERNS);
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        walk.problems.push(Problem::rule(Rule::Type, field, "must be an object"));
    }
    walk.schema(field, schema, 0);
    walk.references();
    walk.draft(schema);
    if walk.nodes > MAX_NODES {
        let says = format!("must have at most {MAX_NODES} subschemas, nested {MAX_DEPTH} deep");
        walk.problems.push(Problem::rule(Rule::Length, field, says));
    }
    if walk.pattern_bytes > MAX_PATTERNS {
        let says = format!(
            "has patterns that are too large: compiled, they may take {MAX_PATTERNS} bytes in all, \
             at least {LEAST_PATTERN} each"
        );
        walk.problems.push(Problem::rule(Rule::Length, field, says));
    }
    if !walk.problems.is_empty() {
        return Err(walk.problems);
    }
    Ok(Checked { draft: walk.draft, per_name: walk.per_name, patterns: walk.patterns })
}

struct Walk<'s> {
    problems: Vec<Problem>,
    ids: Vec<&'s str>,
    /// The references with their places.
    refs: Vec<(String, &'s str)>,
    patterns: Patterns,
    pattern_bytes: usize,
    nodes: usize,
    draft: Draft,
    /// The places of `items` that are lists.
    lists: Vec<String>,
    per_name: u64,
}

impl<'s> Walk<'s> {
    fn with_budget(patterns: usize) -> Self {
        Self {
            problems: Vec::new(),
            ids: Vec::new(),
            refs: Vec::new(),
            patterns: Patterns::of(Syntax::Ecma, patterns),
            pattern_bytes: 0,
            nodes: 0,
            draft: Draft::default(),
            lists: Vec::new(),
            per_name: 0,
        }
    }

    /// Finds the draft: that of `$schema`; without one, the last in which `items` may be a list if it is.
    fn draft(&mut self, schema: &Value) {
        let named = schema.get("$schema").map(|_| Draft::default().detect(schema));
        let is_list = !self.lists.is_empty();
        self.draft = match named {
            Some(draft) => draft,
            None if is_list => Draft::Draft201909,
            None => Draft::Draft202012,
        };
        if self.draft == Draft::Draft202012 {
            let says = "must be a schema in draft 2020-12: write the list as prefixItems";
            let fault = |place| Problem::rule(Rule::Type, place, says);
            self.problems.extend(std::mem::take(&mut self.lists).into_iter().map(fault));
        }
    }

    fn schema(&mut self, place: &str, schema: &'s Value, depth: usize) {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > 2 * MAX_DEPTH {
            self.nodes = MAX_NODES + 1;
            return;
        }
        match schema {
            Value::Object(members) => {
                for (name, value) in members {
                    self.keyword(&format!("{place}.{name}"), name, value, depth);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.schema(&format!("{place}[{index}]"), item, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn keyword(&mut self, place: &str, name: &str, value: &'s Value, depth: usize) {
        match (name, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                self.refs.push((place.to_owned(), to));
            }
            ("$id" | "id", Value::String(id)) => self.ids.push(id.trim_end_matches('#')),
            ("$schema", Value::String(dialect)) if is_of_no_draft(dialect) => {
                let says = "must be that of draft 2020-12, 2019-09, 07, 06 or 04, such as \
                            https://json-schema.org/draft/2020-12/schema; a schema without $schema is \
                            read as one of draft 2020-12";
                self.problems.push(Problem::rule(Rule::Enum, place, says));
            }
            ("$vocabulary", _) => {}
            ("items", Value::Array(_)) => {
                self.lists.push(place.to_owned());
                self.schema(place, value, depth + 1);
            }
            ("pattern", Value::String(pattern)) => {
                self.pattern(place, pattern, MAX_PATTERN);
            }
            (name, _) if DATA.contains(&name) => {}
            (name, Value::Object(named)) if NAMED.contains(&name) => {
                for (member, schema) in named {
                    let place = format!("{place}.{member}");
                    if name == "patternProperties" {
                        let size = self.pattern(&place, member, MAX_NAME_PATTERN);
                        self.per_name += 1 + size as u64 / 64;
                    }
                    self.schema(&place, schema, depth + 1);
                }
            }
            (_, value) => self.schema(place, value, depth + 1),
        }
    }

    /// Counts a pattern; returns its compiled size.
    fn pattern(&mut self, place: &str, pattern: &str, limit: usize) -> usize {
        if self.pattern_bytes > MAX_PATTERNS {
            return 0;
        }
        match self.patterns.compile(pattern, limit) {
            Ok(pattern) if limit == MAX_NAME_PATTERN && pattern.looks() => {
                let says = "has look-around, which a pattern of names cannot have: write \
                            \"propertyNames\": {\"pattern\": …}";
                self.problems.push(Problem::rule(Rule::Pattern, place, says));
                0
            }
            Ok(pattern) => {
                self.pattern_bytes += pattern.size().max(LEAST_PATTERN);
                pattern.size()
            }
            Err(fault @ (Invalid::Syntax | Invalid::Unsupported(_))) => {
                let says = match fault {
                    Invalid::Unsupported(what) => format!("has {what}"),
                    Invalid::Syntax | Invalid::TooLarge => {
                        "must be a regular expression of ECMA 262".to_owned()
                    }
                };
                self.problems.push(Problem::rule(Rule::Pattern, place, says));
                0
            }
            Err(Invalid::TooLarge) => {
                let says = "is too large when compiled";
                self.problems.push(Problem::rule(Rule::Length, place, says));
                self.pattern_bytes += limit;
                0
            }
        }
    }

    /// True if a part of the schema may have this identifier, which can be relative to another's.
    fn is_identified(&self, document: &str) -> bool {
        let same_site = |id: &&str| site(id).is_some_and(|of| site(document) == Some(of));
        let is_near = site(document).is_none() || self.ids.iter().any(same_site);
        is_near && self.ids.iter().any(|id| *id == document || last(id) == last(document))
    }

    /// A reference leads to this document, or to a part of it with an identifier of its own. The
    /// compiler finds those that then lead nowhere.
    fn references(&mut self) {
        for (place, to) in &self.refs {
            let document = to.split('#').next().unwrap_or_default();
            let is_local =
                document.is_empty() || self.is_identified(document) || is_of_a_draft(document);
            if !is_local || to.is_empty() {
                let says = format!(
                    "must lead to a place within this schema (#/…, an $anchor or a local $id), not \
                     {}",
                    shortened(to, 64)
                );
                self.problems.push(Problem::rule(Rule::Ref, place, says));
            }
        }
        if self.refs.len() > MAX_REFS {
            let (place, _) = &self.refs[MAX_REFS];
            let says = format!("is one reference too many: at most {MAX_REFS} are allowed");
            self.problems.push(Problem::rule(Rule::Length, place, says));
        }
    }
}

/// The place of the reference that the compiler could not resolve: the last that its message names,
/// else the first of all.
pub(super) fn unresolved(field: &str, schema: &Value, message: &str) -> String {
    let mut walk = Walk::with_budget(0);
    walk.pattern_bytes = MAX_PATTERNS + 1;
    walk.schema(field, schema, 0);
    let names = |(_, to): &&(String, &str)| message.contains(to.trim_start_matches('#'));
    let found = walk.refs.iter().rfind(names).or(walk.refs.first());
    found.map_or_else(|| field.to_owned(), |(place, _)| place.clone())
}

/// True for a `$schema` that names no draft.
fn is_of_no_draft(dialect: &str) -> bool {
    Draft::from_schema_uri(dialect) == Draft::Unknown
}

/// True for the schema of a draft, or a part of it: the library has them.
fn is_of_a_draft(document: &str) -> bool {
    !is_of_no_draft(document)
        || ["2020-12", "2019-09"].iter().any(|draft| {
            document.starts_with(&format!("https://json-schema.org/draft/{draft}/meta/"))
        })
}

/// The scheme and the authority of an absolute identifier.
fn site(uri: &str) -> Option<&str> {
    let scheme = uri.find(':').filter(|end| !uri[..*end].contains('/'))?;
    let authority = uri[scheme + 1..].strip_prefix("//").and_then(|rest| rest.find('/'));
    Some(authority.map_or(&uri[..=scheme], |end| &uri[..scheme + 3 + end]))
}

/// The last segment of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The target of a reference within the document: a pointer, an anchor, or a part with this `$id`.
pub(super) fn target<'s>(
    root: &'s Value,
    to: &str,
    fuel: &mut Fuel,
) -> Result<Option<&'s Value>, OutOfFuel> {
    fuel.burn_for(to.len(), 4)?;
    let (document, fragment) = to.split_once('#').unwrap_or((to, ""));
    let resource = if document.is_empty() {
        root
    } else {
        let name = last(document);
        let is_named = |id: &str| id == document || last(id) == name;
        match find(root, &["$id"], &is_named, fuel)? {
            Some(resource) => resource,
            None => return Ok(None),
        }
    };
    if fragment.is_empty() || fragment.starts_with('/') {
        return Ok(resource.pointer(fragment));
    }
    find(resource, &["$anchor", "$dynamicAnchor"], &|anchor| anchor == fragment, fuel)
}

/// The first object of a document of which one of these members is a text that is wanted.
fn find<'s>(
    value: &'s Value,
    members: &[&str],
    is_wanted: &impl Fn(&str) -> bool,
    fuel: &mut Fuel,
) -> Result<Option<&'s Value>, OutOfFuel> {
    fuel.burn(4)?;
    let within: &mut dyn Iterator<Item = &'s Value> = match value {
        Value::Object(object) => {
            for text in members.iter().filter_map(|name| object.get(*name)?.as_str()) {
                fuel.burn_for(text.len(), 32)?;
                if is_wanted(text) {
                    return Ok(Some(value));
                }
            }
            &mut object.values()
        }
        Value::Array(items) => &mut items.iter(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(None),
    };
    for value in within {
        if let Some(found) = find(value, members, is_wanted, fuel)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// All `properties` that apply to an object of this schema: its own, those of its references, and
/// those of its `allOf`. Each schema counts once.
pub(super) fn properties<'s>(
    root: &'s Value,
    schema: &'s Value,
    fuel: &mut Fuel,
) -> Result<Vec<&'s Map<String, Value>>, OutOfFuel> {
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    collect(root, schema, &mut found, &mut seen, fuel)?;
    Ok(found)
}

fn collect<'s>(
    root: &'s Value,
    schema: &'s Value,
    found: &mut Vec<&'s Map<String, Value>>,
    seen: &mut Vec<&'s Value>,
    fuel: &mut Fuel,
) -> Result<(), OutOfFuel> {
    fuel.burn(20)?;
    if seen.len() >= MAX_DEPTH || seen.iter().any(|known| std::ptr::eq(*known, schema)) {
        return Ok(());
    }
    seen.push(schema);
    found.extend(schema.get("properties").and_then(Value::as_object));
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        if let Some(to) = schema.get(keyword).and_then(Value::as_str)
            && let Some(schema) = target(root, to, fuel)?
        {
            collect(root, schema, found, seen, fuel)?;
        }
    }
    for schema in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        collect(root, schema, found, seen, fuel)?;
    }
    Ok(())
}
