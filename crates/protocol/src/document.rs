//! Documents in JSON or YAML: bytes to a value, or a refusal that names the fault and its place.
//!
//! The server reads requests with this module, the command line reads the files that it is given.

pub mod json;
pub mod yaml;

use callboard_domain::Error;
use serde_json::Value;

/// The notation of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2, limited to the values that JSON has.
    Yaml,
}

/// Reads a document. Equal documents of both formats give the same value.
///
/// # Errors
///
/// [`Error::InvalidJson`], [`Error::InvalidYaml`].
pub fn parse(bytes: &[u8], format: Format) -> Result<Value, Error> {
    match format {
        Format::Json => json::parse(bytes),
        Format::Yaml => yaml::parse(bytes),
    }
}
