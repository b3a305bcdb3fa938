//! Lines with every control character escaped: a text from outside can neither begin a line of its own nor
//! command the terminal, also where a terminal shows JSON lines.

use std::fmt::{self, Debug, Write};
use std::io;

use callboard_common::text::{is_unsafe, safe_json};
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

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

/// Writers of JSON lines, which are made safe before they are written.
pub(super) struct SafeJson<W>(pub(super) W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for SafeJson<W> {
    type Writer = SafeLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        SafeLine(self.0.make_writer())
    }
}

/// A writer to which each event is written in one piece.
pub(super) struct SafeLine<W>(W);

impl<W: io::Write> io::Write for SafeLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(safe_json(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
