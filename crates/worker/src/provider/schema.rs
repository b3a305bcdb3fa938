//! Output schemas as providers take them: the keywords that they enforce, the rest left out.
//!
//! A reduced schema accepts every value that the whole one accepts, but for members that the whole one does
//! not declare: strict dialects want every object closed. The server validates the output against the
//! whole schema. Deliberately absent: references to anchors and identifiers, which no dialect takes.

mod inline;

use serde_json::{Map, Value, json};

pub(super) use inline::inlined;

/// The keywords of a provider's dialect, besides those of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `OpenAI`'s structured outputs with `strict`: every object closed, every property required
    /// (<https://platform.openai.com/docs/guides/structured-outputs>, "Supported schemas").
    OpenAi,
    /// Anthropic's `output_config.format`: every object closed, no bounds
    /// (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs>, "JSON Schema
    /// limitations").
    Anthropic,
}

/// A schema in a provider's dialect.
#[derive(Debug, PartialEq)]
pub(super) struct Reduced {
    pub(super) schema: Value,
    /// True if the provider can enforce it.
    pub(super) is_strict: bool,
}

/// The schema with the keywords of the dialect alone.
pub(super) fn reduced(schema: &Value, dialect: Dialect) -> Reduced {
    let mut reducing = Reducing { dialect, is_strict: true };
    let reduced = reducing.schema(schema);
    // The root of a strict schema is an object by itself, not by a choice or a reference.
    let is_strict = reducing.is_strict && reduced.get("type") == Some(&json!("object"));
    Reduced { schema: reduced, is_strict }
}

struct Reducing {
    dialect: Dialect,
    is_strict: bool,
}

impl Reducing {
    fn schema(&mut self, schema: &Value) -> Value {
        let Some(given) = schema.as_object() else {
            self.is_strict = false;
            return schema.clone();
        };
        let mut kept = Map::new();
        for (keyword, value) in given {
            match keyword.as_str() {
                "const" => drop(kept.insert("enum".into(), json!([value]))),
                // A value of one is a value of any.
                "oneOf" | "anyOf" => drop(kept.insert("anyOf".into(), self.schemas(value))),
                "items" => drop(kept.insert("items".into(), self.schema(value))),
                "properties" | "$defs" | "definitions" => {
                    kept.insert(keyword.clone(), self.members(value));
                }
                "$ref" => {
                    let is_root = value == "#";
                    let is_pointer = value.as_str().is_some_and(|to| to.starts_with("#/"));
                    // A definition that refers to itself is refused by a provider that takes none,
                    // which is then asked in another way.
                    self.is_strict &= is_pointer || is_root && self.dialect == Dialect::OpenAi;
                    kept.insert("$ref".into(), value.clone());
                }
                _ if self.keeps(keyword, value) => {
                    kept.insert(keyword.clone(), value.clone());
                }
                _ => {}
            }
        }
        self.close(given, &mut kept);
        self.is_strict &=
            ["type", "anyOf", "enum", "$ref"].iter().any(|key| kept.contains_key(*key));
        Value::Object(kept)
    }

    fn schemas(&mut self, list: &Value) -> Value {
        list.as_array().into_iter().flatten().map(|schema| self.schema(schema)).collect()
    }

    fn members(&mut self, schemas: &Value) -> Value {
        let members = schemas.as_object().into_iter().flatten();
        Value::Object(members.map(|(name, schema)| (name.clone(), self.schema(schema))).collect())
    }

    fn keeps(&self, keyword: &str, value: &Value) -> bool {
        match keyword {
            "type" | "enum" | "title" | "description" => true,
            "format" => {
                const FORMATS: [&str; 9] = [
                    "date-time",
                    "time",
                    "date",
                    "duration",
                    "email",
                    "hostname",
                    "ipv4",
                    "ipv6",
                    "uuid",
                ];
                value.as_str().is_some_and(|format| FORMATS.contains(&format))
            }
            // `OpenAI` takes no pattern that looks around.
            "pattern" => {
                let looks = ["(?=", "(?!", "(?<"];
                let pattern = value.as_str().unwrap_or_default();
                self.dialect == Dialect::OpenAi && !looks.iter().any(|sign| pattern.contains(sign))
            }
            "multipleOf" | "maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum"
            | "maxItems" => self.dialect == Dialect::OpenAi,
            "minItems" => {
                self.dialect == Dialect::OpenAi || value.as_u64().is_some_and(|least| least <= 1)
            }
            _ => false,
        }
    }

