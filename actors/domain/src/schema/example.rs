//! The smallest value of a schema, for models that are none (docs/reference/sandbox.md).
//!
//! The value follows from the schema alone. Deliberately absent: `pattern`, `not`, `if` and
//! `uniqueItems`; a schema that needs them names a value in `default` or `examples`.

use serde_json::{Map, Value, json};

use super::MAX_DEPTH;
use super::refs::target;
use crate::fuel::{Fuel, OutOfFuel};

/// The fuel of a byte of the value: the smallest value of a schema has at most about a megabyte.
const BYTE: u64 = 4;

/// Builds one value, within its fuel.
pub(super) struct ExampleBuilder<'s, 'f> {
    pub(super) root: &'s Value,
    pub(super) fuel: &'f mut Fuel,
}

/// All schemas that apply to one value.
struct Applicable<'s>(Vec<&'s Map<String, Value>>);

impl<'s> Applicable<'s> {
    fn all(&self, keyword: &str) -> impl Iterator<Item = &'s Value> {
        self.0.iter().filter_map(move |schema| schema.get(keyword))
    }

    fn first(&self, keyword: &str) -> Option<&'s Value> {
        self.all(keyword).next()
    }

    /// The greatest of a lower bound's values.
    fn least(&self, keyword: &str) -> Option<f64> {
        self.all(keyword).filter_map(Value::as_f64).reduce(f64::max)
    }

    /// The least of an upper bound's values.
    fn most(&self, keyword: &str) -> Option<f64> {
        self.all(keyword).filter_map(Value::as_f64).reduce(f64::min)
    }

    fn count(&self, keyword: &str) -> usize {
        let counts = self.all(keyword).filter_map(Value::as_u64);
        counts.max().map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn kind(&self) -> &'s str {
        let named = self.all("type").find_map(|named| named.get(0).unwrap_or(named).as_str());
        let has = |keywords: &[&str]| keywords.iter().any(|keyword| self.first(keyword).is_some());
        named.unwrap_or_else(|| {
            if has(&["properties", "required", "additionalProperties", "minProperties"]) {
                "object"
            } else if has(&["items", "prefixItems", "contains", "minItems"]) {
                "array"
            } else if has(&["minimum", "maximum", "exclusiveMinimum", "multipleOf"]) {
                "number"
            } else {
                "string"
            }
        })
    }
}

