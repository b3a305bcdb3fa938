//! The cost of compiling the schemas of a definition, counted from their text before they are compiled.
//!
//! A schema of a kilobyte can take a tenth of a second, and a definition may have hundreds of them. So the costs of
//! all are added up first, and a definition beyond [`MAX`] is refused with nothing compiled.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::error::Rule;
use crate::pattern;
use crate::problem::Problem;

/// The most that the schemas of one definition may cost, in units of about 10 ns.
pub const MAX: u64 = 30_000_000;

/// The time of a unit, in nanoseconds.
const UNIT_NANOS: u64 = 10;

/// The cost of a value within a schema: most are subschemas.
const VALUE: u64 = 150;

/// The fault of a definition whose schemas cost more than [`MAX`] together: at the place where the sum is
/// reached. Each schema comes with its field, such as `inputSchema`.
#[must_use]
pub fn fault<'s>(schemas: impl IntoIterator<Item = (String, &'s Value)>) -> Option<Problem> {
    let mut spending = Spending { left: MAX, patterns: HashSet::new() };
    for (field, schema) in schemas {
        spending.patterns.clear();
        if let Err(Exceeded(path)) = spending.schema(schema) {
            let place: String = path.into_iter().rev().collect();
            let says = format!(
                "is where the schemas of this definition together cost more than the {MAX} units that \
                 compiling them may cost (a value {VALUE}, a pattern the characters of its classes if it has \
                 (?i), and its repetitions): write narrower classes, leave out (?i), or use fewer patterns"
            );
            return Some(Problem::rule(Rule::Length, field + &place, says));
        }
    }
    None
}

/// The time that compiling some schemas takes, roughly; short for what [`fault`] refuses.
#[must_use]
pub fn time<'s>(schemas: impl IntoIterator<Item = (String, &'s Value)>) -> Duration {
    let mut spending = Spending { left: MAX, patterns: HashSet::new() };
    for (_, schema) in schemas {
        spending.patterns.clear();
        if spending.schema(schema).is_err() {
            return Duration::ZERO;
        }
    }
    Duration::from_nanos((MAX - spending.left) * UNIT_NANOS)
}

/// The path of the place at which the sum was reached, the innermost part first.
struct Exceeded(Vec<String>);

struct Spending<'s> {
    left: u64,
    /// The patterns of the schema so far: equal ones are compiled once.
    patterns: HashSet<&'s str>,
}

impl<'s> Spending<'s> {
    fn schema(&mut self, schema: &'s Value) -> Result<(), Exceeded> {
        self.take(VALUE)?;
        match schema {
            Value::Object(members) => members.iter().try_for_each(|(name, value)| {
                self.member(name, value).map_err(|exceeded| exceeded.within(format!(".{name}")))
            }),
            Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
                self.schema(item).map_err(|exceeded| exceeded.within(format!("[{index}]")))
            }),
            Value::String(text) => self.take(text.len() as u64 / 8),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn member(&mut self, name: &str, value: &'s Value) -> Result<(), Exceeded> {
        self.take(name.len() as u64 / 8)?;
        match (name, value) {
            ("pattern", Value::String(text)) => self.pattern(text, 1),
            ("patternProperties", Value::Object(patterns)) => {
                // The library compiles these once more.
                patterns.keys().try_for_each(|text| self.pattern(text, 2))?;
                self.schema(value)
            }
            (_, value) => self.schema(value),
        }
    }

    fn pattern(&mut self, text: &'s str, times: u64) -> Result<(), Exceeded> {
        let cost = if self.patterns.insert(text) { times * pattern::cost(text) } else { VALUE };
        self.take(cost)
    }

    fn take(&mut self, units: u64) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(units).ok_or_else(|| Exceeded(Vec::new()))?;
        Ok(())
    }
}

impl Exceeded {
    fn within(mut self, part: String) -> Self {
        self.0.push(part);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema of thirteen patterns that each look up all characters.
    fn worst(number: usize) -> Value {
        let pattern =
            |n| (format!("p{n}"), json!({"pattern": format!("(?i)[!-\u{10ffff}]{number}-{n}")}));
        json!({"properties": (0..13).map(pattern).collect::<serde_json::Map<_, _>>()})
    }

    fn of(schemas: &[Value]) -> Option<Problem> {
        fault(
            schemas
                .iter()
                .enumerate()
                .map(|(n, schema)| (format!("steps[{n}].outputSchema"), schema)),
        )
    }

    #[test]
    fn the_schemas_of_a_definition_share_a_cost_and_the_fault_names_the_place() {
        let all: Vec<_> = (0..500).map(worst).collect();
        assert_eq!(of(&all[..2]), None);
        let fault = of(&all).expect("they are too many");
        assert_eq!(fault.code.rule(), Some(Rule::Length));
        assert_eq!(fault.field, "steps[2].outputSchema.properties.p0.pattern");
        assert!(fault.message.contains("30000000") && fault.message.contains("(?i)"), "{fault:?}");
    }

    #[test]
    fn the_time_is_told_before_it_is_spent() {
        let all: Vec<_> = (0..3).map(worst).collect();
        let time = |schemas: &[Value]| time(schemas.iter().map(|it| (String::new(), it)));
        let (one, two) = (time(&all[..1]), time(&all[..2]));
        assert!(two > one && two < Duration::from_millis(300), "{one:?} {two:?}");
        assert_eq!(time(&all), Duration::ZERO, "it is refused");
    }

    #[test]
    fn what_people_write_costs_little() {
        let step = json!({"type": "object", "required": ["name", "mail"], "properties": {
            "name": {"type": "string", "pattern": r"^[\p{L}\p{N}_ .'-]+$", "maxLength": 100},
            "mail": {"type": "string", "pattern": r"^\S+@\S+\.\w{2,}$"},
            "when": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        }});
        assert_eq!(of(&vec![step; 200]), None);
    }

    #[test]
    fn many_small_values_count_too() {
        let large = json!({"enum": vec![0; 60_000]});
        assert_eq!(of(&[large.clone(), large.clone(), large.clone()]), None);
        assert!(of(&vec![large; 20]).is_some());
    }
}
