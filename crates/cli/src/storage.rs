//! `callboard storage`: how much each kind of data takes.

use callboard_client::{Call, Page};
use serde_json::{Value, json};

use super::access::Access;
use super::failure::Failure;
use super::output::{Column, Format, status_line};

const COLUMNS: [Column; 4] =
    [("KIND", "name"), ("ROWS", "rows"), ("MB", "megabytes"), ("BYTES", "bytes")];

/// Runs the command.
pub(super) async fn run(access: &Access) -> Result<(), Failure> {
    let storage = access.client()?.data(Call::get(&["system", "storage"])).await?;
    if matches!(access.output.format(), Format::Json | Format::Jsonl) {
        return access.output.item(&storage, Value::to_string);
    }
    let mut kinds = storage["kinds"].as_array().cloned().unwrap_or_default();
    for kind in &mut kinds {
        let megabytes = kind["bytes"].as_f64().unwrap_or_default() / 1e6;
        kind["megabytes"] = json!(format!("{megabytes:.1}"));
    }
    let pagination = json!({"total": kinds.len(), "offset": 0, "hasMore": false});
    access.output.list("kinds of data", &Page { data: kinds, pagination }, &COLUMNS)?;
    if storage["complete"] == false {
        status_line("the server still measures: these are the figures so far; ask again");
    } else if storage["estimated"] == true {
        status_line("estimated from a sample");
    }
    Ok(())
}
