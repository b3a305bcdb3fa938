//! The shape of a task's output: its schema, and the source of its confidence.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::input::{self, Body};

/// The requirements on the output.
#[derive(Debug, Clone, Args)]
pub(super) struct Shape {
    /// File with the JSON Schema of the output, in JSON or YAML.
    #[arg(long, value_name = "FILE")]
    output_schema: Option<PathBuf>,
    /// Source of the confidence: auto (by default), logprobs, samples, judge or none.
    #[arg(long, value_name = "METHOD")]
    confidence: Option<String>,
    /// Number of samples besides the answer, or of a judge's verdicts: 2 to 9; by default 3.
    #[arg(long, value_name = "N", requires = "confidence")]
    samples: Option<u8>,
    /// Field of the output that samples must agree on; may be given several times.
    #[arg(long = "confidence-field", value_name = "NAME", requires = "confidence")]
    fields: Vec<String>,
    /// The model that judges.
    #[arg(long, value_name = "MODEL", requires = "confidence")]
    judge: Option<String>,
    /// Criteria for the judge.
    #[arg(long, value_name = "TEXT", requires = "judge")]
    rubric: Option<String>,
}

impl Shape {
    /// Adds the given options to a task.
    pub(super) fn add_to(&self, task: Body) -> Result<Body, Failure> {
        let schema = self.output_schema.as_deref().map(input::document).transpose()?;
        let confidence = Body::default()
            .set("method", self.confidence.as_deref())
            .set("n", self.samples)
            .list("fields", &self.fields)
            .set("judgeModel", self.judge.as_deref())
            .set("rubric", self.rubric.as_deref());
        Ok(task.set("outputSchema", schema).object("confidence", confidence))
    }
}
