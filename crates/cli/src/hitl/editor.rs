//! A text in the user's editor: `$VISUAL`, else `$EDITOR`, else vi, as other programs do.
//!
//! The text lies in a directory that no other user may enter, and is removed afterwards; [`keep`] writes a text that
//! could not be sent to a file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::output::status_line;

/// Fails where there is no terminal.
///
/// # Errors
/// [`Failure::Usage`], which states that `what` needs a terminal.
pub(super) fn needs_terminal(what: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal")))
}

/// The user's edit of a task's output.
///
/// # Errors
/// The editor cannot be started, or ended badly; then a changed text is kept.
pub(super) async fn edit(task: &str, before: &str) -> Result<String, Failure> {
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".into());
    edit_with(&editor, before, |text| keep(task, text)).await
}

/// Writes a text that was not sent to a file, and reports its path. The reader wrote the text, so
/// it must not be lost.
pub(super) fn keep(task: &str, text: &str) {
    let directory = set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("callboard/edits");
    match kept(&directory, task, text) {
        Ok(file) => status_line(&format!("your text is kept in {}", file.display())),
        Err(error) => {
            status_line(&format!("your text cannot be kept in {}: {error}", directory.display()));
        }
    }
}

/// The file that a text was written to; an earlier text of the task stays.
fn kept(directory: &Path, task: &str, text: &str) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let name = |number: u32| match number {
        1 => format!("{task}.txt"),
        _ => format!("{task}-{number}.txt"),
    };
    // The task's identifier comes from the command line, and must not name another directory.
    let safe = |name: String| name.replace(std::path::is_separator, "_");
    for number in 1.. {
        let file = directory.join(safe(name(number)));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
            Ok(mut opened) => {
                opened.write_all(text.as_bytes())?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

async fn edit_with(editor: &str, before: &str, keep: impl FnOnce(&str)) -> Result<String, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::Other(format!("the text cannot be edited with {editor}: {error}"))
    };
    let place = Place::make().map_err(|error| cannot(&error))?;
    let file = place.0.join("output.txt");
    fs::write(&file, before).map_err(|error| cannot(&error))?;
    let modes = Modes::now();
    // The editor handles Ctrl-C; from here on Ctrl-C does not end this program by itself.
    let interrupts = signal(SignalKind::interrupt()).map_err(|error| cannot(&error))?;
    // A shell splits the command, such as `code --wait`; the path is an argument, not part of its
    // text.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{editor} \"$@\"")).arg("sh").arg(&file);
    let ended = shell.status().await;
    drop((modes, interrupts));
    let status = ended.map_err(|error| cannot(&error))?;
    if !status.success() {
        if let Some(text) = fs::read_to_string(&file).ok().filter(|text| text != before) {
            keep(&without_last_break(text, before));
        }
        return Err(cannot(&format!("it ended with {status}")));
    }
    let after = fs::read(&file).map_err(|error| cannot(&error))?;
    let after = String::from_utf8(after).map_err(|_| cannot(&"the text is not UTF-8"))?;
    Ok(without_last_break(after, before))
}

/// Removes the line break that editors add to the end of a text without one.
fn without_last_break(mut after: String, before: &str) -> String {
    if !before.ends_with('\n') && after.ends_with('\n') {
        after.pop();
    }
    after
}

/// A directory of our own, removed when dropped.
struct Place(PathBuf);

impl Place {
    fn make() -> io::Result<Self> {
        let name = format!("callboard-{:032x}", rand::random::<u128>());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // If this fails, the system's cleaning of temporary files removes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The terminal's settings, restored when this is dropped, even after an editor that crashed.
struct Modes(Option<Termios>);

impl Modes {
    fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_editor_is_a_command_line_and_its_last_line_break_does_not_count() {
        let edit = async |editor, before| edit_with(editor, before, |_| unreachable!()).await;
        assert_eq!(edit("true", "as it was").await.unwrap(), "as it was");
        assert_eq!(edit("echo more >>", "one\n").await.unwrap(), "one\nmore\n");
        assert_eq!(edit("printf 'b\\n' >", "a").await.unwrap(), "b");
        let failure = edit("false", "x").await.unwrap_err();
        assert!(format!("{failure:?}").contains("false"), "{failure:?}");
        assert!(edit("no-such-editor", "x").await.is_err());
    }

    #[tokio::test]
    async fn a_text_whose_editor_ended_badly_is_kept_and_none_before_it_is_lost() {
        let place = Place::make().unwrap();
        let directory = place.0.join("edits");
        for name in ["dt_task_1.txt", "dt_task_1-2.txt"] {
            let mut file = PathBuf::new();
            let keep = |text: &str| file = kept(&directory, "dt_task_1", text).unwrap();
            edit_with("sh -c 'echo better > \"$0\"; exit 1'", "x", keep).await.unwrap_err();
            assert_eq!(file, directory.join(name));
            assert_eq!(fs::read_to_string(&file).unwrap(), "better");
        }
        let elsewhere = kept(&directory, "../up", "x").unwrap();
        assert_eq!(elsewhere, directory.join(".._up.txt"));
    }

    #[test]
    fn only_a_line_break_that_the_editor_added_is_taken_away() {
        let shown = |after: &str, before| without_last_break(after.into(), before);
        assert_eq!(shown("a\n", "a"), "a");
        assert_eq!(shown("a\n", "a\n"), "a\n");
        assert_eq!(shown("a\n\n", "b"), "a\n");
        assert_eq!(shown("", "a"), "");
    }
}
