//! `callboard admin`: what the owner of a stopped server's data may do without an account.

use std::path::Path;

use callboard_cli::process::{announce, block_on};
use callboard_common::secret::Secret;

use super::serve::start;
use super::{AdminCommand, Reset, Serve};
use crate::service::AdminReset;

/// The variable of the password; the file that `<name>_FILE` names may hold it too.
const PASSWORD: &str = "CALLBOARD_NEW_PASSWORD";

/// Runs a command.
pub(super) fn run(command: AdminCommand) -> Result<(), String> {
    let AdminCommand::Reset(Reset { email, data_dir, store, config }) = command;
    let config = start(&Serve {
        listen: None,
        data_dir,
        store,
        config,
        init: false,
        check: false,
        paused: false,
    })?;
    let reset = AdminReset { email, password: password()? };
    let done = block_on(async { reset.run(&config).await.map_err(|error| error.to_string()) })?;
    announce(&format!(
        "{} is an admin and has a new password; all its sessions have ended",
        done.email
    ));
    if let Some(password) = done.made {
        announce(&format!("password until the first sign-in: {}", password.expose()));
    }
    Ok(())
}

/// The given password.
fn password() -> Result<Option<Secret>, String> {
    let given = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(text) = given(PASSWORD) {
        return Ok(Some(Secret::new(text)));
    }
    let Some(path) = given(&format!("{PASSWORD}_FILE")) else { return Ok(None) };
    let text = std::fs::read_to_string(Path::new(&path));
    let text = text.map_err(|error| format!("the password cannot be read from {path}: {error}"))?;
    Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned())))
}
