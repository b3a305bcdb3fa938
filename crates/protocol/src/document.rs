//! Documents in JSON or YAML: bytes to a value, or a refusal that says what is wrong and where.
//!
//! The server reads requests this way, the command line the files that it is given. Deliberately absent:
//! the meaning of a document.

pub mod json;
pub mod yaml;

use callboard_domain::Error;
use serde_json::Value;

/// The notation of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2, of which only what JSON can say.
    Yaml,
}

/// Reads a document. The same value comes of both formats.
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
