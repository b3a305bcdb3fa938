//! `callboard tasks submit --stream`: the text as the model writes it.
//!
//! A connection that breaks is opened again; the new snapshot holds the missed part.

use std::io::{self, IsTerminal as _};

use callboard_client::{Call, Client, EventStream};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Format, escaped, print, status_line, warn};
use crate::wait::{Outage, continues};

/// The pause before a broken stream is opened again.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// The printed part of a task's text.
#[derive(Debug, Default)]
struct Printed(String);

impl Printed {
    /// The text to print, and the note on standard error before it, once the whole text so far is
    /// `text`.
    fn becomes(&mut self, text: &str) -> (Option<&'static str>, String) {
        let rest = text.strip_prefix(self.0.as_str());
        let (said, shown) = match rest {
            Some(rest) => (None, rest.to_owned()),
            None => {
                (Some("discard the text above: the next text replaces it"), format!("\n{text}"))
            }
        };
        text.clone_into(&mut self.0);
        (said, shown)
    }

    /// The text to print and the note for a piece of the text, which begins after `offset`
    /// characters.
    fn grows(&mut self, offset: u64, piece: &str) -> (Option<&'static str>, String) {
        let known = self.0.chars().count() as u64;
        self.0.push_str(piece);
        let said = (offset > known).then_some("some of the text is missing here");
        (said, piece.to_owned())
    }

    /// Begins the text anew, for another attempt.
    fn restarts(&mut self) -> (Option<&'static str>, String) {
        let is_void = !std::mem::take(&mut self.0).is_empty();
        let said = "discard the text above: another attempt begins";
        (is_void.then_some(said), if is_void { "\n".to_owned() } else { String::new() })
    }
}

/// Prints the text of a task until it has ended; programs get the task alone.
pub(super) async fn follow(
    client: &Client,
    format: Format,
    stream: EventStream,
) -> Result<Value, Failure> {
    let mut id = String::new();
    let ended = tokio::select! {
        ended = print_until_end(client, format, stream, &mut id) => Some(ended),
        _ = tokio::signal::ctrl_c() => None,
    };
    ended.unwrap_or_else(|| Err(continues("tasks wait", &id)))
}

async fn print_until_end(
    client: &Client,
    format: Format,
    mut stream: EventStream,
    id: &mut String,
) -> Result<Value, Failure> {
    let (mut printed, mut outage) = (Printed::default(), Outage::default());
    loop {
        while let Some(event) = stream.next().await {
            outage.over();
            let data = &event.body;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (said, shown) = match event.name.as_str() {
                "snapshot" => {
                    let is_first = id.is_empty();
                    *id = text(&data["id"]);
                    if is_first {
                        status_line(&format!("{id} submitted"));
                        warn(data);
                    }
                    printed.becomes(&text(&data["output"]))
                }
                "delta" => {
                    printed.grows(data["offset"].as_u64().unwrap_or(0), &text(&data["text"]))
                }
                "restart" => printed.restarts(),
                "end" => {
                    let (said, shown) = match data["output"].as_str() {
                        Some(output) => printed.becomes(output),
                        None => (None, String::new()),
                    };
                    print_piece(format, said, &shown)?;
                    print_piece(format, None, "\n")?;
                    return Ok(event.body);
                }
                _ => continue,
            };
            print_piece(format, said, &shown)?;
        }
        // The connection broke: the task goes on.
        if id.is_empty() {
            return Err(Failure::Other("the server ended the stream before it began".into()));
        }
        loop {
            tokio::time::sleep(PAUSE).await;
            let call = Call::get(&["tasks", id, "stream"]).events_after(None);
            match EventStream::open(client, &call).await {
                Ok(again) => break stream = again,
                Err(error) => {
                    for line in outage.goes_on(error.into())? {
                        status_line(&line);
                    }
                }
            }
        }
    }
}

fn print_piece(format: Format, said: Option<&str>, shown: &str) -> Result<(), Failure> {
    if format != Format::Table {
        return Ok(());
    }
    if let Some(said) = said {
        status_line(said);
    }
    if shown.is_empty() {
        return Ok(());
    }
    // A pipe or a file gets the text as it is.
    if io::stdout().is_terminal() { print(&safe(shown)) } else { print(shown) }
}

/// The text with its line breaks, without characters that command the terminal.
fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn plain(text: String) -> (Option<&'static str>, String) {
        (None, text)
    }

    #[test]
    fn a_text_is_printed_once_over_pieces_snapshots_and_the_end() {
        let mut printed = Printed::default();
        assert_eq!(printed.becomes(""), plain(String::new()));
        assert_eq!(printed.grows(0, "Grüße "), plain("Grüße ".into()));
        assert_eq!(printed.becomes("Grüße aus"), plain("aus".into()));
        assert_eq!(printed.grows(9, " Wien"), plain(" Wien".into()));
        assert_eq!(printed.becomes("Grüße aus Wien"), plain(String::new()));
    }

    #[test]
    fn a_text_that_is_void_or_has_a_hole_is_said_to() {
        let mut printed = Printed::default();
        assert_eq!(printed.restarts(), plain(String::new()));
        printed.grows(0, "one");
        let (said, shown) = printed.restarts();
        assert_eq!((said.is_some(), shown.as_str()), (true, "\n"));
        assert_eq!(printed.grows(0, "two"), plain("two".into()));
        let (said, shown) = printed.becomes("edited");
        assert_eq!((said.is_some(), shown.as_str()), (true, "\nedited"));
        let (said, shown) = printed.grows(100, "end");
        assert_eq!((said.is_some(), shown.as_str()), (true, "end"));
    }

    #[test]
    fn a_text_keeps_its_lines_and_commands_no_terminal() {
        assert_eq!(safe("a\nb\u{1b}[31m"), "a\nb\\u{1b}[31m");
    }
}
