use std::sync::{Arc, Mutex};

use super::*;

/// The written lines.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(filter: &str, format: Format, act: impl FnOnce()) -> String {
    let written = Written::default();
    let writer = written.clone();
    let made = subscriber(Some(filter), format, move || writer.clone());
    tracing::subscriber::with_default(made.expect("the filter is right"), act);
    let bytes = written.0.lock().expect("no writer panics").clone();
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_json_line_is_one_object_with_its_fields() {
    let line = logged("info", Format::Json, || {
        tracing::info!(task = "dt_task_9", text = "a\n\u{1b}[31mb\u{9b}\u{202e}\u{7f}", "leased");
    });
    assert_eq!(line.lines().count(), 1);
    let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(json["message"], "leased");
    assert_eq!(json["level"], "INFO");
    assert_eq!(json["task"], "dt_task_9");
    assert_eq!(json["text"], "a\n\u{1b}[31mb\u{9b}\u{202e}\u{7f}");
    for control in ['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}'] {
        assert!(!line.contains(control), "{line:?}");
    }
}

#[test]
fn a_human_line_escapes_control_characters() {
    let line = logged("info", Format::Human, || {
        let hostile = "x\r\nERROR forged \u{1b}[2J\u{202e}";
        tracing::info!(shown = %hostile, quoted = hostile, "saw {hostile}");
    });
    assert_eq!(line.lines().count(), 1, "{line:?}");
    let escaped = r"x\r\nERROR forged \u{1b}[2J\u{202e}";
    assert!(line.contains(&format!("saw {escaped} ")), "{line:?}");
    assert!(line.contains(&format!("shown={escaped}")), "{line:?}");
    assert!(!line.contains("\u{1b}[2J") && !line.contains('\u{202e}'), "{line:?}");
}

#[test]
fn libraries_stay_at_their_level_whatever_the_filter_says() {
    let line = logged("trace,hyper=trace,h2=trace", Format::Json, || {
        tracing::trace!(target: "hyper::proto::h1", "authorization: Bearer 1");
        tracing::debug!(target: "tungstenite::protocol", "frame 2");
        tracing::debug!(target: "h2", "headers 3");
        tracing::info!(target: "hyper", "plain 4");
        tracing::trace!(target: "callboard::http", "own 5");
        tracing::warn!(target: "rmcp::service", "message 6");
        tracing::error!(target: "rmcp::service", "broken 7");
    });
    let seen: Vec<_> = ["1", "2", "3", "4", "5", "6", "7"]
        .into_iter()
        .filter(|mark| line.contains(&format!(" {mark}\"")))
        .collect();
    assert_eq!(seen, ["4", "5", "7"], "{line}");
}

#[test]
fn a_filter_holds_back_what_it_says() {
    let line = logged("warn,callboard=debug", Format::Json, || {
        tracing::info!(target: "other", "no");
        tracing::debug!("yes");
    });
    assert!(line.contains("yes") && !line.contains("\"no\""), "{line}");
}

#[test]
fn a_bad_filter_is_named() {
    let bad = subscriber(Some("callboard=loud"), Format::Json, io::sink);
    let says = bad.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        says.starts_with("CALLBOARD_LOG: \"callboard=loud\" is not a valid log filter ("),
        "{says}"
    );
}
