//! The earlier turns of a task, as lines.

use serde_json::Value;

/// A line for each text and each file of `messages`; null if there is none.
pub(super) fn in_lines(messages: &Value) -> Value {
    let turns = messages.as_array().into_iter().flatten();
    let lines: Vec<_> = turns
        .flat_map(|turn| {
            let role = turn["role"].as_str().unwrap_or_default();
            let alone = turn["content"].as_str().map(str::to_owned);
            let parts = turn["content"].as_array().into_iter().flatten().map(part);
            alone.into_iter().chain(parts).map(move |text| format!("{role}: {text}"))
        })
        .collect();
    if lines.is_empty() { Value::Null } else { lines.join("\n").into() }
}

fn part(part: &Value) -> String {
    let text = |name: &str| part[name].as_str().unwrap_or_default();
    match part["file"].as_str() {
        Some(file) => format!("[{} {file}]", text("type")),
        None => text("text").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_a_line_with_its_kind() {
        let parts = json!([{"type": "text", "text": "Look:"}, {"type": "image", "file": "file_1"}]);
        let messages =
            json!([{"role": "user", "content": parts}, {"role": "assistant", "content": "A cat."}]);
        let lines = "user: Look:\nuser: [image file_1]\nassistant: A cat.";
        assert_eq!(in_lines(&messages), lines);
        assert_eq!(in_lines(&Value::Null), Value::Null);
    }
}
