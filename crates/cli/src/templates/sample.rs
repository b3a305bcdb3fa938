//! The invented inputs that come with the built-in templates.

use serde_json::{Map, Value};

use crate::failure::Failure;

const SAMPLES: [(&str, &str); 6] = [
    (
        "contract-review-v1",
        include_str!("../../../../config/templates/samples/contract-review-v1.json"),
    ),
    (
        "due-diligence-v1",
        include_str!("../../../../config/templates/samples/due-diligence-v1.json"),
    ),
    ("extraction-v1", include_str!("../../../../config/templates/samples/extraction-v1.json")),
    (
        "financial-analysis-v1",
        include_str!("../../../../config/templates/samples/financial-analysis-v1.json"),
    ),
    (
        "risk-assessment-v1",
        include_str!("../../../../config/templates/samples/risk-assessment-v1.json"),
    ),
    (
        "support-reply-v1",
        include_str!("../../../../config/templates/samples/support-reply-v1.json"),
    ),
];

/// The sample for a template.
pub(super) fn of(id: &str) -> Result<Map<String, Value>, Failure> {
    let Some((_, text)) = SAMPLES.iter().find(|(name, _)| *name == id) else {
        let known: Vec<_> = SAMPLES.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        let fault = format!("there is no sample for {id}, only for {known}; give it an --input");
        return Err(Failure::Usage(fault));
    };
    Ok(serde_json::from_str(text).expect("the samples are JSON objects"))
}

/// The sample's path in the source.
pub(super) fn path(id: &str) -> String {
    format!("config/templates/samples/{id}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_an_object() {
        for (id, _) in SAMPLES {
            assert!(!of(id).unwrap().is_empty(), "{id}");
        }
        assert_eq!(of("mine-v1").unwrap_err().exit_code(), 2);
    }
}
