//! The check of a step's `forEach`.

use std::collections::BTreeMap;

use super::StepChecker;
use crate::error::Rule;
use crate::execution::MAX_ITEMS;
use crate::plan::limits::check_range;
use crate::plan::map::{
    self, DEFAULT_ITEM, ForEach, ListSource, MAX_ITEM_NAME, MAX_LISTS, MAX_MAPS, MapSource,
    OnItemError,
};
use crate::problem::Code;
use crate::render::members::member;
use crate::render::{Reference, way_out};
use crate::schema::Schema;

use super::Inputs;

impl StepChecker<'_, '_, '_> {
    /// The compiled list of the step; `None` also if it has faults.
    pub(super) fn for_each(&mut self) -> Option<ForEach> {
        let map = &self.source.map;
        if map.is_none() || self.source.wait.is_some() {
            return None;
        }
        if map.for_each.is_none() {
            self.breaks(Rule::Required, "forEach", "is required beside the settings of its items");
            return None;
        }
        let number = self.checker.maps;
        self.checker.maps += 1;
        if number == MAX_MAPS {
            let says = format!("is one too many: a plan may have {MAX_MAPS} steps with forEach");
            self.breaks(Rule::Length, "forEach", &says);
        }
        match &map.for_each {
            None => {}
            Some(ListSource::One(text)) => self.list("forEach", text),
            Some(ListSource::Together(lists)) => self.lists(lists),
        }
        self.item_name(map);
        self.numbers_of_items(map);
        ForEach::of(map, number)
    }

    /// The lists that are walked together, by the names of their variables.
    fn lists(&mut self, lists: &BTreeMap<String, String>) {
        // Reading knows that there is one.
        if lists.len() > MAX_LISTS {
            let says = format!("must name at most {MAX_LISTS} lists");
            self.breaks(Rule::Length, "forEach", &says);
        }
        if self.source.map.item.is_some() {
            let says = "is for one list: several lists name their own variables";
            self.breaks(Rule::Unknown, "item", says);
        }
        for (name, text) in lists.iter().take(MAX_LISTS) {
            let field = format!("forEach.{}", crate::problem::shortened(name, MAX_ITEM_NAME));
            // It may be the name of the step whose list it walks, and then stands for the item.
            self.variable_name(&field, name);
            if name == DEFAULT_ITEM {
                let says =
                    "must have another name: item is what the lists share, such as item.index";
                self.breaks(Rule::Reserved, &field, says);
            }
            self.list(&field, text);
        }
    }

    fn list(&mut self, place: &str, text: &str) {
        match map::list(text) {
            Some(Reference::Input { field, path }) => {
                self.input(place, &field);
                self.list_input(place, &field, path.is_empty());
            }
            Some(Reference::Output { step, .. }) => self.output(place, &step),
            Some(Reference::Env(_) | Reference::Meta(_) | Reference::Item { .. }) | None => {
                let says = format!(
                    "must be one placeholder of a list: {}{{{{input.<field>}}}} or {{{{<step>.output}}}}",
                    way_out(text.trim(), &[])
                );
                self.breaks(Rule::Placeholder, place, &says);
            }
        }
    }

    /// An input that the schema declares as something else than an array can never be a list.
    fn list_input(&mut self, place: &str, field: &str, is_whole: bool) {
        let Inputs::Declared(declared) = &self.checker.inputs else { return };
        if is_whole && declares_no_array(declared.schema, field) {
            let says = format!(
                "refers to input.{}, which inputSchema does not declare as an array",
                crate::problem::shortened(field, 64)
            );
            self.fault(Code::InvalidInputRef, place, &says);
        }
    }

    fn item_name(&mut self, map: &MapSource) {
        let Some(name) = map.item.as_deref() else { return };
        self.variable_name("item", name);
        if self.positions.contains_key(name) {
            let says = format!("must not be {name}, which is the name of a step");
            self.breaks(Rule::Reserved, "item", &says);
        }
    }

    fn variable_name(&mut self, place: &str, name: &str) {
        let of_names = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > MAX_ITEM_NAME {
            let says = format!("must have 1 to {MAX_ITEM_NAME} characters");
            self.breaks(Rule::Length, place, &says);
        } else if !name.starts_with(|first: char| first.is_ascii_lowercase())
            || !name.bytes().all(of_names)
        {
            self.breaks(Rule::Pattern, place, "must match ^[a-z][a-zA-Z0-9_-]*$");
        } else if ["input", "env", "meta"].contains(&name) {
            let says = format!("must not be {name}, which is the name of a variable");
            self.breaks(Rule::Reserved, place, &says);
        }
    }

    fn numbers_of_items(&mut self, map: &MapSource) {
        if map.max_items.is_none() {
            let says = format!("is required beside forEach: 1 to {MAX_ITEMS}");
            self.breaks(Rule::Required, "maxItems", &says);
        }
        let prefix = format!("steps[{}].", self.index);
        let problems = &mut self.checker.problems;
        check_range(problems, &format!("{prefix}maxItems"), map.max_items, 1, MAX_ITEMS);
        check_range(problems, &format!("{prefix}concurrency"), map.concurrency, 1, MAX_ITEMS);
        check_range(problems, &format!("{prefix}minSuccess"), map.min_success, 0.0, 1.0);
        if map.min_success.is_some() && map.on_item_error != Some(OnItemError::Skip) {
            let says = "is for onItemError `skip`: otherwise every item must complete";
            self.breaks(Rule::Range, "minSuccess", says);
        }
    }
}

/// True if the schema gives the property types, and `array` is none of them.
fn declares_no_array(schema: &Schema, field: &str) -> bool {
    let properties = schema.source().get("properties").and_then(serde_json::Value::as_object);
    let types = properties.and_then(|all| member(all, field));
    match types.and_then(|property| property.get("type")) {
        Some(serde_json::Value::String(one)) => one != "array",
        Some(serde_json::Value::Array(several)) => !several.iter().any(|one| one == "array"),
        Some(_) | None => false,
    }
}
