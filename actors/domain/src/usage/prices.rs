//! The price table: parsing, look-up of a model, and the cost of a call.
//!
//! Deliberately absent: prices of batches, images, audio and tools.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Tokens, Usage};
use crate::function::Work;
use crate::task::ServiceTier;

/// The output that a reservation assumes for a model without a known maximum, in tokens.
const ASSUMED_MAX_OUTPUT_TOKENS: u64 = 4096;

const INPUT: &str = "input_cost_per_token";

/// Prices in USD per token, for one range of prompt lengths.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Per token of the prompt.
    pub input: f64,
    /// Per token of the output.
    pub output: f64,
    /// Per token of the prompt read from the provider's cache.
    pub cache_read: f64,
    /// Per token of the prompt written to the provider's cache.
    pub cache_write: f64,
}

/// The entry of one model, which may hold the model's limits without a price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Price {
    rates: Option<Rates>,
    /// (prompt tokens, the rates of a call with more prompt tokens than these), ascending.
    tiers: Vec<(u64, Rates)>,
    /// The rates of the service tier `flex`.
    flex: Option<Rates>,
    /// The rates of the service tier `priority`.
    priority: Option<Rates>,
    /// The longest output that the model generates, in tokens.
    pub max_output_tokens: Option<u64>,
}

/// The entry of a function, whose cost its worker reports.
static NO_TOKENS: Price = Price {
    rates: Some(Rates { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 }),
    tiers: Vec::new(),
    flex: None,
    priority: None,
    max_output_tokens: None,
};

/// A fault of a price table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PricesError {
    /// The text is not a JSON object.
    #[error("the price table is not a JSON object: {0}")]
    NotAnObject(String),
    /// A model's price is negative or not finite.
    #[error("the price {member} of model {model} must be a finite number of at least 0")]
    NotAnAmount {
        /// The model's name in the table.
        model: String,
        /// The member that holds the price.
        member: String,
    },
}

/// Prices by model name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices {
    models: BTreeMap<String, Price>,
}

impl Prices {
    /// Reads a table in `LiteLLM`'s format. Unknown members are ignored, and so are values that are
    /// not numbers (the texts of that file's `sample_spec`).
    ///
    /// # Errors
    /// The text is not a JSON object, or a price is negative or not finite.
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let table: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| PricesError::NotAnObject(error.to_string()))?;
        let mut models = BTreeMap::new();
        for (model, entry) in &table {
            if let (Value::Object(entry), false) = (entry, model == "sample_spec") {
                models.insert(model.clone(), Price::read(model, entry)?);
            }
        }
        Ok(Self { models })
    }

    /// The entry of a model: by its exact name, then with one provider prefix after the other removed
    /// (`openrouter/openai/gpt-5`, `openai/gpt-5`, `gpt-5`). A function's tokens cost nothing.
    #[must_use]
    pub fn get(&self, model: &str) -> Option<&Price> {
        if let Work::Function(_) = Work::of(model) {
            return Some(&NO_TOKENS);
        }
        let mut name = model;
        loop {
            if let Some(price) = self.models.get(name) {
                return Some(price);
            }
            name = name.split_once('/')?.1;
        }
    }

    /// The usage of a call. A model without a price has the cost 0 and `price_unknown` set.
    #[must_use]
    pub fn usage(&self, model: &str, tokens: Tokens) -> Usage {
        self.usage_in(model, None, tokens)
    }

    /// The usage of a call in a service tier.
    #[must_use]
    pub fn usage_in(&self, model: &str, tier: Option<ServiceTier>, tokens: Tokens) -> Usage {
        let rates = self.get(model).and_then(|price| price.rates_in(tier, tokens.input));
        Usage {
            input: tokens.input,
            output: tokens.output,
            total_cost: rates.map_or(0.0, |rates| rates.cost(tokens)),
            price_unknown: rates.is_none(),
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
        }
    }

    /// The highest cost that a call can have, in USD: the whole prompt at the highest input rate, and
    /// an output of `max_tokens`, or else the model's longest. `None` without a price.
    #[must_use]
    pub fn worst_case(
        &self,
        model: &str,
        prompt_tokens: u64,
        max_tokens: Option<u64>,
    ) -> Option<f64> {
        self.worst_case_in(model, None, prompt_tokens, max_tokens)
    }

    /// The highest cost of a call for which a service tier is asked. A provider may give the usual
    /// tier instead, so the dearer of both counts.
    #[must_use]
    pub fn worst_case_in(
        &self,
        model: &str,
        tier: Option<ServiceTier>,
        prompt_tokens: u64,
        max_tokens: Option<u64>,
    ) -> Option<f64> {
        let price = self.get(model)?;
        let usual = price.worst_case(None, prompt_tokens, max_tokens)?;
        Some(usual.max(price.worst_case(tier, prompt_tokens, max_tokens)?))
    }
}

