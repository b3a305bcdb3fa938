//! The sources of secrets: the environment, a file, the terminal without an echo, standard input.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use callboard_common::secret::Secret;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::failure::Failure;

/// The key of the flag's file, of the environment, or of the file that the environment names.
pub(super) fn api_key(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    match file {
        Some(path) => read(path).map(Some),
        None => variable("CALLBOARD_API_KEY"),
    }
    .map(|key| key.map(|key| Secret::new(key.expose().trim().to_owned())))
}

/// The secret in the variable `name`, or in the file that `<name>_FILE` names.
pub(super) fn variable(name: &str) -> Result<Option<Secret>, Failure> {
    let given = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(text) = given(name) {
        return Ok(Some(Secret::new(text)));
    }
    given(&format!("{name}_FILE")).map(|path| read(Path::new(&path))).transpose()
}

/// A password from `<name>` or `<name>_FILE`, from a terminal after a question, else from the first
/// line of standard input.
pub(super) async fn password(name: &str, question: &'static str) -> Result<Secret, Failure> {
    if let Some(secret) = variable(name)? {
        return Ok(secret);
    }
    let echo = Echo::now();
    // A read cannot be cancelled, so it has a thread of its own; the end of the process ends it.
    let answer = tokio::task::spawn_blocking(move || ask(question));
    let interrupted = tokio::signal::ctrl_c();
    let text = tokio::select! {
        answer = answer => answer.map_err(|error| Failure::Other(error.to_string()))?,
        _ = interrupted => {
            drop(echo);
            return Err(Failure::Interrupted);
        }
    };
    let text = text.map_err(|error| Failure::Other(format!("no password: {error}")))?;
    if text.is_empty() {
        let message = format!(
            "a password is needed: on a terminal, from {name} or {name}_FILE, or \
                               on standard input"
        );
        return Err(Failure::Usage(message));
    }
    Ok(Secret::new(text))
}

fn read(path: &Path) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Other(format!("the secret cannot be read from {}: {error}", path.display()))
    })?;
    Ok(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn ask(question: &str) -> io::Result<String> {
    let mut line = String::new();
    if !io::stdin().is_terminal() {
        io::stdin().lock().read_line(&mut line)?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    write!(io::stderr(), "{question}: ")?;
    io::stderr().flush()?;
    let echo = Echo::off();
    let read = io::stdin().lock().read_line(&mut line);
    drop(echo);
    writeln!(io::stderr())?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// The terminal's settings, restored when this is dropped.
struct Echo(Option<rustix::termios::Termios>);

impl Echo {
    fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    fn off() -> Self {
        let before = Self::now();
        if let Some(mut modes) = before.0.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            // An input that is no terminal has no echo either.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &modes);
        }
        before
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
