//! The version of the rows of a store, and the program that wrote it first.
//!
//! A program that does not know a field of a row loses it when it writes the row again. So a store names the
//! version of its rows, and a program that writes an earlier version refuses it.
//!
//! ```text
//! embedded     the note "mf" in db        [version u32][program]; backups have it
//!              callboard-rows             the same as text, for programs that have not opened db
//! PostgreSQL   callboard.meta             rows, program
//! ```

use std::fs;
use std::io;
use std::path::Path;

use crate::Error;
use crate::directory::{io_error, place, replace};

const FILE: &str = "callboard-rows";

/// The version of the rows that this program writes: raised once in a release whose rows have a field, a kind or
/// a table that the release before does not know.
pub const ROWS: u32 = 1;

/// The version of this program.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The version of the rows of a store, with the first program that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The version of the rows; 0 for programs that noted none.
    pub rows: u32,
    /// The version of the program; empty for programs that noted none.
    pub program: String,
}

impl Written {
    /// The version that this program writes.
    pub(crate) fn by_this_program() -> Self {
        Self { rows: ROWS, program: PROGRAM.into() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.rows.to_le_bytes()[..], self.program.as_bytes()].concat()
    }

    /// Reads [`Self::encode`]; `None` if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (rows, program) = bytes.split_first_chunk()?;
        let program = std::str::from_utf8(program).ok()?.to_owned();
        Some(Self { rows: u32::from_le_bytes(*rows), program })
    }

    /// The line of the file: version, program, checksum of both.
    fn to_text(&self) -> String {
        let said = format!("{} {}", self.rows, self.program);
        format!("{said} {:08x}\n", crc32fast::hash(said.as_bytes()))
    }

    /// Reads [`Self::to_text`], or the line without a checksum that older programs wrote. A line that a power cut
    /// has emptied, or whose checksum is another, says nothing: the note in db does.
    fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let rows = words.next()?.parse().ok()?;
        let written = Self { rows, program: words.next().unwrap_or_default().to_owned() };
        words.next().is_none_or(|_| text == written.to_text()).then_some(written)
    }

    /// Passes if this program knows all that the rows of `place` hold.
    ///
    /// # Errors
    /// [`Error::Newer`].
    pub(crate) fn check(&self, place: &str) -> Result<(), Error> {
        if self.rows > ROWS { Err(newer(place, Some(&self.program))) } else { Ok(()) }
    }
}

/// The version in the file of a directory; `None` without one.
pub(crate) fn read(directory: &Path) -> Result<Option<Written>, Error> {
    let text = match fs::read(directory.join(FILE)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&error)),
    };
    Ok(Written::from_text(&text))
}

/// Refuses a directory whose file names a newer program.
pub(crate) fn check_file(directory: &Path) -> Result<(), Error> {
    read(directory)?.map_or(Ok(()), |found| found.check(&place(directory)))
}

/// Writes the file, unless it says the same.
pub(crate) fn write(directory: &Path, written: &Written) -> Result<(), Error> {
    let text = written.to_text();
    if fs::read(directory.join(FILE)).is_ok_and(|said| said == text.as_bytes()) {
        return Ok(());
    }
    replace(directory, FILE, &text).map_err(|error| io_error(&error))
}

/// The refusal of a store whose writer is newer than this program.
pub(crate) fn newer(place: &str, program: Option<&str>) -> Error {
    let program = program.filter(|program| !program.is_empty());
    Error::Newer {
        place: place.into(),
        program: program.map_or_else(
            || "a newer version".into(),
            |program| format!("version {program} or a later one"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_store_names_the_program_to_use() {
        let written = Written { rows: ROWS + 1, program: "9.8.7".into() };
        assert_eq!(Written::decode(&written.encode()), Some(written.clone()));
        let text = written.check("the data directory /d").unwrap_err().to_string();
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text,
            format!(
                "the data directory /d was written by a newer program than this one ({own}), which would lose what \
                 it does not know; start callboard of version 9.8.7 or a later one, or restore a backup from before \
                 the upgrade"
            )
        );
        assert!(Written::by_this_program().check("").is_ok());
        assert_eq!(Written::decode(&[1, 0, 0]), None);
    }

    #[test]
    fn a_line_with_any_bit_changed_never_names_a_newer_program() {
        let written = Written { rows: ROWS, program: "9.8.7".into() };
        let line = written.to_text();
        assert_eq!(Written::from_text(&line), Some(written.clone()));
        assert_eq!(Written::from_text("1 9.8.7\n"), Some(written));
        for bit in 0..line.len() * 8 {
            let mut damaged = line.clone().into_bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = Written::from_text(&String::from_utf8_lossy(&damaged));
            assert!(found.is_none_or(|found| found.rows == ROWS), "bit {bit}");
        }
    }
}