impl Price {
    fn worst_case(
        &self,
        tier: Option<ServiceTier>,
        prompt_tokens: u64,
        max_tokens: Option<u64>,
    ) -> Option<f64> {
        let rates = self.rates_in(tier, prompt_tokens)?;
        let output = max_tokens.or(self.max_output_tokens).unwrap_or(ASSUMED_MAX_OUTPUT_TOKENS);
        let input_rate = rates.input.max(rates.cache_write).max(rates.cache_read);
        Some(amount(prompt_tokens, input_rate) + amount(output, rates.output))
    }

    /// The rates in a service tier. `flex` without a price of its own costs as much as usual;
    /// `priority`, which is dearer, has then no price, unless the model costs nothing. A long prompt
    /// pays at least the rates of its length: the table has none for both together.
    #[must_use]
    pub fn rates_in(&self, tier: Option<ServiceTier>, prompt_tokens: u64) -> Option<Rates> {
        let usual = self.rates(prompt_tokens);
        let is_long = usual != self.rates;
        match tier {
            Some(ServiceTier::Flex) => {
                usual.map(|usual| self.flex.filter(|_| !is_long).unwrap_or(usual))
            }
            Some(ServiceTier::Priority) => match (self.priority, usual) {
                (Some(priority), Some(usual)) if is_long => Some(priority.dearer(usual)),
                (Some(priority), _) => Some(priority),
                (None, usual) => usual.filter(|usual| *usual == Rates::default()),
            },
            Some(ServiceTier::Auto) | None => usual,
        }
    }

    /// The rates of a call whose prompt has this many tokens; `None` without a price.
    #[must_use]
    pub fn rates(&self, prompt_tokens: u64) -> Option<Rates> {
        let tier = self.tiers.iter().rev().find(|(above, _)| prompt_tokens > *above);
        tier.map(|(_, rates)| *rates).or(self.rates)
    }

    fn read(model: &str, entry: &Map<String, Value>) -> Result<Self, PricesError> {
        let mut tiers = Vec::new();
        for (thousands, suffix) in entry.keys().filter_map(|member| tier(member)) {
            let rates = Rates::read(model, entry, suffix)?;
            tiers.extend(rates.map(|rates| (thousands.saturating_mul(1000), rates)));
        }
        tiers.sort_by_key(|(above, _)| *above);
        Ok(Self {
            rates: Rates::read(model, entry, "")?,
            tiers,
            flex: Rates::read(model, entry, "_flex")?,
            priority: Rates::read(model, entry, "_priority")?,
            max_output_tokens: entry.get("max_output_tokens").and_then(Value::as_u64),
        })
    }
}

impl Rates {
    /// The higher of each.
    fn dearer(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }

    /// The cost in USD of a call at these rates.
    #[must_use]
    pub fn cost(&self, tokens: Tokens) -> f64 {
        let cached = tokens.cache_read.saturating_add(tokens.cache_write);
        amount(tokens.input.saturating_sub(cached), self.input)
            + amount(tokens.cache_read, self.cache_read)
            + amount(tokens.cache_write, self.cache_write)
            + amount(tokens.output, self.output)
    }

