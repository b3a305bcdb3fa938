//! What another threshold would have let pass.
//!
//! Deliberately absent: a table; the figures are shown as they come.

use serde_json::Value;

use crate::cli::access::Access;
use crate::cli::failure::Failure;

/// Shows the figures.
pub(super) fn show(access: &Access, data: &Value) -> Result<(), Failure> {
    access.output.item(data, |data| format!("{data:#}\n"))
}
