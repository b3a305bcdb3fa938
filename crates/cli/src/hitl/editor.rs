//! A text in the user's editor: `$VISUAL`, else `$EDITOR`, else vi, as other programs do.
//!
//! The text lies in a directory that nobody else may enter, and is gone afterwards. Deliberately
//! absent: a draft that outlives the program.

use std::fs::{self, DirBuilder};
use std::io::{self, IsTerminal};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Says so where there is no terminal.
///
/// # Errors
/// [`Failure::Usage`], that `what` needs one.
pub(super) fn needs_terminal(what: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal")))
}

/// What the user makes of a text.
///
/// # Errors
/// The editor cannot be started, or ended badly.
pub(super) async fn edit(before: &str) -> Result<String, Failure> {
    let given = |name| std::env::var(name).ok().filter(|editor: &String| !editor.is_empty());
    let editor = given("VISUAL").or_else(|| given("EDITOR")).unwrap_or_else(|| "vi".into());
    edit_with(&editor, before).await
}

async fn edit_with(editor: &str, before: &str) -> Result<String, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::Other(format!("the text cannot be edited with {editor}: {error}"))
    };
    let place = Place::make().map_err(|error| cannot(&error))?;
    let file = place.0.join("output.txt");
    fs::write(&file, before).map_err(|error| cannot(&error))?;
    let modes = Modes::now();
    // Ctrl-C in the editor is the editor's; from here on it does not end this program by itself.
    let interrupts = signal(SignalKind::interrupt()).map_err(|error| cannot(&error))?;
    // A shell splits what may be `code --wait`; the file is no part of what it reads.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{editor} \"$@\"")).arg("sh").arg(&file);
    let ended = shell.status().await;
    drop((modes, interrupts));
    let status = ended.map_err(|error| cannot(&error))?;
    if !status.success() {
        return Err(cannot(&format!("it ended with {status}")));
    }
    let after = fs::read(&file).map_err(|error| cannot(&error))?;
    let after = String::from_utf8(after).map_err(|_| cannot(&"the text is no UTF-8"))?;
    Ok(without_last_break(after, before))
}

/// Editors end a text with a line break, whether it had one or not.
fn without_last_break(mut after: String, before: &str) -> String {
    if !before.ends_with('\n') && after.ends_with('\n') {
        after.pop();
    }
    after
}

/// A directory of our own, gone when dropped.
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
        // Whatever cleans the directory for temporary files does it then.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How the terminal was; it is so again when this is dropped, even after an editor that crashed.
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
        assert_eq!(edit_with("true", "as it was").await.unwrap(), "as it was");
        assert_eq!(edit_with("echo more >>", "one\n").await.unwrap(), "one\nmore\n");
        assert_eq!(edit_with("printf 'b\\n' >", "a").await.unwrap(), "b");
        let failure = edit_with("false", "x").await.unwrap_err();
        assert!(format!("{failure:?}").contains("false"), "{failure:?}");
        assert!(edit_with("no-such-editor", "x").await.is_err());
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