    /// Reads the members that end in `suffix`; `None` unless both input and output have a price. A
    /// cache without a price costs as much as the input.
    fn read(
        model: &str,
        entry: &Map<String, Value>,
        suffix: &str,
    ) -> Result<Option<Self>, PricesError> {
        let price = |name: &str| {
            let member = format!("{name}{suffix}");
            match entry.get(&member).and_then(Value::as_f64) {
                Some(price) if price < 0.0 || !price.is_finite() => {
                    Err(PricesError::NotAnAmount { model: model.to_owned(), member })
                }
                price => Ok(price),
            }
        };
        let (Some(input), Some(output)) = (price(INPUT)?, price("output_cost_per_token")?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            input,
            output,
            cache_read: price("cache_read_input_token_cost")?.unwrap_or(input),
            cache_write: price("cache_creation_input_token_cost")?.unwrap_or(input),
        }))
    }
}

/// (thousands of tokens, suffix) of a member such as `input_cost_per_token_above_200k_tokens`.
fn tier(member: &str) -> Option<(u64, &str)> {
    let suffix = member.strip_prefix(INPUT)?;
    let thousands = suffix.strip_prefix("_above_")?.strip_suffix("k_tokens")?;
    Some((thousands.parse().ok()?, suffix))
}

#[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
fn amount(tokens: u64, rate: f64) -> f64 {
    tokens as f64 * rate
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = r#"{
        "sample_spec": {"input_cost_per_token": -1, "max_tokens": "an explanation"},
        "gpt": {"input_cost_per_token": 0.000002, "output_cost_per_token": 8e-6,
                "cache_read_input_token_cost": 5e-7, "max_output_tokens": 1000, "mode": "chat"},
        "long": {"input_cost_per_token": 1, "output_cost_per_token": 2,
                 "input_cost_per_token_above_200k_tokens": 10, "output_cost_per_token_above_200k_tokens": 20,
                 "input_cost_per_token_above_200k_tokens_priority": 99},
        "openai/only": {"input_cost_per_token": 3, "output_cost_per_token": 3},
        "image": {"output_cost_per_image": 0.04, "max_input_tokens": 7},
        "local": {"input_cost_per_token": 0, "output_cost_per_token": 0}
    }"#;

    fn table() -> Prices {
        Prices::parse(TABLE).unwrap()
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, output, ..Tokens::default() }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn a_call_costs_its_tokens_at_the_models_rates() {
        let usage = table().usage("gpt", tokens(1_000_000, 500_000));
        assert!(close(usage.total_cost, 6.0), "{usage:?}");
        assert!(!usage.price_unknown);
    }

    #[test]
    fn cached_tokens_cost_their_own_price_and_are_not_paid_twice() {
        let cached = Tokens { cache_read: 400_000, cache_write: 100_000, ..tokens(1_000_000, 0) };
        assert!(close(table().usage("gpt", cached).total_cost, 1.0 + 0.2 + 0.2));
    }

    #[test]
    fn a_service_tier_has_its_own_price() {
        use ServiceTier::{Auto, Flex, Priority};
        let table = r#"{
            "m": {"input_cost_per_token": 2, "output_cost_per_token": 4,
                  "input_cost_per_token_flex": 1, "output_cost_per_token_flex": 2,
                  "input_cost_per_token_priority": 3, "output_cost_per_token_priority": 6,
                  "cache_read_input_token_cost_priority": 0.5},
            "plain": {"input_cost_per_token": 2, "output_cost_per_token": 4},
            "local": {"input_cost_per_token": 0, "output_cost_per_token": 0}
        }"#;
        let table = Prices::parse(table).unwrap();
        let call = Tokens { cache_read: 10, ..tokens(20, 1) };
        let cost = |model, tier| table.usage_in(model, tier, call);
        assert!(close(cost("m", None).total_cost, 44.0));
        assert!(close(cost("m", Some(Auto)).total_cost, 44.0));
        assert!(close(cost("m", Some(Flex)).total_cost, 22.0));
        assert!(close(cost("m", Some(Priority)).total_cost, 30.0 + 5.0 + 6.0));
        assert!(close(cost("plain", Some(Flex)).total_cost, 44.0));
        assert!(cost("plain", Some(Priority)).price_unknown);
        assert!(!cost("local", Some(Priority)).price_unknown);
        assert_eq!(table.worst_case_in("m", Some(Flex), 10, Some(1)), Some(24.0));
        assert_eq!(table.worst_case_in("m", Some(Priority), 10, Some(1)), Some(36.0));
        assert_eq!(table.worst_case_in("plain", Some(Priority), 10, Some(1)), None);
    }

    #[test]
    fn a_long_prompt_pays_the_rates_of_its_tier() {
        assert!(close(table().usage("long", tokens(200_000, 1)).total_cost, 200_002.0));
        assert!(close(table().usage("long", tokens(200_001, 1)).total_cost, 2_000_030.0));
    }

    #[test]
    fn a_model_without_a_price_costs_nothing_and_says_so() {
        for model in ["nobody/knows/it", "image", "sample_spec", ""] {
            let usage = table().usage(model, tokens(10, 10));
            assert_eq!((usage.total_cost, usage.price_unknown), (0.0, true), "{model}");
            assert_eq!(table().worst_case(model, 10, Some(10)), None, "{model}");
        }
        assert!(!table().usage("local", tokens(10, 10)).price_unknown);
    }

    #[test]
    fn a_model_is_found_by_its_exact_name_and_then_without_its_prefix() {
        let table = table();
        assert_eq!(table.get("openrouter/openai/only"), table.get("openai/only"));
        assert_eq!(table.get("azure/gpt"), table.get("gpt"));
        assert_eq!(table.get("only"), None);
        assert_eq!(table.get("gpt/"), None);
    }

    #[test]
    fn a_reservation_without_max_tokens_assumes_the_models_longest_output() {
        let limited = table().worst_case("gpt", 1000, Some(10)).unwrap();
        assert!(close(limited, 0.002 + 0.000_08), "{limited}");
        let unlimited = table().worst_case("gpt", 1000, None).unwrap();
        assert!(close(unlimited, 0.002 + 0.008), "{unlimited}");
        let unknown_limit = table().worst_case("long", 0, None).unwrap();
        assert!(close(unknown_limit, 8192.0), "{unknown_limit}");
    }

    #[test]
    fn a_table_that_is_not_an_object_or_has_a_negative_price_is_refused() {
        assert!(matches!(Prices::parse("[]"), Err(PricesError::NotAnObject(_))));
        let negative = r#"{"m": {"input_cost_per_token": -1, "output_cost_per_token": 1}}"#;
        assert_eq!(
            Prices::parse(negative).unwrap_err().to_string(),
            "the price input_cost_per_token of model m must be a finite number of at least 0"
        );
    }

    #[test]
    fn the_shipped_table_parses_and_prices_every_model_in_it() {
        let text = include_str!("../../../../config/models.json");
        let shipped = Prices::parse(text).unwrap();
        assert!(shipped.models.len() > 80);
        for (model, price) in &shipped.models {
            assert!(price.rates(1).is_some(), "{model}");
        }
        let free = shipped.usage("smollm2-135m", tokens(1000, 1000));
        assert_eq!((free.total_cost, free.price_unknown), (0.0, false));
        assert!(shipped.usage("anthropic/claude-sonnet-4-6", tokens(1, 1)).total_cost > 0.0);
    }

    proptest! {
        #[test]
        fn no_call_costs_more_than_was_reserved_for_it(
            prompt in 0_u64..300_000, max in 0_u64..10_000,
            read in 0.0_f64..1.0, used in 0.0_f64..1.0, model in prop::sample::select(vec!["gpt", "long"])
        ) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small shares of small numbers")]
            let share = |whole: u64, part: f64| (whole as f64 * part) as u64;
            let call = Tokens { cache_read: share(prompt, read), ..tokens(prompt, share(max, used)) };
            let reserved = table().worst_case(model, prompt, Some(max)).unwrap();
            prop_assert!(table().usage(model, call).total_cost <= reserved + 1e-9);
        }
    }
}
