//! `callboard templates validate`: the server's own checks, without the server.
//!
//! Deliberately absent: checks that need a server, such as whether the version exists already.

use std::path::Path;

use callboard_domain::Error;
use callboard_domain::problem::{Problem, Problems};
use callboard_domain::template::Template;
use callboard_protocol::document::Format;
use serde_json::json;

use crate::access::Access;
use crate::failure::{Failure, Fault};
use crate::input::{bytes, format, invalid, named};
use crate::output::details;

/// The server's check of a template: the text of a file, and the environment variables that the template
/// may read. Every fault is one of [`Error::InvalidDefinition`].
pub type ValidateTemplate = fn(&[u8], Format, &[String]) -> Result<Template, Error>;

/// Checks the template in a file.
pub(super) fn run(
    access: &Access,
    file: &Path,
    env_allow: &[String],
    validate: ValidateTemplate,
) -> Result<(), Failure> {
    let text = bytes(file)?;
    let refused = |error| {
        if let Error::InvalidDefinition(problems) = &error {
            return faulty(file, problems);
        }
        invalid(file, error)
    };
    let template = validate(&text, format(file, &text), env_allow).map_err(refused)?;
    let steps: Vec<_> = template.source().steps.iter().map(|step| step.id.as_str()).collect();
    let found = json!({
        "valid": true,
        "id": template.id(),
        "version": template.version().to_string(),
        "steps": steps,
        "hitlSteps": template.hitl_steps(),
    });
    access.output.item(&found, |found| {
        let fields = ["valid", "id", "version", "steps", "hitlSteps"].map(|name| (name, name));
        details(found, &fields, &[])
    })
}

fn faulty(file: &Path, problems: &Problems) -> Failure {
    let fault = |problem: &Problem| Fault {
        code: problem.code.as_str().to_owned(),
        field: problem.field.clone(),
        message: problem.message.clone(),
    };
    let faults: Vec<_> = problems.all().iter().map(fault).collect();
    let count = match faults.len() {
        1 => "a fault".to_owned(),
        count => format!("{count} faults"),
    };
    Failure::Invalid { what: format!("{} has {count}:", named(file)), faults }
}
