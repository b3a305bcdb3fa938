//! An item as its reader sees it: short at first, whole on request.
//!
//! The texts come from models and strangers, so every line is escaped here.

use std::fmt::Write as _;

use serde_json::Value;

use super::dialogue::Dialogue;
use super::gather::Material;
use crate::hitl::item::{heading, output, text};
use crate::output::escaped;

/// The length from which a line takes a screen of its own; its rest is shown with the whole text.
const WIDEST: usize = 2000;
const SHORT: usize = 12;
const SHORT_OUTPUT: usize = 40;

/// The part of long texts that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The beginning of each text.
    Short,
    /// Each whole text.
    Whole,
}

/// The item: its input, the reason of the hold, its output.
pub(super) fn shown(material: &Material, length: Length) -> String {
    let Material { item, execution, .. } = material;
    let task = &item["task"];
    let mut shown = format!("\n──── {} ────\n", escaped(text(item, "taskId")));
    let mut section = |title: &str, text: &str, lines: usize| {
        if !text.is_empty() {
            let lines = if length == Length::Short { lines } else { usize::MAX };
            let _ = writeln!(shown, "{}:", escaped(title));
            shown.push_str(&lines_of(text, lines));
        }
    };
    for source in task["shown"].as_array().into_iter().flatten() {
        section("source", source.as_str().unwrap_or_default(), SHORT_OUTPUT);
    }
    section("system prompt", text(task, "systemPrompt"), SHORT);
    section("prompt", text(item, "prompt"), SHORT);
    section("context", &pretty(&task["context"]), SHORT);
    section("input", &pretty(&execution["input"]), SHORT);
    for step in material.upstream() {
        let before = &execution["steps"][step];
        match before["output"].as_str() {
            Some(output) => section(&format!("output of {step}"), output, SHORT),
            None => section(&format!("output of {step}"), &without_output(before), SHORT),
        }
    }
    let _ = write!(shown, "\n{}\n", heading(item));
    let lines = if length == Length::Short { SHORT_OUTPUT } else { usize::MAX };
    let _ = writeln!(shown, "output:");
    shown.push_str(&lines_of(output(item), lines));
    shown.push('\n');
    shown
}

/// A text in pages that fit the screen, with room for a question below.
pub(super) fn pages(text: &str, rows: usize, columns: usize) -> Vec<String> {
    let (rows, columns) = (rows.saturating_sub(2).max(5), columns.max(20));
    let mut pages = vec![String::new()];
    let mut used = 0;
    for line in text.lines() {
        let takes = line.chars().count().div_ceil(columns).max(1);
        if used > 0 && used + takes > rows {
            pages.push(String::new());
            used = 0;
        }
        used += takes;
        if let Some(page) = pages.last_mut() {
            page.push_str(line);
            page.push('\n');
        }
    }
    pages
}

/// The question about an item that another user has claimed.
pub(super) fn warning(item: &Value) -> Dialogue {
    let (by, until) = (escaped(text(item, "claimedBy")), escaped(text(item, "claimedUntil")));
    let words = match (by.as_str(), until.as_str()) {
        ("", _) => "another reviewer has claimed it".to_owned(),
        (by, "") => format!("{by} has claimed it"),
        (by, until) => format!("{by} has claimed it until {until}"),
    };
    Dialogue::Taken { words }
}

/// The decision.
pub(super) fn decided(decided: &Value, approved: bool) -> String {
    let retry = escaped(text(decided, "retryTaskId"));
    match (approved, decided["wasModified"] == true, retry.as_str()) {
        (true, true, _) => "approved with your text".to_owned(),
        (true, false, _) => "approved".to_owned(),
        (false, _, "") => "rejected".to_owned(),
        (false, _, retry) => format!("rejected; {retry} tries again"),
    }
}

