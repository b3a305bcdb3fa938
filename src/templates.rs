//! The templates that come with the program.
//!
//! The templates are files like a user's, read by the same code.

use callboard_domain::template::Template;
use callboard_wire::read::Format;
use callboard_wire::templates::source_from;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../config/templates/", $name)))),*]
    };
}

/// The files of config/templates and their content.
const FILES: &[(&str, &str)] = embedded![
    "contract-review-v1.yaml",
    "financial-analysis-v1.yaml",
    "due-diligence-v1.yaml",
    "risk-assessment-v1.yaml",
    "extraction-v1.yaml",
    "support-reply-v1.yaml",
    // Executions of earlier versions go on with their own version.
    "earlier/contract-review-1.0.0.yaml",
    "earlier/financial-analysis-1.0.0.yaml",
    "earlier/due-diligence-1.0.0.yaml",
    "earlier/risk-assessment-1.0.0.yaml",
];

/// A file that holds no template.
#[derive(Debug, thiserror::Error)]
#[error("config/templates/{file}: {fault}")]
pub struct Faulty {
    file: &'static str,
    fault: callboard_domain::Error,
}

/// All built-in templates, compiled.
///
/// # Errors
/// The first invalid one, and its fault.
pub fn built_in(env_allow: &[String]) -> Result<Vec<Template>, Faulty> {
    let load = |&(file, text): &(&'static str, &str)| {
        let source = source_from(text.as_bytes(), Format::Yaml);
        let template = source.and_then(|source| Ok(Template::compile(source, env_allow)?));
        template.map_err(|fault| Faulty { file, fault })
    };
    FILES.iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use callboard_domain::fuel::Fuel;
    use callboard_domain::schema;
    use callboard_domain::template::Overrides;
    use serde_json::{Map, Value, json};

    use super::*;

    struct Expected {
        id: &'static str,
        industry: &'static str,
        steps: &'static [&'static str],
        held: &'static [&'static str],
        threshold: f64,
        cost: f64,
        duration_ms: u64,
        required: &'static [&'static str],
        optional: &'static [&'static str],
        choices: Value,
        defaults: Value,
    }

    /// The templates by name, and what each contains.
    fn expected() -> [Expected; 5] {
        [
            Expected {
                id: "contract-review-v1",
                industry: "legal",
                steps: &["extract", "analyze-risk", "check-compliance", "generate-report"],
                held: &["analyze-risk"],
                threshold: 0.85,
                cost: 0.04,
                duration_ms: 45_000,
                required: &["contract"],
                optional: &["jurisdiction", "reviewDepth"],
                choices: json!({"reviewDepth": ["quick", "standard", "comprehensive"]}),
                defaults: json!({"jurisdiction": "United States", "reviewDepth": "standard"}),
            },
            Expected {
                id: "financial-analysis-v1",
                industry: "finance",
                steps: &[
                    "parse-statements",
                    "calculate-ratios",
                    "trend-analysis",
                    "peer-comparison",
                    "analyst-report",
                ],
                held: &["analyst-report"],
                threshold: 0.85,
                cost: 0.045,
                duration_ms: 60_000,
                required: &["financialStatements", "companyName", "fiscalYear"],
                optional: &["industry", "peers", "analysisType"],
                choices: json!({"analysisType": ["quick", "comprehensive"]}),
                defaults: json!({"analysisType": "comprehensive"}),
            },
            Expected {
                id: "due-diligence-v1",
                industry: "finance",
                steps: &[
                    "company-profile",
                    "financial-review",
                    "legal-review",
                    "market-analysis",
                    "risk-matrix",
                    "synergies",
                    "dd-report",
                ],
                held: &["risk-matrix", "dd-report"],
                threshold: 0.9,
                cost: 0.089,
                duration_ms: 135_000,
                required: &["targetCompany", "companyDescription", "dealType", "industry"],
                optional: &["financialData", "dealSize", "acquirerName", "specificConcerns"],
                choices: json!({"dealType": ["acquisition", "investment", "partnership", "ipo"]}),
                defaults: json!({}),
            },
            Expected {
                id: "risk-assessment-v1",
                industry: "finance",
                steps: &["data-extraction", "risk-identification", "risk-scoring", "risk-report"],
                held: &["risk-scoring"],
                threshold: 0.85,
                cost: 0.038,
                duration_ms: 45_000,
                required: &["entityName", "entityType"],
                optional: &[
                    "financialData",
                    "exposureData",
                    "marketData",
                    "riskCategories",
                    "timeHorizon",
                ],
                choices: json!({
                    "entityType": ["company", "portfolio", "transaction", "counterparty"],
                    "timeHorizon": ["30d", "90d", "1y", "3y"],
                }),
                defaults: json!({"timeHorizon": "1y"}),
            },
            Expected {
                id: "extraction-v1",
                industry: "custom",
                steps: &["extract"],
                held: &[],
                threshold: 0.8,
                cost: 0.02,
                duration_ms: 30_000,
                required: &["documents", "fields"],
                optional: &["kind"],
                choices: json!({}),
                defaults: json!({"kind": ""}),
            },
        ]
    }

    #[test]
    fn the_built_in_templates_are_those_of_the_specification() {
        let templates = built_in(&[]).expect("they are valid");
        assert_eq!(templates.len(), FILES.len());
        for (template, expected) in templates.iter().zip(expected()) {
            let (source, id) = (template.source(), expected.id);
            assert_eq!(template.id(), id);
            let version = if id == "extraction-v1" { "1.0.0" } else { "1.1.0" };
            assert_eq!(template.version().to_string(), version);
            assert_eq!(template.industry().as_str(), expected.industry);
            assert_eq!(template.visibility().as_str(), "public");
            let steps: Vec<_> = source.steps.iter().map(|step| step.id.as_str()).collect();
            assert_eq!(steps, expected.steps);
            assert_eq!(template.hitl_steps(), expected.held);
            let hitl = source.hitl.as_ref().expect("it has gates");
            assert_eq!(hitl.confidence_threshold, Some(expected.threshold), "{id}");
            assert_eq!(hitl.timeout_ms, Some(3_600_000), "{id}");
            assert_eq!(template.declared_cost(), Some(expected.cost), "{id}");
            assert_eq!(template.declared_duration_ms(), Some(expected.duration_ms), "{id}");
            let properties = &source.input_schema["properties"];
            let fields = properties.as_object().expect("it declares fields");
            let all: Vec<_> = expected.required.iter().chain(expected.optional).collect();
            assert_eq!(fields.len(), all.len(), "{id}");
            assert!(all.iter().all(|field| fields.contains_key(**field)), "{id}");
            assert_eq!(source.input_schema["required"], json!(expected.required), "{id}");
            for (field, choices) in expected.choices.as_object().expect("an object") {
                assert_eq!(&properties[field]["enum"], choices, "{id} {field}");
            }
            for (field, default) in expected.defaults.as_object().expect("an object") {
                assert_eq!(&properties[field]["default"], default, "{id} {field}");
            }
        }
    }

    #[test]
    fn every_step_of_the_newest_versions_has_an_output_schema() {
        let templates = built_in(&[]).expect("they are valid");
        for template in templates.iter().take(5) {
            let deployed = template.deploy(&Overrides::default(), &[]).expect("it deploys");
            let last = deployed.plan.steps().len() - 1;
            for (number, step) in deployed.plan.steps().iter().enumerate() {
                let of_template = template.output_schema().filter(|_| number == last);
                let schema = step.output_schema().or(of_template);
                assert!(schema.is_some(), "{} {}", template.id(), step.id());
                let schema = schema.expect("it has one");
                let mut fuel = Fuel::new(schema::FUEL);
                let example = schema.example(&mut fuel).expect("it has a short value");
                let checked = schema.check_output(&example.to_string(), &mut fuel);
                assert_eq!(checked, Ok(Ok(None)), "{} {}", template.id(), step.id());
            }
        }
    }

    #[test]
    fn every_sample_is_taken_by_its_template() {
        for template in built_in(&[]).expect("they are valid") {
            let path = format!(
                "{}/config/templates/samples/{}.json",
                env!("CARGO_MANIFEST_DIR"),
                template.id()
            );
            let sample = std::fs::read(path).expect("there is a sample");
            let sample: Map<String, Value> = serde_json::from_slice(&sample).expect("an object");
            let (schema, mut fuel) = (template.input_schema(), Fuel::new(schema::FUEL));
            let sample = schema.with_defaults(sample, &mut fuel).expect("the fuel lasts");
            let sample = Value::Object(sample);
            assert_eq!(schema.check_input(&sample, &mut fuel), Ok(Ok(())), "{}", template.id());
            let refused = schema.check_input(&Value::Object(Map::new()), &mut fuel);
            assert!(matches!(refused, Ok(Err(_))), "{} has required fields", template.id());
        }
    }
}
