//! Every fault of a definition in one answer, in the order of their places (docs/reference/errors.md).
//!
//! Deliberately absent: the rules. The reader knows types, ranges and names; the domain the rest.

use std::collections::HashSet;

use callboard_domain::problem::{Problem, Problems};
use callboard_domain::{Error, Fault};
use serde_json::Value;

use crate::read::{self, Read, Reading, Unfit};

/// A definition that was read, before it is known which of its unfit names are there already.
#[derive(Debug)]
pub struct Definition<T> {
    reading: Reading<T>,
    /// The faults of meaning, if a field cannot be read or a name is unfit.
    found: Vec<Problem>,
}

/// Reads a definition. If a field cannot be read, the faults that `check` finds in the rest without
/// compiling anything are reported as well. Faults that `check` alone finds are not reported here: the
/// catalog checks the definition when it takes it.
pub(crate) fn read<T: Read + Clone>(
    value: Value,
    check: impl FnOnce(T) -> Vec<Problem>,
) -> Definition<T> {
    let reading = read::reading::<T>(value);
    let is_clean = reading.faults.is_empty() && reading.unfit().is_empty();
    let source = if is_clean { None } else { reading.read.clone() };
    Definition { reading, found: source.map(check).unwrap_or_default() }
}

impl<T> Definition<T> {
    /// The names outside the grammar ([`callboard_domain::grammar`]).
    #[must_use]
    pub fn unfit(&self) -> &[Unfit] {
        self.reading.unfit()
    }

    /// The definition, if its unfit names are all known.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] with every fault, in the order of their places.
    pub fn finish(self, is_known: impl Fn(&Unfit) -> bool) -> Result<T, Error> {
        match self.reading.resolved(is_known) {
            (Some(source), faults) if faults.is_empty() => Ok(source),
            (_, faults) => {
                Problems::none_of(joined(faults, self.found))?;
                Err(Error::Internal)
            }
        }
    }
}

/// All faults by place; faults in a field that could not be read are left out.
fn joined(faults: Vec<Fault>, found: Vec<Problem>) -> Vec<Problem> {
    let unread: HashSet<String> = faults.iter().map(|fault| fault.field.clone()).collect();
    let is_unread = |field: &str| {
        let ends = field.char_indices().filter(|(_, end)| matches!(end, '.' | '['));
        let mut within = ends.map(|(end, _)| &field[..end]);
        unread.contains(field) || within.any(|field| unread.contains(field))
    };
    let mut all: Vec<_> = faults.into_iter().map(Problem::from).collect();
    all.extend(found.into_iter().filter(|problem| !is_unread(&problem.field)));
    all.sort_by_cached_key(|problem| place(&problem.field));
    all
}

/// The members of definitions, in the order of their faults.
const ORDER: [&str; 51] = [
    "name",
    "description",
    "version",
    "industry",
    "tags",
    "visibility",
    "inputSchema",
    "outputSchema",
    "steps",
    "defaults",
    "hitl",
    "metadata",
    "id",
    "type",
    "signal",
    "schema",
    "prompt",
    "systemPrompt",
    "messages",
    "role",
    "content",
    "files",
    "model",
    "models",
    "fallbackOn",
    "serviceTier",
    "queue",
    "dependsOn",
    "condition",
    "requiresApproval",
    "review",
    "show",
    "timeoutMs",
    "retry",
    "maxTokens",
    "temperature",
    "seed",
    "topP",
    "stop",
    "frequencyPenalty",
    "forEach",
    "item",
    "maxItems",
    "concurrency",
    "onItemError",
    "minSuccess",
    "concurrencyKey",
    "concurrencyLimit",
    "onConflict",
    "fairnessKey",
    "weight",
];

/// The place of a field in the order of faults: members as in [`ORDER`], items by number.
fn place(field: &str) -> Vec<(usize, String)> {
    let parts = field.split(['.', '[']).map(|part| part.trim_end_matches(']'));
    let rank = |part: &str| {
        if let Ok(index) = part.parse() {
            return (index, String::new());
        }
        let known = ORDER.iter().position(|name| *name == part);
        (known.unwrap_or(ORDER.len()), part.to_owned())
    };
    parts.map(rank).collect()
}

#[cfg(test)]
mod tests {
    use callboard_domain::plan::{Plan, PlanSource};
    use serde_json::json;

    use super::*;

    mod pairs;

    fn faults(plan: Value) -> Vec<(String, String)> {
        let check = |source| match Plan::compile(source, &[]) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.all().to_vec(),
        };
        let outer = |source| Plan::outer_faults(source, &[]);
        let problems = match read::<PlanSource>(plan, outer).finish(|_| false) {
            Ok(source) => check(source),
            Err(Error::InvalidDefinition(problems)) => problems.all().to_vec(),
            Err(other) => panic!("{other:?}"),
        };
        let of = |problem: &Problem| {
            let rule = problem.code.rule().map_or(problem.code.as_str(), |it| it.as_str());
            (problem.field.clone(), rule.to_owned())
        };
        problems.iter().map(of).collect()
    }

    #[test]
    fn what_cannot_be_read_and_what_makes_no_sense_is_told_together_by_place() {
        let plan = json!({
            "steps": [
                {"id": "a", "prompt": "{{b.output}}", "timeoutMs": 0},
                {"id": "a", "prompt": 5, "dependsOn": ["x", 7], "temperature": 2, "later": 1},
                {"id": "c", "prompt": "{{", "dependsOn": ["c"]},
                "d",
            ],
            "surprise": 1,
            "tags": [""],
        });
        let expected = [
            ("name", "required"),
            ("tags[0]", "length"),
            ("steps[0].prompt", "MISSING_DEPENDENCY"),
            ("steps[0].timeoutMs", "range"),
            ("steps[1].id", "DUPLICATE_STEP_ID"),
            ("steps[1].prompt", "type"),
            ("steps[1].dependsOn[0]", "MISSING_DEPENDENCY"),
            ("steps[1].dependsOn[1]", "type"),
            ("steps[1].temperature", "range"),
            ("steps[1].later", "unknown"),
            ("steps[2].prompt", "placeholder"),
            ("steps[2].dependsOn", "CIRCULAR_DEPENDENCY"),
            ("steps[3]", "type"),
            ("surprise", "unknown"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(field, rule)| ((*field).into(), (*rule).into())).collect();
        assert_eq!(faults(plan), expected);
    }

    #[test]
    fn items_are_ordered_by_number() {
        let mut steps = vec![json!({"id": "a"}); 12];
        steps.truncate(12);
        let found = faults(json!({"name": "n", "steps": steps}));
        let prompts = found.iter().filter(|(_, rule)| rule == "required");
        let fields: Vec<_> = prompts.map(|(field, _)| field.as_str()).collect();
        assert_eq!(
            (fields.len(), fields[2], fields[11]),
            (12, "steps[2].prompt", "steps[11].prompt")
        );
    }
}
