//! The inputs of commands: prompts, documents in JSON or YAML, settings of an input.
//!
//! Deliberately absent: checks of a document's meaning. The server has them.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_client::Call;
use callboard_protocol::document::{self, Format, json};
use clap::Args;
use serde_json::{Map, Value};

use super::failure::Failure;

/// One `--set`: a name and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    name: String,
    value: Given,
}

#[derive(Debug, Clone, PartialEq)]
enum Given {
    Value(Value),
    TextOf(PathBuf),
}

/// A JSON object as it grows, without the fields that were not given.
#[derive(Debug, Default)]
pub(super) struct Body(Map<String, Value>);

impl Body {
    /// Adds a field, if it has a value.
    pub(super) fn set(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        self.0.extend(value.map(|value| (name.to_owned(), value.into())));
        self
    }

    /// Adds a list, unless it is empty.
    pub(super) fn list(self, name: &str, values: &[String]) -> Self {
        self.set(name, (!values.is_empty()).then(|| values.to_vec()))
    }

    /// Adds a flag, if it is raised.
    pub(super) fn flag(self, name: &str, raised: bool) -> Self {
        self.set(name, raised.then_some(true))
    }

    /// Adds an object, unless it is empty.
    pub(super) fn object(self, name: &str, value: Self) -> Self {
        self.set(name, (!value.0.is_empty()).then_some(value.0))
    }

    /// The finished object.
    pub(super) fn value(self) -> Value {
        Value::Object(self.0)
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if is_stdin(path) {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| Failure::Other(format!("{} cannot be read: {error}", named(path))))
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let bytes = bytes(path)?;
    if let Some(encoding) = json::wide(&bytes) {
        return Err(invalid(path, format!("it is {encoding}; save it as UTF-8")));
    }
    String::from_utf8(bytes).map_err(|_| invalid(path, "it is not valid UTF-8; save it as UTF-8"))
}

/// The format of a file: by its extension; without one, JSON begins with a bracket.
pub(super) fn format(path: &Path, bytes: &[u8]) -> Format {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Format::Json,
        Some("yaml" | "yml") => Format::Yaml,
        _ if bytes.trim_ascii_start().starts_with(b"{") => Format::Json,
        _ => Format::Yaml,
    }
}

/// A document in JSON or YAML.
pub(super) fn document(path: &Path) -> Result<Value, Failure> {
    let bytes = bytes(path)?;
    document::parse(&bytes, format(path, &bytes)).map_err(|error| invalid(path, error))
}

/// A document that is an object.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>, Failure> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        let says = "an input is one object, in JSON or YAML; to run a template over the rows of a CSV file: \
                    callboard batches create FILE --template ID";
        return Err(invalid(path, says));
    }
    let Value::Object(object) = document(path)? else {
        return Err(invalid(path, "it is not an object"));
    };
    Ok(object)
}

/// Puts settings into an input.
pub(super) fn apply(settings: &[Setting], input: &mut Map<String, Value>) -> Result<(), Failure> {
    for Setting { name, value } in settings {
        let value = match value {
            Given::Value(value) => value.clone(),
            Given::TextOf(path) => Value::String(text(path)?),
        };
        input.insert(name.clone(), value);
    }
    Ok(())
}

/// `name=text`, `name:=JSON` or `name=@FILE`.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("use name=text, name:=JSON or name=@FILE")?;
    let (name, value) = match (name.strip_suffix(':'), value.strip_prefix('@')) {
        (Some(name), _) => (name, Given::Value(json_value(value)?)),
        (None, Some(path)) => (name, Given::TextOf(path.into())),
        (None, None) => (name, Given::Value(value.into())),
    };
    if name.is_empty() {
        return Err("the name is missing".into());
    }
    Ok(Setting { name: name.to_owned(), value })
}

/// JSON, by the rules of a body. Without this parser, clap makes a [`Value`] out of any text: a string.
pub(super) fn json_value(text: &str) -> Result<Value, String> {
    json::parse(text.as_bytes()).map_err(|error| format!("it is not JSON: {error}"))
}

/// `STEP=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((step, value)) if !step.is_empty() => Ok((step.to_owned(), value.to_owned())),
        _ => Err("use STEP=VALUE".into()),
    }
}

/// `500ms`, `60s`, `5m`, `24h`, `90d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    callboard_common::duration::parse(text)
        .ok_or_else(|| "use a duration such as 500ms, 60s, 5m, 24h or 90d".into())
}

/// An identifier: any text that cannot name another path.
pub(super) fn id(text: &str) -> Result<String, String> {
    match text {
        "" | "." | ".." => Err("not a valid identifier".into()),
        _ => Ok(text.to_owned()),
    }
}

/// Whole milliseconds, for the wire.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The failure that a file is not valid, because of `why`.
pub(super) fn invalid(path: &Path, why: impl Display) -> Failure {
    Failure::Invalid { what: format!("{}: {why}", named(path)), faults: Vec::new() }
}

/// The name of a file in a message.
pub(super) fn named(path: &Path) -> String {
    if is_stdin(path) { "standard input".into() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The page of a list.
#[derive(Debug, Clone, Args)]
pub struct Window {
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

impl Window {
    /// The call of this page.
    pub(super) fn of<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.query("limit", self.limit).query("offset", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_is_text_unless_it_says_json_or_names_a_file() {
        let value = |text| {
            let mut input = Map::new();
            apply(&[setting(text).unwrap()], &mut input).unwrap();
            Value::Object(input)
        };
        assert_eq!(value("fiscalYear=2026"), json!({"fiscalYear": "2026"}));
        assert_eq!(value("peers:=[\"a\"]"), json!({"peers": ["a"]}));
        assert_eq!(value("a=b=c"), json!({"a": "b=c"}));
        assert_eq!(value("a="), json!({"a": ""}));
        for bad in ["a", "=x", ":=1", "a:={"] {
            assert!(setting(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_csv_file_is_no_input_and_the_command_that_takes_it_is_named() {
        let Err(Failure::Invalid { what, .. }) = object(Path::new("mails.CSV")) else {
            panic!("it is taken");
        };
        assert!(what.contains("callboard batches create"), "{what}");
    }

    #[test]
    fn a_body_holds_only_what_was_given() {
        let options = Body::default().set("timeoutMs", None::<u64>).flag("dryRun", false);
        let body = Body::default().set("prompt", Some("x")).list("tags", &[]);
        assert_eq!(body.object("options", options).value(), json!({"prompt": "x"}));
    }
}
