//! A body of lines, read in pieces.

/// The byte order mark with which some programs begin a file.
pub(in crate::http) const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that is not blank.
#[derive(Clone, Copy)]
pub(in crate::http) struct Line<'t> {
    /// The number of the line, from 1; blank lines count.
    pub(in crate::http) number: u64,
    /// The text without its end; `None` if it is longer than the limit.
    pub(in crate::http) text: Option<&'t [u8]>,
    /// The number of bytes that were read up to the next line.
    pub(in crate::http) end: u64,
}

/// A reader of lines. Its memory follows the longest line, which is bounded.
pub(in crate::http) struct Lines {
    line: Vec<u8>,
    most: usize,
    is_too_long: bool,
    number: u64,
    read: u64,
}

impl Lines {
    /// A reader of lines of at most so many bytes.
    pub(in crate::http) const fn new(most: usize) -> Self {
        Self { line: Vec::new(), most, is_too_long: false, number: 0, read: 0 }
    }

    /// The bytes of the line that has not ended yet.
    pub(in crate::http) const fn held(&self) -> usize {
        self.line.len()
    }

    /// Reads a piece of the body, and hands on the lines that end in it.
    pub(in crate::http) fn feed(&mut self, piece: &[u8], mut each: impl FnMut(Line<'_>)) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.read += part.len() as u64;
            if self.line.len() + text.len() > self.most {
                self.is_too_long = true;
                self.line.clear();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(text);
            }
            if ends {
                self.finish(&mut each);
            }
        }
    }

    /// Hands on the line that ends here, if it is not blank.
    pub(in crate::http) fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        self.number += 1;
        let (number, end) = (self.number, self.read);
        if std::mem::take(&mut self.is_too_long) {
            each(Line { number, text: None, end });
        } else {
            let line = self.line.as_slice();
            let line = line.strip_prefix(MARK).filter(|_| number == 1).unwrap_or(line);
            if !line.trim_ascii().is_empty() {
                each(Line { number, text: Some(line), end });
            }
        }
        self.line.clear();
    }
}
