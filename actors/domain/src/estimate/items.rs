//! The estimate of a step with a list: that of each item, as far as the list is known.
//!
//! Deliberately absent: the lengths of past items; the mean of an item counts.

use serde_json::{Map, Value};

use super::Estimate;
use crate::plan::{ForEach, ListError, Step};
use crate::render::{self, Meta, Output, Scope};

/// The items of a step before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DryItems {
    /// The length of the list; `None` where an output is missing.
    pub expected: Option<usize>,
    /// The longest list.
    pub most: u16,
    /// The likely cost of one item, in USD.
    pub cost_each: f64,
}

/// The list of a step as far as it is known: `None` where an output is missing.
pub(super) fn known(each: &ForEach, scope: &impl Scope) -> Result<Option<Vec<Value>>, ListError> {
    match each.items(scope) {
        Ok(items) => Ok(Some(items)),
        Err(ListError::Render(render::Error::NoValue(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The weight of all items' texts.
pub(super) fn weight(step: &Step, items: &[Value], scope: &impl Scope) -> usize {
    let of = |item| {
        let scope = WithItem { scope, each: step.for_each(), item };
        step.texts().map(|text| text.weight(&scope)).fold(0, usize::saturating_add)
    };
    items.iter().map(of).fold(0, usize::saturating_add)
}

/// The estimates of all items together: `of` estimates one with this prompt.
pub(super) fn sum(
    step: &Step,
    items: &[Value],
    scope: &impl Scope,
    of: impl Fn(&str) -> Estimate,
) -> Result<Option<Estimate>, render::Error> {
    let mut whole: Option<Estimate> = None;
    for item in items {
        let one =
            of(&step.prompt().render_known(&WithItem { scope, each: step.for_each(), item })?);
        whole = Some(match whole {
            None => one,
            Some(sum) => Estimate {
                cost: sum.cost + one.cost,
                cost_high: sum.cost_high + one.cost_high,
                duration_ms: sum.duration_ms.saturating_add(one.duration_ms),
                price_unknown: sum.price_unknown || one.price_unknown,
                unbounded: sum.unbounded || one.unbounded,
                ..sum
            },
        });
    }
    Ok(whole)
}

impl Estimate {
    /// The estimate of `count` items, from that of one.
    #[must_use]
    pub(super) fn of_items(self, count: usize) -> Self {
        let times = u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            cost: self.cost * f64::from(times),
            cost_high: self.cost_high * f64::from(times),
            duration_ms: self.duration_ms.saturating_mul(times.into()),
            ..self
        }
    }

    /// The same with as many items at once as the step allows: the duration of the rounds.
    #[must_use]
    pub(super) fn in_parallel(self, count: usize, each: &ForEach) -> Self {
        let at_once = each.concurrency().map_or(count, usize::from).clamp(1, count.max(1));
        let rounds = count.div_ceil(at_once) as u64;
        let one = self.duration_ms / (count.max(1) as u64);
        Self { duration_ms: one.saturating_mul(rounds), ..self }
    }
}

struct WithItem<'a, S> {
    scope: &'a S,
    each: Option<&'a ForEach>,
    item: &'a Value,
}

impl<S: Scope> Scope for WithItem<'_, S> {
    fn input(&self) -> &Map<String, Value> {
        self.scope.input()
    }

    fn output(&self, step: &str) -> Output<'_> {
        self.scope.output(step)
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.scope.env(name)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.scope.meta(meta)
    }

    fn item(&self, name: &str) -> Option<&Value> {
        self.each?.variable(self.item, name)
    }
}
