//! Steps that run once for each item of a list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use crate::execution::MAX_ITEMS;
use crate::names::names;
use crate::render::{self, Reference, Scope, reference};

/// The most steps of a plan that have a `forEach`.
pub const MAX_MAPS: usize = 100;

/// The longest name of the item's variable, in characters.
pub const MAX_ITEM_NAME: usize = 64;

/// The name of the item's variable where the step gives none, and of what the items of several lists share:
/// `{{item.index}}`.
pub const DEFAULT_ITEM: &str = "item";

/// The most lists of a step that are walked together.
pub const MAX_LISTS: usize = 8;

/// The lists of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ListSource {
    /// The placeholder of the only list.
    One(String),
    /// The placeholders of lists that are walked together, by the names of the items' variables.
    Together(BTreeMap<String, String>),
}

names! {
    /// The effect of an item's failure on its step.
    OnItemError {
        /// The step fails at once.
        Fail = "fail",
        /// The item's output is null.
        Skip = "skip",
    }
}

impl From<&str> for ListSource {
    fn from(list: &str) -> Self {
        Self::One(list.to_owned())
    }
}

/// The members of a step that concern its list; none of them is set in a step without one.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MapSource {
    /// The lists.
    pub for_each: Option<ListSource>,
    /// The name of the item's variable.
    pub item: Option<String>,
    /// The longest list.
    pub max_items: Option<u16>,
    /// The most tasks at once.
    pub concurrency: Option<u16>,
    /// The effect of an item's failure on the step.
    pub on_item_error: Option<OnItemError>,
    /// The share of the items that must complete, 0 to 1.
    pub min_success: Option<f64>,
}

impl MapSource {
    /// True if no member is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The names of an item's variables, in a step with a list.
    #[must_use]
    pub fn item_names(&self) -> Vec<&str> {
        match &self.for_each {
            None => Vec::new(),
            Some(ListSource::One(_)) => vec![self.item.as_deref().unwrap_or(DEFAULT_ITEM)],
            Some(ListSource::Together(lists)) => {
                lists.keys().map(String::as_str).chain([DEFAULT_ITEM]).collect()
            }
        }
    }

    /// The bytes of the texts.
    pub(crate) fn size(&self) -> usize {
        let lists = match &self.for_each {
            None => 0,
            Some(ListSource::One(list)) => list.len(),
            Some(ListSource::Together(lists)) => {
                lists.iter().map(|(name, list)| name.len() + list.len()).sum()
            }
        };
        lists + self.item.as_ref().map_or(0, String::len)
    }
}

/// The variable of a list; `None` if the text is not one placeholder of an input or an output.
pub(super) fn list(text: &str) -> Option<Reference> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    match reference(inside)? {
        found @ (Reference::Input { .. } | Reference::Output { .. }) => Some(found),
        Reference::Env(_) | Reference::Meta(_) | Reference::Item { .. } => None,
    }
}

/// Lists that are found.
#[derive(Debug, Clone, PartialEq)]
enum Lists {
    One(Reference),
    Together(BTreeMap<String, Reference>),
}

/// The list of a step, and the settings for its items.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    lists: Lists,
    max_items: u16,
    concurrency: Option<u16>,
    min_success: Option<f64>,
    number: u8,
}

/// A list that cannot be had. The message names the variable, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The variable has no value, or its text is no JSON.
    #[error("{0}")]
    Render(#[from] render::Error),
    /// The value is no list.
    #[error("forEach: {{{{{0}}}}} is {1}, not a list")]
    NotAList(Reference, &'static str),
    /// Lists that are walked together have different lengths.
    #[error(
        "forEach: {{{{{one}}}}} has {items} items and {{{{{other}}}}} has {others}: lists that are walked \
         together have the same length"
    )]
    Uneven {
        /// The first list.
        one: Box<Reference>,
        /// Its length.
        items: usize,
        /// Another list.
        other: Box<Reference>,
        /// Its length.
        others: usize,
    },
    /// The list is too long.
    #[error("forEach: {{{{{list}}}}} has {items} items, and maxItems is {most}")]
    TooLong {
        /// The variable.
        list: Reference,
        /// The length of the list.
        items: usize,
        /// The longest list.
        most: u16,
    },
}