/// The first lines of a text, indented, and the number of those left out.
fn lines_of(text: &str, most: usize) -> String {
    let whole = most == usize::MAX;
    let mut shown = String::new();
    let (mut lines, mut cut) = (text.lines(), 0);
    for line in lines.by_ref().take(most) {
        let start: String = line.chars().take(if whole { usize::MAX } else { WIDEST }).collect();
        cut += line.chars().count() - start.chars().count();
        let _ = writeln!(shown, "  {}", escaped(&start));
    }
    let left = lines.count();
    if left > 0 || cut > 0 {
        let left = (left > 0).then(|| format!("{left} more lines"));
        let cut = (cut > 0).then(|| format!("{cut} more characters"));
        let parts: Vec<String> = left.into_iter().chain(cut).collect();
        let _ = writeln!(shown, "  … {}: m shows all", parts.join(" and "));
    }
    shown
}

fn without_output(step: &Value) -> String {
    let status = text(step, "status");
    if status.is_empty() { "(unknown)".into() } else { format!("({status})") }
}

fn pretty(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(object) if object.is_empty() => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{value:#}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn material() -> Material {
        let output: Vec<_> = (1..=50).map(|n| format!("line {n}")).collect();
        Material {
            item: json!({"taskId": "dt_task_1", "stepId": "judge", "reason": "below_threshold",
                         "task": {"systemPrompt": "Be strict.", "context": {"unit": "EUR"}},
                         "confidence": 0.71, "threshold": 0.85, "prompt": "Judge \u{1b}]0;x\u{7}.",
                         "output": output.join("\n")}),
            execution: json!({"input": {}, "steps": {
                "extract": {"status": "completed", "output": "seven clauses"},
                "enrich": {"status": "skipped"},
                "later": {"status": "pending", "output": "not this one"},
            }}),
            plan: json!({"steps": [{"id": "extract"}, {"id": "enrich"},
                                   {"id": "judge", "dependsOn": ["extract", "enrich"]}]}),
        }
    }

    #[test]
    fn what_went_in_stands_before_why_it_is_held_and_what_came_out() {
        let shown = shown(&material(), Length::Short);
        let places = [
            "system prompt:\n  Be strict.",
            "prompt:\n  Judge \\u{1b}]0;x\\u{7}.\n",
            "context:\n  {\n    \"unit\": \"EUR\"\n  }\n",
            "output of extract:\n  seven clauses\n",
            "output of enrich:\n  (skipped)\n",
            "confidence    0.71 < 0.85\n",
            "output:\n  line 1\n",
            "  line 40\n  … 10 more lines: m shows all\n",
        ]
        .map(|part| shown.find(part).unwrap_or_else(|| panic!("{part} is missing: {shown}")));
        assert!(places.is_sorted(), "{shown}");
        assert!(!shown.contains("not this one") && !shown.contains("input:"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn the_whole_leaves_nothing_out_and_is_shown_page_by_page() {
        let whole = shown(&material(), Length::Whole);
        assert!(whole.contains("line 50\n") && !whole.contains('…'), "{whole}");
        let pages = pages(&whole, 24, 80);
        assert!(pages.iter().all(|page| page.lines().count() <= 22), "{pages:#?}");
        assert_eq!(pages.concat(), whole);
        assert_eq!(super::pages(&"x".repeat(1000), 24, 80).len(), 1, "it is no use to cut a line");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_screen() {
        let shown = lines_of(&"x".repeat(5000), 3);
        assert!(shown.ends_with("  … 3000 more characters: m shows all\n"), "{shown}");
        assert_eq!(lines_of("a\nb", 2), "  a\n  b\n");
    }

    #[test]
    fn who_looks_at_it_is_named() {
        let words = |item: Value| warning(&item).question();
        let until = json!({"claimedBy": "usr_1\u{7}", "claimedUntil": "10:05"});
        assert!(words(until).starts_with("usr_1\\u{7} has claimed it until 10:05. Review it"));
        assert!(words(json!({})).starts_with("another reviewer has claimed it. "));
    }
}
