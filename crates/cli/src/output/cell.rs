//! One value in a table: its kind, its text, its colour.
//!
//! The kind follows from the value and from the name of its field: on the wire an instant's name ends in
//! `At` or `Until`, and a status is called `status`.

use jiff::Timestamp;
use serde_json::Value;

use super::escaped;
use super::screen::{Colour, Screen};

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// The text, without colour.
    pub(super) text: String,
    /// The colour of the text.
    pub(super) colour: Option<Colour>,
    /// The kind, for the layout.
    pub(super) kind: Kind,
}

/// The kind of a cell, for the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Never clipped: an id, a status, an instant, true or false.
    Rigid,
    /// Never clipped, and aligned to the right.
    Number,
    /// Clipped if the terminal is too narrow.
    Text,
}

impl Cell {
    /// The cell of a value in the field `path`.
    pub(super) fn new(path: &str, value: &Value, screen: &Screen) -> Self {
        let rigid = |text: String| Self { text, colour: None, kind: Kind::Rigid };
        let clipped = |text: String| Self { text, colour: None, kind: Kind::Text };
        let name = path.rsplit('.').next().unwrap_or(path);
        match value {
            // An absent value must not make a column of numbers one of texts.
            Value::Null => Self { text: String::new(), colour: None, kind: Kind::Number },
            Value::Number(number) => {
                let text = match (number.as_f64(), screen.now()) {
                    (Some(figure), Some(_)) if number.is_f64() => rounded(figure),
                    _ => number.to_string(),
                };
                Self { text, colour: None, kind: Kind::Number }
            }
            Value::Bool(is) => rigid(is.to_string()),
            Value::String(text) if name == "status" => {
                Self { text: escaped(text), colour: colour(text), kind: Kind::Rigid }
            }
            Value::String(text) => match (instant(name, text), screen.now()) {
                (Some(at), Some(now)) => rigid(relative(at, now)),
                (Some(_), None) => rigid(escaped(text)),
                (None, _) if is_id(text) => rigid(escaped(text)),
                (None, _) => clipped(escaped(text)),
            },
            Value::Array(items) if items.iter().all(Value::is_string) => {
                let texts: Vec<_> = items.iter().filter_map(Value::as_str).map(escaped).collect();
                clipped(texts.join(","))
            }
            Value::Array(_) | Value::Object(_) => clipped(escaped(&value.to_string())),
        }
    }
}

/// The instant in a field that holds one.
fn instant(name: &str, text: &str) -> Option<Timestamp> {
    let holds = name.ends_with("At")
        || name.ends_with("Until")
        || matches!(name, "timestamp" | "at" | "periodStart" | "periodEnd");
    holds.then(|| text.parse().ok()).flatten()
}

/// True for an identifier that the server made: a prefix and 26 characters.
fn is_id(text: &str) -> bool {
    text.rsplit_once('_').is_some_and(|(_, random)| {
        random.len() == 26 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A figure with two decimals; one that would be rounded to zero is `<0.01`.
fn rounded(figure: f64) -> String {
    if figure > 0.0 && figure < 0.005 { "<0.01".to_owned() } else { format!("{figure:.2}") }
}

/// `12 s ago`, `5 min ago`, `in 3 h`, `2 d ago`; beyond 30 days the date.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second() - now.as_second();
    let (length, unit) = match seconds.unsigned_abs() {
        length @ 0..60 => (length, "s"),
        length @ 60..3600 => (length / 60, "min"),
        length @ 3600..86_400 => (length / 3600, "h"),
        length @ 86_400..2_592_000 => (length / 86_400, "d"),
        _ => return at.strftime("%Y-%m-%d").to_string(),
    };
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {length} {unit}"),
        _ => format!("{length} {unit} ago"),
    }
}

/// The colour of a status.
pub(super) fn colour(status: &str) -> Option<Colour> {
    match status {
        "completed" | "approved" | "delivered" | "active" | "connected" | "online" | "idle"
        | "ok" => Some(Colour::Green),
        "running" | "assigned" | "busy" | "draining" => Some(Colour::Cyan),
        "escalated" | "awaiting_approval" | "awaiting approval" | "overdue" | "expired" => {
            Some(Colour::Yellow)
        }
        "failed" | "rejected" | "dead" | "lost" | "revoked" | "broken" => Some(Colour::Red),
        "cancelled" | "skipped" | "dropped" => Some(Colour::Dim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terminal() -> Screen {
        let now = "2026-11-24T12:00:00Z".parse().unwrap();
        Screen::Terminal { width: 80, height: 24, colour: true, now }
    }

    #[test]
    fn an_instant_is_relative_on_a_terminal_and_exact_in_a_pipe() {
        let at = |text: &str| Cell::new("createdAt", &json!(text), &terminal()).text;
        assert_eq!(at("2026-11-24T11:59:48.000Z"), "12 s ago");
        assert_eq!(at("2026-11-24T12:00:00.400Z"), "now");
        assert_eq!(at("2026-11-24T12:05:30.000Z"), "in 5 min");
        assert_eq!(at("2026-11-23T12:00:00.000Z"), "1 d ago");
        assert_eq!(at("2026-01-02T12:00:00.000Z"), "2026-01-02");
        let exact = "2026-11-24T11:59:48.000Z";
        assert_eq!(Cell::new("createdAt", &json!(exact), &Screen::Plain).text, exact);
        // A stranger's text that happens to be an instant stays as it is.
        assert_eq!(Cell::new("name", &json!(exact), &terminal()).text, exact);
    }

    #[test]
    fn a_figure_has_two_decimals_on_a_terminal_and_all_in_a_pipe() {
        let shown = |figure: f64, screen: &Screen| Cell::new("cost", &json!(figure), screen).text;
        assert_eq!(shown(0.713_333, &terminal()), "0.71");
        assert_eq!(shown(0.000_1, &terminal()), "<0.01");
        assert_eq!(shown(0.0, &terminal()), "0.00");
        assert_eq!(shown(0.713_333, &Screen::Plain), "0.713333");
        assert_eq!(Cell::new("total", &json!(7), &terminal()).text, "7");
    }

    #[test]
    fn ids_and_states_are_never_clipped() {
        let kind = |path: &str, text: &str| Cell::new(path, &json!(text), &terminal()).kind;
        assert_eq!(kind("planId", "dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p"), Kind::Rigid);
        assert_eq!(kind("status", "running"), Kind::Rigid);
        assert_eq!(kind("templateId", "contract-review-v1"), Kind::Text);
    }
}
