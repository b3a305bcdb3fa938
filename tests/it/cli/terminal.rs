//! A command on a terminal: a person reads what is shown and types answers.

use std::time::Duration;

use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use super::program::Home;

/// How long a text may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// The key that interrupts.
pub(super) const CTRL_C: &str = "\u{3}";

/// The path of this process, with the directory of the program before it.
pub(super) fn path() -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_callboard"));
    let directory = program.parent().expect("it lies in a directory").display();
    format!("{directory}:{}", std::env::var("PATH").unwrap_or_default())
}

/// A terminal, the command that runs on it, and all that was shown.
pub(super) struct Terminal {
    child: Child,
    keys: OwnedWritePty,
    screen: OwnedReadPty,
    seen: String,
    /// The length of the text that was waited for.
    read: usize,
}

impl Terminal {
    /// Starts the program on a terminal of 40 lines of 120 columns.
    pub(super) fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::sized(home, arguments, 120)
    }

    /// The same on a terminal of so many columns.
    pub(super) fn sized(home: &Home, arguments: &[&str], columns: u16) -> Self {
        Self::of(env!("CARGO_BIN_EXE_callboard"), home, arguments, columns)
    }

    /// Starts another program, a shell for example, that finds `callboard` on its path.
    pub(super) fn of(program: &str, home: &Home, arguments: &[&str], columns: u16) -> Self {
        let (pty, terminal) = pty_process::open().expect("the system has terminals");
        pty.resize(Size::new(40, columns)).expect("a terminal has a size");
        let command = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("TERM", "xterm-256color")
            .env("PATH", path())
            .envs(home.environment())
            .kill_on_drop(true);
        let child = command.spawn(terminal).expect("it starts");
        let (screen, keys) = pty.into_split();
        Self { child, keys, screen, seen: String::new(), read: 0 }
    }

    /// Waits until `text` is shown, after the text that was waited for last.
    pub(super) async fn shows(&mut self, text: &str) -> &mut Self {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                self.read += at + text.len();
                return self;
            }
            let more = tokio::time::timeout_at(deadline, self.more()).await;
            assert!(more == Ok(true), "{text:?} is not shown: {}", self.seen);
        }
    }

    /// Types keys.
    pub(super) async fn types(&mut self, keys: &str) -> &mut Self {
        self.keys.write_all(keys.as_bytes()).await.expect("the terminal is open");
        self
    }

    /// The exit code of the command once it has ended, and all that was shown.
    pub(super) async fn ends(mut self) -> (Option<i32>, String) {
        let ended = async {
            while self.more().await {}
            self.child.wait().await.expect("it ends")
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        let Ok(status) = ended else { panic!("it does not end: {}", self.seen) };
        (status.code(), self.seen)
    }

    /// Reads what is shown next; false if nothing will be.
    async fn more(&mut self) -> bool {
        let mut piece = [0; 4096];
        // A terminal that its last command has left gives an error.
        let count = self.screen.read(&mut piece).await.unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&piece[..count]).replace("\r\n", "\n"));
        count > 0
    }
}
