//! The lines of an input file, read in pieces from any line on.

use callboard_domain::Error;
use callboard_domain::chat_batch::ChatBatch;
use callboard_domain::file::Part;
use callboard_domain::id::Environment;
use callboard_runtime::Handle;
use callboard_runtime::handle::FileReader;

use crate::http::body::lines::{Line, Lines};
use crate::http::chat::MAX_BODY;

/// The longest line, in bytes: the body of a chat completion, and the members around it.
pub(super) const MAX_LINE: usize = MAX_BODY + (64 << 10);

/// A line that is not blank.
pub(super) struct InputLine {
    /// The number of the line, from the first one that is read.
    pub(super) number: u64,
    /// The text; `None` if it is too long.
    pub(super) text: Option<Vec<u8>>,
    /// The place of the next line in the file.
    pub(super) end: u64,
}

/// The rest of an input file.
pub(super) struct Input {
    reader: FileReader,
    lines: Lines,
    from: u64,
    is_over: bool,
}

impl Input {
    /// The input of a batch, from the line at this place on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub(super) async fn of(
        handle: &Handle,
        environment: Environment,
        batch: &ChatBatch,
        from: u64,
    ) -> Result<Self, Error> {
        let file = handle.file(environment, batch.order.input).await?;
        let part = Part { from, length: file.bytes.saturating_sub(from) };
        let reader = handle.read_file(environment, &file, part).await?;
        Ok(Self { reader, lines: Lines::new(MAX_LINE), from, is_over: false })
    }

    /// The lines that end in the next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) async fn next(&mut self) -> Result<Option<Vec<InputLine>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let (from, mut read) = (self.from, Vec::new());
        let each = |Line { number, text, end }: Line<'_>| {
            read.push(InputLine { number, text: text.map(<[u8]>::to_vec), end: from + end });
        };
        if let Some(piece) = self.reader.next().await? {
            self.lines.feed(&piece, each);
        } else {
            self.is_over = true;
            self.lines.finish(each);
        }
        Ok(Some(read))
    }
}