impl<'s> ExampleBuilder<'s, '_> {
    pub(super) fn of(&mut self, schema: &'s Value, depth: usize) -> Result<Value, OutOfFuel> {
        if depth > MAX_DEPTH {
            return Err(OutOfFuel);
        }
        let mut schemas = Applicable(Vec::new());
        self.collect(schema, &mut schemas)?;
        let list = |keyword| schemas.first(keyword).and_then(|list| list.get(0));
        let named = ["const", "default"].into_iter().find_map(|keyword| schemas.first(keyword));
        if let Some(named) = named.or_else(|| list("enum")).or_else(|| list("examples")) {
            self.burn_for(named.to_string().len())?;
            return Ok(named.clone());
        }
        match schemas.kind() {
            "object" => self.object(&schemas, depth),
            "array" => self.array(&schemas, depth),
            "integer" => Ok(number(&schemas, 1.0)),
            "number" => Ok(number(&schemas, 0.0)),
            "boolean" => Ok(json!(false)),
            "null" => Ok(Value::Null),
            _ => self.text(&schemas),
        }
    }

    /// Burns the fuel of this many bytes of the value.
    fn burn_for(&mut self, bytes: usize) -> Result<(), OutOfFuel> {
        self.fuel.burn((bytes as u64).saturating_mul(BYTE))
    }

    /// The schema with those that it refers to, all of its `allOf`, and the first of each choice.
    fn collect(&mut self, schema: &'s Value, found: &mut Applicable<'s>) -> Result<(), OutOfFuel> {
        self.fuel.burn(100)?;
        let Some(own) = schema.as_object() else { return Ok(()) };
        if found.0.len() >= MAX_DEPTH || found.0.iter().any(|known| std::ptr::eq(*known, own)) {
            return Ok(());
        }
        found.0.push(own);
        for keyword in ["$ref", "$dynamicRef"] {
            if let Some(to) = own.get(keyword).and_then(Value::as_str)
                && let Some(schema) = target(self.root, to, self.fuel)?
            {
                self.collect(schema, found)?;
            }
        }
        for schema in own.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect(schema, found)?;
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(schema) = own.get(keyword).and_then(|choices| choices.get(0)) {
                self.collect(schema, found)?;
            }
        }
        Ok(())
    }

    /// The required members, and as many others as there must be.
    fn object(&mut self, schemas: &Applicable<'s>, depth: usize) -> Result<Value, OutOfFuel> {
        let declared: Vec<_> = schemas.all("properties").filter_map(Value::as_object).collect();
        let required = schemas.all("required").filter_map(Value::as_array).flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned);
        let mut members = Map::new();
        for name in required {
            let value = self.member(&declared, schemas, &name, depth)?;
            members.insert(name, value);
        }
        let allowed = schemas.first("propertyNames").and_then(|names| names.get("enum"));
        let allowed = allowed.and_then(Value::as_array).into_iter().flatten();
        let known = declared.iter().flat_map(|properties| properties.keys().map(String::as_str));
        let names = known.chain(allowed.filter_map(Value::as_str)).map(str::to_owned);
        let mut names = names.chain((1..).map(|number| format!("member{number}")));
        while members.len() < schemas.count("minProperties") {
            let Some(name) = names.next() else { break };
            if !members.contains_key(&name) {
                let value = self.member(&declared, schemas, &name, depth)?;
                members.insert(name, value);
            }
        }
        Ok(Value::Object(members))
    }

    fn member(
        &mut self,
        declared: &[&'s Map<String, Value>],
        schemas: &Applicable<'s>,
        name: &str,
        depth: usize,
    ) -> Result<Value, OutOfFuel> {
        self.burn_for(name.len())?;
        let own = declared.iter().find_map(|properties| properties.get(name));
        match own.or_else(|| schemas.first("additionalProperties")) {
            Some(schema) => self.of(schema, depth + 1),
            None => Ok(json!("simulated")),
        }
    }

    fn array(&mut self, schemas: &Applicable<'s>, depth: usize) -> Result<Value, OutOfFuel> {
        let first = schemas.first("prefixItems").and_then(Value::as_array);
        let (contains, items) = (schemas.first("contains"), schemas.first("items"));
        let count = schemas.count("minItems").max(usize::from(contains.is_some()));
        let mut values = Vec::new();
        while values.len() < count {
            let prefix = first.and_then(|first| first.get(values.len()));
            self.fuel.burn(1)?;
            let schema = prefix.or(contains).or(items).unwrap_or(&Value::Bool(true));
            values.push(self.of(schema, depth + 1)?);
        }
        Ok(Value::Array(values))
    }

    fn text(&mut self, schemas: &Applicable<'_>) -> Result<Value, OutOfFuel> {
        let format = schemas.first("format").and_then(Value::as_str);
        let text = match format.unwrap_or_default() {
            "date-time" => "2026-01-01T00:00:00Z",
            "date" => "2026-01-01",
            "time" => "00:00:00Z",
            "duration" => "P1D",
            "email" | "idn-email" => "simulated@example.com",
            "hostname" | "idn-hostname" => "example.com",
            "ipv4" => "192.0.2.1",
            "ipv6" => "2001:db8::1",
            "uri" | "uri-reference" | "iri" | "iri-reference" => "https://example.com/",
            "uuid" => "00000000-0000-4000-8000-000000000000",
            _ => "simulated",
        };
        let least = schemas.count("minLength");
        self.burn_for(least)?;
        let padding = "_".repeat(least.saturating_sub(text.chars().count()));
        let padded = format!("{text}{padding}");
        let most = schemas.most("maxLength").filter(|_| format.is_none());
        let Some(most) = most else { return Ok(json!(padded)) };
        let fits = |(_, number): &(char, u32)| f64::from(*number) <= most;
        let cut: String =
            padded.chars().zip(1..).take_while(fits).map(|(letter, _)| letter).collect();
        Ok(json!(cut))
    }
}

/// The number nearest to 0 from the lower bound on; a whole one if `step` is 1.
fn number(schemas: &Applicable<'_>, step: f64) -> Value {
    let step = schemas.most("multipleOf").unwrap_or(step);
    let above = schemas.least("exclusiveMinimum");
    let below = schemas.most("exclusiveMaximum");
    let least = above.into_iter().chain(schemas.least("minimum")).reduce(f64::max);
    let most = below.into_iter().chain(schemas.most("maximum")).reduce(f64::min);
    let is_open =
        |bound: Option<f64>, at: f64| bound.is_some_and(|bound| (bound - at).abs() == 0.0);
    let mut value = 0.0_f64.max(least.unwrap_or(0.0));
    if most.is_some_and(|most| most < value) {
        value = most.unwrap_or(value);
    }
    if step > 0.0 {
        value = if least.is_some_and(|least| least > 0.0) {
            (value / step).ceil() * step
        } else {
            (value / step).floor() * step
        };
    }
    if is_open(above, value) {
        let between = most.map_or(1.0, |most| (most - value) / 2.0);
        value += if step > 0.0 { step } else { between };
    } else if is_open(below, value) {
        let between = least.map_or(1.0, |least| (value - least) / 2.0);
        value -= if step > 0.0 { step } else { between };
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the range")]
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}
