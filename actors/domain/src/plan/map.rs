//! Steps that run once for each item of a list (PROTOCOL.md 16, `forEach`).
//!
//! Deliberately absent: the run of the items, which is [`crate::execution`]'s.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::execution::MAX_ITEMS;
use crate::names::names;
use crate::render::{self, Reference, Scope, reference};

/// The most steps of a plan that have a `forEach`.
pub const MAX_MAPS: usize = 100;

/// The longest name of the item's variable, in characters.
pub const MAX_ITEM_NAME: usize = 64;

/// The name of the item's variable where the step gives none.
pub const DEFAULT_ITEM: &str = "item";

names! {
    /// The effect of an item's failure on its step.
    OnItemError {
        /// The step fails at once.
        Fail = "fail",
        /// The item's output is null.
        Skip = "skip",
    }
}

/// The members of a step that concern its list; none of them is set in a step without one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MapSource {
    /// The placeholder of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// The name of the item's variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The longest list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u16>,
    /// The most tasks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u16>,
    /// The effect of an item's failure on the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_item_error: Option<OnItemError>,
    /// The share of the items that must complete, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_success: Option<f64>,
}

impl MapSource {
    /// True if no member is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The name of the item's variable, in a step with a list.
    #[must_use]
    pub fn item_name(&self) -> Option<&str> {
        self.for_each.as_ref().map(|_| self.item.as_deref().unwrap_or(DEFAULT_ITEM))
    }

    /// The variable in `forEach`; `None` if that is not one placeholder of an input or an output.
    #[must_use]
    pub fn list(&self) -> Option<Reference> {
        let inside = self.for_each.as_ref()?.trim().strip_prefix("{{")?.strip_suffix("}}")?;
        match reference(inside)? {
            found @ (Reference::Input { .. } | Reference::Output { .. }) => Some(found),
            Reference::Env(_) | Reference::Meta(_) | Reference::Item { .. } => None,
        }
    }
}

/// The list of a step, and the settings for its items.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    list: Reference,
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
        Some(Self {
            list: source.list()?,
            max_items: source.max_items.unwrap_or(MAX_ITEMS),
            concurrency: source.concurrency,
            min_success: tolerates.then_some(source.min_success.unwrap_or(0.0)),
            number: u8::try_from(number).ok()?,
        })
    }

    /// The variable.
    #[must_use]
    pub const fn reference(&self) -> &Reference {
        &self.list
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

    /// The list: the value of the variable. A skipped step's output, an absent input field and null are
    /// the empty list.
    ///
    /// # Errors
    /// The variable has no value, which is for a dry run to say, or none that is a list of at most
    /// `maxItems` items.
    pub fn items(&self, scope: &impl Scope) -> Result<Vec<Value>, ListError> {
        let not_a_list = |what| Err(ListError::NotAList(self.list.clone(), what));
        let items = match render::value_of(&self.list, scope)? {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(Value::Bool(_)) => return not_a_list("a boolean"),
            Some(Value::Number(_)) => return not_a_list("a number"),
            Some(Value::String(_)) => return not_a_list("a string"),
            Some(Value::Object(_)) => return not_a_list("an object"),
        };
        if items.len() > usize::from(self.max_items) {
            let (list, items, most) = (self.list.clone(), items.len(), self.max_items);
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
            for_each: Some("{{ input.docs }}".into()),
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
        let list = |text: &str| {
            let source = MapSource { for_each: Some(text.into()), ..MapSource::default() };
            source.list().map(|list| list.to_string())
        };
        assert_eq!(list("{{input.docs}}").as_deref(), Some("input.docs"));
        assert_eq!(list(" {{ a.output.rows }} ").as_deref(), Some("a.output.rows"));
        for text in ["", "input.docs", "{{input.docs}},", "{{env.X}}", "{{input.a}}{{input.b}}"] {
            assert_eq!(list(text), None, "{text}");
        }
    }
}