impl ForEach {
    /// Compiles checked members; `number` counts the lists of the plan.
    pub(super) fn of(source: &MapSource, number: usize) -> Option<Self> {
        let tolerates = source.on_item_error == Some(OnItemError::Skip);
        let lists = match source.for_each.as_ref()? {
            ListSource::One(text) => Lists::One(list(text)?),
            ListSource::Together(texts) => {
                let of = |(name, text): (&String, &String)| Some((name.clone(), list(text)?));
                Lists::Together(texts.iter().map(of).collect::<Option<_>>()?)
            }
        };
        Some(Self {
            lists,
            max_items: source.max_items.unwrap_or(MAX_ITEMS),
            concurrency: source.concurrency,
            min_success: tolerates.then_some(source.min_success.unwrap_or(0.0)),
            number: u8::try_from(number).ok()?,
        })
    }

    /// The variables of the lists.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let (one, together) = match &self.lists {
            Lists::One(list) => (Some(list), None),
            Lists::Together(lists) => (None, Some(lists)),
        };
        one.into_iter().chain(together.into_iter().flat_map(BTreeMap::values))
    }

    /// The value of a variable in an item: each item of lists that are walked together has one member a variable.
    #[must_use]
    pub fn variable<'v>(&self, item: &'v Value, name: &str) -> Option<&'v Value> {
        match &self.lists {
            Lists::One(_) => Some(item),
            Lists::Together(_) => item.get(name),
        }
    }

    /// The longest list.
    #[must_use]
    pub const fn max_items(&self) -> u16 {
        self.max_items
    }

    /// The most tasks at once.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u16> {
        self.concurrency
    }

    /// The number of this list among those of the plan, from 0; below [`MAX_MAPS`].
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// The number of items that must complete, out of `items`: all of them if no failure is tolerated.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small number; the cast saturates"
    )]
    pub fn least(&self, items: u16) -> u16 {
        let share = |share: f64| (share * f64::from(items) - 1e-9).ceil() as u16;
        self.min_success.map_or(items, |of| share(of).min(items))
    }

    /// The items. A skipped step's output, an absent input field and null are the empty list.
    ///
    /// # Errors
    /// A variable has no value, which is for a dry run to say, or none that is a list of at most `maxItems`
    /// items; or lists that are walked together have different lengths.
    pub fn items(&self, scope: &impl Scope) -> Result<Vec<Value>, ListError> {
        let lists = match &self.lists {
            Lists::One(list) => return self.values(list, scope),
            Lists::Together(lists) => lists,
        };
        let mut items: Vec<Map<String, Value>> = Vec::new();
        let mut first: Option<&Reference> = None;
        for (name, list) in lists {
            let values = self.values(list, scope)?;
            match first {
                None => items.resize(values.len(), Map::new()),
                Some(one) if items.len() != values.len() => {
                    let (one, other) = (Box::new(one.clone()), Box::new(list.clone()));
                    let (items, others) = (items.len(), values.len());
                    return Err(ListError::Uneven { one, items, other, others });
                }
                Some(_) => {}
            }
            first = first.or(Some(list));
            for (item, value) in items.iter_mut().zip(values) {
                item.insert(name.clone(), value);
            }
        }
        let numbered = items.into_iter().enumerate().map(|(index, mut item)| {
            item.insert(DEFAULT_ITEM.to_owned(), json!({"index": index}));
            Value::Object(item)
        });
        Ok(numbered.collect())
    }

    fn values(&self, list: &Reference, scope: &impl Scope) -> Result<Vec<Value>, ListError> {
        let not_a_list = |what| Err(ListError::NotAList(list.clone(), what));
        let items = match render::value_of(list, scope)? {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(Value::Bool(_)) => return not_a_list("a boolean"),
            Some(Value::Number(_)) => return not_a_list("a number"),
            Some(Value::String(_)) => return not_a_list("a string"),
            Some(Value::Object(_)) => return not_a_list("an object"),
        };
        if items.len() > usize::from(self.max_items) {
            let (list, items, most) = (list.clone(), items.len(), self.max_items);
            return Err(ListError::TooLong { list, items, most });
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(on_item_error: Option<OnItemError>, min_success: Option<f64>) -> ForEach {
        let source = MapSource {
            for_each: Some(ListSource::One("{{ input.docs }}".into())),
            on_item_error,
            min_success,
            ..MapSource::default()
        };
        ForEach::of(&source, 0).expect("a list")
    }

    #[test]
    fn the_share_that_must_complete_is_rounded_up() {
        let skip = Some(OnItemError::Skip);
        for (each, items, least) in [
            (each(None, None), 7, 7),
            (each(Some(OnItemError::Fail), None), 7, 7),
            (each(skip, None), 7, 0),
            (each(skip, Some(0.5)), 7, 4),
            (each(skip, Some(0.9)), 10, 9),
            (each(skip, Some(0.3)), 10, 3),
            (each(skip, Some(1.0)), 1_000, 1_000),
            (each(skip, Some(0.001)), 1, 1),
            (each(skip, Some(1.0)), 0, 0),
        ] {
            assert_eq!(each.least(items), least, "{each:?} of {items}");
        }
    }

    #[test]
    fn a_list_is_one_placeholder_of_an_input_or_an_output() {
        let list = |text: &str| list(text).map(|list| list.to_string());
        assert_eq!(list("{{input.docs}}").as_deref(), Some("input.docs"));
        assert_eq!(list(" {{ a.output.rows }} ").as_deref(), Some("a.output.rows"));
        for text in ["", "input.docs", "{{input.docs}},", "{{env.X}}", "{{input.a}}{{input.b}}"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    struct Inputs(Map<String, Value>);

    impl Scope for Inputs {
        fn input(&self) -> &Map<String, Value> {
            &self.0
        }

        fn output(&self, _: &str) -> render::Output<'_> {
            render::Output::Unknown
        }

        fn env(&self, _: &str) -> Option<&str> {
            None
        }

        fn meta(&self, _: render::Meta) -> Option<&str> {
            None
        }
    }

    fn walked(mails: Value, labels: Value) -> Result<Vec<Value>, String> {
        let lists = [("mail", "{{input.mails}}"), ("label", "{{input.labels}}")];
        let lists = lists.map(|(name, list)| (name.to_owned(), list.to_owned()));
        let for_each = Some(ListSource::Together(lists.into()));
        let source = MapSource { for_each, max_items: Some(3), ..MapSource::default() };
        assert_eq!(source.item_names(), ["label", "mail", "item"]);
        let each = ForEach::of(&source, 0).expect("lists");
        let mut input = Map::new();
        input.insert("mails".into(), mails);
        input.insert("labels".into(), labels);
        each.items(&Inputs(input)).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_of_one_length_are_walked_together() {
        let items = walked(json!([{"subject": "s"}, null]), json!(["a", "b"]));
        let expected = json!([
            {"label": "a", "mail": {"subject": "s"}, "item": {"index": 0}},
            {"label": "b", "mail": null, "item": {"index": 1}},
        ]);
        assert_eq!(items.map(Value::Array), Ok(expected));
        assert_eq!(walked(json!([]), Value::Null), Ok(Vec::new()));
        let uneven = walked(json!([1, 2, 3]), json!(["a", "b"])).expect_err("they differ");
        let says = "forEach: {{input.labels}} has 2 items and {{input.mails}} has 3: lists that are walked \
                    together have the same length";
        assert_eq!(uneven, says);
        let long =
            walked(json!([1, 2, 3, 4]), json!(["a", "b", "c", "d"])).expect_err("they are long");
        assert!(long.contains("has 4 items, and maxItems is 3"), "{long}");
    }
}
