//! Fields of a human-readable line, with every control character escaped: a text from outside can
//! neither begin a line of its own nor command the terminal.
//!
//! Deliberately absent: JSON lines, whose strings are escaped anyway.

use std::fmt::{self, Debug, Write};

use callboard_common::text::is_unsafe;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Writes `message key=value …`.
pub(super) fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            write!(writer, "{}=", field.name())?;
        }
        write!(Escaping(writer), "{value:?}")
    })
    .delimited(" ")
}

struct Escaping<'a, 'b>(&'a mut Writer<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, control) in text.match_indices(is_unsafe) {
            self.0.write_str(&text[plain..at])?;
            for character in control.chars() {
                write!(self.0, "{}", character.escape_default())?;
            }
            plain = at + control.len();
        }
        self.0.write_str(&text[plain..])
    }
}
