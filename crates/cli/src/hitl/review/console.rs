//! The reader's console: its output and its answers.
//!
//! Deliberately absent: escaping. Every text is safe to show when it reaches the console.

use std::io::{self, BufRead, Write};

use rustix::termios::{QueueSelector, tcflush, tcgetwinsize};

use crate::failure::Failure;
use crate::hitl::editor;
use crate::output::print;

/// The reader's console.
pub(super) trait Console {
    /// Shows a text.
    fn say(&mut self, text: &str) -> Result<(), Failure>;

    /// The rows and the columns.
    fn size(&self) -> (usize, usize);

    /// Drops the input so far: it was not meant for the next question.
    fn forget(&mut self);

    /// The answer to a question; `None` once the input has ended.
    async fn ask(&mut self, question: &str) -> Result<Option<String>, Failure>;

    /// The reader's edit of a task's output.
    async fn edit(&mut self, task: &str, text: &str) -> Result<String, Failure>;

    /// Keeps a text that was not sent.
    fn keep(&mut self, task: &str, text: &str);
}

/// The terminal that the program runs in, and the user's editor.
pub(super) struct Terminal;

impl Console for Terminal {
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        print(text)
    }

    fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            // Some terminals do not know their size, and report 0.
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                (size.ws_row.into(), size.ws_col.into())
            }
            Ok(_) | Err(_) => (24, 80),
        }
    }

    fn forget(&mut self) {
        // An input that is no terminal has no input to drop.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }

    async fn ask(&mut self, question: &str) -> Result<Option<String>, Failure> {
        print(&format!("{question}: "))?;
        // A read cannot be cancelled, so it has a thread of its own; the end of the process ends
        // it.
        let answer = tokio::task::spawn_blocking(read_line);
        tokio::select! {
            answer = answer => {
                let line = answer.map_err(|error| Failure::Other(error.to_string()))?;
                let unread = |error| Failure::Other(format!("no answer can be read: {error}"));
                let line = line.map_err(unread)?;
                if line.is_none() {
                    print("\n")?;
                }
                Ok(line)
            }
            _ = tokio::signal::ctrl_c() => {
                // The unfinished line is left as it is.
                let _ = writeln!(io::stdout());
                Err(Failure::Interrupted)
            }
        }
    }

    async fn edit(&mut self, task: &str, text: &str) -> Result<String, Failure> {
        editor::edit(task, text).await
    }

    fn keep(&mut self, task: &str, text: &str) {
        editor::keep(task, text);
    }
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()))
}
