//! An occurrence of a schedule, as the work that it starts sees it.
//!
//! Deliberately absent: placeholders of other kinds in the target of a schedule, which stay as they are.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Schedule, Timing};
use crate::Timestamp;
use crate::render::Meta;

/// An occurrence that starts work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The instant of the occurrence.
    pub at: Timestamp,
    /// The instant of the occurrence that started work before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Timestamp>,
    /// The IANA name of the schedule's time zone.
    pub zone: String,
}

impl Schedule {
    /// The occurrence at an instant.
    #[must_use]
    pub fn occurrence(&self, at: Timestamp) -> Occurrence {
        Occurrence { previous: self.last_started, ..Occurrence::first(&self.settings.timing, at) }
    }
}

impl Occurrence {
    /// The first occurrence of a schedule.
    #[must_use]
    pub fn first(timing: &Timing, at: Timestamp) -> Self {
        let zone = match timing {
            Timing::Cron { zone, .. } => zone.clone(),
            Timing::At(_) => "UTC".to_owned(),
        };
        Self { at, previous: None, zone }
    }

    /// A property of the run; `None` if it is not one of the occurrence, or there was none before.
    #[must_use]
    pub fn value(&self, meta: Meta) -> Option<String> {
        match meta {
            Meta::ScheduledAt => Some(self.at.to_string()),
            Meta::PreviousScheduledAt => self.previous.map(|at| at.to_string()),
            Meta::ScheduledDate => self.day(self.at),
            Meta::PreviousScheduledDate => self.previous.and_then(|at| self.day(at)),
            Meta::Timezone => Some(self.zone.clone()),
            Meta::TemplateName | Meta::ExecutionId | Meta::StartedAt => None,
        }
    }

    /// The day of an instant in the schedule's zone, such as 2026-11-27.
    fn day(&self, at: Timestamp) -> Option<String> {
        let zone = TimeZone::get(&self.zone).ok()?;
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()?;
        Some(zone.to_datetime(at).date().to_string())
    }

    /// Writes the occurrence into the strings of an input. A member whose whole value has none is left out.
    pub fn fill_map(&self, map: &mut Map<String, Value>) {
        map.retain(|_, value| !value.as_str().is_some_and(|text| self.is_absent(text)));
        map.values_mut().for_each(|value| self.fill_value(value));
    }

    fn fill_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.fill(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.fill_value(value)),
            Value::Object(map) => self.fill_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Writes the occurrence into a text, in place of `{{meta.scheduledAt}}` and the others of its kind.
    pub fn fill(&self, text: &mut String) {
        if !text.contains("{{") {
            return;
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(begin) = rest.find("{{") {
            let (before, from) = rest.split_at(begin);
            filled.push_str(before);
            let Some((meta, after)) = placeholder(from) else {
                filled.push('{');
                rest = &from[1..];
                continue;
            };
            filled.push_str(&self.value(meta).unwrap_or_default());
            rest = after;
        }
        filled.push_str(rest);
        *text = filled;
    }

    /// True if a text is one placeholder, which has no value.
    fn is_absent(&self, text: &str) -> bool {
        placeholder(text.trim())
            .is_some_and(|(meta, rest)| rest.is_empty() && self.value(meta).is_none())
    }
}

/// The property of an occurrence whose placeholder begins a text, and the rest of the text.
fn placeholder(text: &str) -> Option<(Meta, &str)> {
    let (name, rest) = text.strip_prefix("{{")?.split_once("}}")?;
    let meta = Meta::parse(name.trim().strip_prefix("meta.")?)?;
    let is_of_run = matches!(meta, Meta::TemplateName | Meta::ExecutionId | Meta::StartedAt);
    (!is_of_run).then_some((meta, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn friday() -> Occurrence {
        Occurrence {
            at: Timestamp::from_millis(1_795_730_400_000),
            previous: Some(Timestamp::from_millis(1_795_644_000_000)),
            zone: "Pacific/Auckland".into(),
        }
    }

    #[test]
    fn the_day_is_that_of_the_zone() {
        let friday = friday();
        let value = |meta| friday.value(meta).expect("a value");
        assert_eq!(value(Meta::ScheduledAt), "2026-11-26T22:00:00.000Z");
        assert_eq!(value(Meta::ScheduledDate), "2026-11-27");
        assert_eq!(value(Meta::PreviousScheduledDate), "2026-11-26");
        assert_eq!(value(Meta::Timezone), "Pacific/Auckland");
    }

    #[test]
    fn placeholders_of_the_occurrence_alone_are_filled() {
        let filled = |text: &str| {
            let mut text = text.to_owned();
            friday().fill(&mut text);
            text
        };
        assert_eq!(
            filled("Mails of {{ meta.previousScheduledDate }} to {{meta.scheduledDate}}"),
            "Mails of 2026-11-26 to 2026-11-27"
        );
        for kept in
            ["{{input.x}}", "{{meta.executionId}}", "{{meta.other}}", "{{meta.", "{{{", "}}"]
        {
            assert_eq!(filled(kept), kept);
        }
        assert_eq!(filled("{{{meta.timezone}}}"), "{Pacific/Auckland}");
    }

    #[test]
    fn a_member_without_a_value_is_left_out() {
        let mut first = friday();
        first.previous = None;
        let input = json!({
            "since": "{{meta.previousScheduledAt}}", "until": "{{meta.scheduledAt}}",
            "deep": [{"since": "since {{meta.previousScheduledDate}}", "n": 1}],
        });
        let Value::Object(mut input) = input else { panic!("an object") };
        first.fill_map(&mut input);
        let expected = json!({
            "until": "2026-11-26T22:00:00.000Z", "deep": [{"since": "since ", "n": 1}],
        });
        assert_eq!(Value::Object(input), expected);
    }
}
