//! The prices of models, which may change while the system runs, and what a call may cost.

use std::sync::{Arc, PoisonError, RwLock};

use callboard_domain::budget::Money;
use callboard_domain::confidence::ask::Expected;
use callboard_domain::task::{Called, Inputs};
use callboard_domain::usage::Prices;

/// The prices of models.
#[derive(Debug)]
pub(crate) struct CurrentPrices(RwLock<Arc<Prices>>);

impl CurrentPrices {
    pub(crate) fn new(prices: Arc<Prices>) -> Self {
        Self(RwLock::new(prices))
    }

    /// Other prices count from now on.
    pub(crate) fn set(&self, prices: Arc<Prices>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = prices;
    }

    /// The worst-case cost of an attempt of a task; `None` if one of its models has no price.
    pub(crate) fn worst_cost(
        &self,
        called: Called<'_>,
        inputs: &Inputs,
        max_tokens: Option<u64>,
    ) -> Option<Money> {
        // The provider counts a schema as a part of the prompt; without one, no answer has a fault.
        let schema = inputs.output_schema.as_ref();
        let called = if schema.is_some() { called } else { called.once() };
        let schema = schema.map_or(0, |schema| schema.length() as u64 / 4);
        let call = Expected { prompt: inputs.tokens().saturating_add(schema), max_tokens };
        let ask = inputs.confidence.as_deref();
        called.worst_case(call, ask, &self.get()).map(Money::from_usd)
    }

    /// The most tokens that a model can answer with, if the price table knows it.
    pub(crate) fn longest_output(&self, model: &str) -> Option<u64> {
        self.get().get(model).and_then(|price| price.max_output_tokens)
    }

    /// The prices of models.
    pub(crate) fn get(&self) -> Arc<Prices> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
