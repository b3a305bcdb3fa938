//! Messages to the supervisor of the process (`sd_notify(3)`): ready, reading the settings again, stopping.
//!
//! Without `NOTIFY_SOCKET` nothing is sent. Deliberately absent: a watchdog, and descriptors that are kept.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the address of the supervisor's socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the supervisor that the server answers, at this URL.
pub(super) fn ready(url: &str) {
    tell(&format!("READY=1\nSTATUS=listening on {url}\n"));
}

/// Tells the supervisor that the settings are read again; [`ready`] follows.
pub(super) fn reloading() {
    tell("RELOADING=1\n");
}

/// Tells the supervisor that the server stops.
pub(super) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping\n");
}

fn tell(message: &str) {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
    if let Err(error) = send(&path, message) {
        tracing::warn!(%error, "the supervisor at {VARIABLE} cannot be told about the start or the stop");
    }
}

/// Sends a message to a socket of the file system, or to an abstract one, whose name begins with `@`.
fn send(path: &OsStr, message: &str) -> io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let name = format!("callboard-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        for (socket, address) in [
            (UnixDatagram::bind(&path), path.as_os_str()),
            (UnixDatagram::bind_addr(&abstract_name), OsStr::new(&format!("@{name}"))),
        ] {
            let socket = socket.expect("a socket");
            send(address, "READY=1\n").expect("it is told");
            let mut read = [0; 32];
            let length = socket.recv(&mut read).expect("a message");
            assert_eq!(&read[..length], b"READY=1\n");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "READY=1\n").is_err());
    }
}