    /// Closes an object, if that leaves any value valid; an object without declared members is
    /// open, and no strict dialect takes it.
    fn close(&mut self, given: &Map<String, Value>, kept: &mut Map<String, Value>) {
        let is = |name: &str| match given.get("type") {
            Some(Value::Array(types)) => types.iter().any(|of| of == name),
            Some(of) => of == name,
            None => false,
        };
        if is("array") && !kept.contains_key("items") {
            self.is_strict = false;
        }
        if !is("object") && !kept.contains_key("properties") {
            return;
        }
        let names: Vec<String> = match kept.get("properties").and_then(Value::as_object) {
            Some(properties) => properties.keys().cloned().collect(),
            None => Vec::new(),
        };
        let required: Vec<&str> = match given.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        };
        let is_open = given.get("additionalProperties").is_some_and(Value::is_object)
            || given.contains_key("patternProperties");
        let undeclared = required.iter().any(|name| !names.iter().any(|known| known == name));
        let optional = names.iter().any(|name| !required.contains(&name.as_str()));
        let needs_all = self.dialect == Dialect::OpenAi;
        self.is_strict &= !(is_open || undeclared || names.is_empty() || needs_all && optional);
        kept.insert("required".into(), json!(required));
        kept.insert("additionalProperties".into(), json!(false));
    }
}

/// True for any object: a schema that declares nothing. A closed one would be the empty object, and a
/// tool without members is called without any.
pub(super) fn is_any_object(schema: &Value) -> bool {
    const WORDS: [&str; 4] = ["$schema", "title", "description", "additionalProperties"];
    let is_free = |(keyword, value): (&String, &Value)| {
        keyword == "type" && value == "object"
            || WORDS.contains(&keyword.as_str()) && value != false && !value.is_object()
    };
    schema.get("type").is_some() && schema.as_object().is_some_and(|it| it.iter().all(is_free))
}

/// The system message that asks for the schema where the provider cannot enforce it.
pub(super) fn instruction(schema: &Value) -> String {
    format!(
        "Answer with JSON that matches this JSON Schema, and with nothing else: no explanation, no \
         code fence.\n{schema}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_schema_is_strict_and_keeps_what_the_dialect_enforces() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["score", "level"],
            "properties": {
                "score": {"type": "number", "minimum": 0, "maximum": 10},
                "level": {"oneOf": [{"const": "low"}, {"const": "high"}]},
            },
            "minProperties": 2,
        });
        let openai = reduced(&schema, Dialect::OpenAi);
        let expected = json!({
            "type": "object",
            "required": ["score", "level"],
            "properties": {
                "score": {"type": "number", "minimum": 0, "maximum": 10},
                "level": {"anyOf": [{"enum": ["low"]}, {"enum": ["high"]}]},
            },
            "additionalProperties": false,
        });
        assert_eq!(openai, Reduced { schema: expected, is_strict: true });
        let anthropic = reduced(&schema, Dialect::Anthropic);
        assert_eq!(anthropic.schema["properties"]["score"], json!({"type": "number"}));
        assert!(anthropic.is_strict);
    }

    #[test]
    fn an_optional_member_is_strict_for_anthropic_alone() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert!(!reduced(&schema, Dialect::OpenAi).is_strict);
        assert!(reduced(&schema, Dialect::Anthropic).is_strict);
    }

    #[test]
    fn what_no_dialect_can_say_is_not_strict() {
        for schema in [
            json!({"type": "number"}),
            json!({"type": "object"}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {}}}),
            json!({"type": "object", "required": ["a"], "properties": {"a": true}}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "array"}}}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#leaf"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {"type": "null"}}}),
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
        ] {
            assert!(!reduced(&schema, Dialect::OpenAi).is_strict, "{schema}");
            assert!(!reduced(&schema, Dialect::Anthropic).is_strict, "{schema}");
        }
    }

    #[test]
    fn an_object_of_any_members_is_known() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "title": "T", "additionalProperties": true}),
        ] {
            assert!(is_any_object(&schema), "{schema}");
        }
        for schema in [
            json!({}),
            json!({"type": "array"}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "object", "properties": {}}),
        ] {
            assert!(!is_any_object(&schema), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_strict_for_openai_alone() {
        let schema = json!({
            "type": "object",
            "required": ["next"],
            "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        });
        assert!(reduced(&schema, Dialect::OpenAi).is_strict);
        assert!(!reduced(&schema, Dialect::Anthropic).is_strict);
    }
}
