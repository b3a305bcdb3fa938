//! The limit of open files: that of the running server, or the one that a server would get from here.
//!
//! Deliberately absent: the limits of a unit or a container, which are seen once the server runs in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use callboard_cli::doctor::Finding;
use rustix::fs::{major, minor};
use rustix::process::{Resource, getrlimit};

use crate::service::within;

const CHECK: &str = "open files";

/// Compares the limit with the connections that the settings want.
pub(super) fn check(store: &Path, runs: bool, wanted: u32) -> Finding {
    let (limit, whose) = if runs {
        match holder(store).and_then(limit_of) {
            Some(limit) => (Some(limit), "the server's limit"),
            None => {
                return Finding::ok(
                    CHECK,
                    "the limit of the running server cannot be read by this user",
                );
            }
        }
    } else {
        (getrlimit(Resource::Nofile).maximum, "the limit of this shell")
    };
    let permitted = within(limit, wanted);
    let limit = limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string());
    if permitted >= wanted {
        return Finding::ok(CHECK, format!("{whose} is {limit}, enough for {wanted} connections"));
    }
    Finding::warn(
        CHECK,
        format!(
            "{whose} is {limit}: {permitted} connections are taken at once, of [server] max_connections = {wanted}"
        ),
        "raise it: LimitNOFILE in the unit, ulimits in a container, ulimit -Hn in a shell",
    )
}

/// The process that has locked the directory, as the kernel lists it.
pub(in crate::cli) fn holder(directory: &Path) -> Option<u32> {
    let metadata = fs::metadata(directory).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let of =
        format!("{:02x}:{:02x}:{}", major(metadata.dev()), minor(metadata.dev()), metadata.ino());
    let mut lines = locks.lines().map(str::split_whitespace);
    lines.find_map(|words| {
        let words: Vec<_> = words.collect();
        let at = words.iter().position(|word| *word == of)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    })
}

/// The limit of open files of a process.
fn limit_of(process: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_directory_and_its_limit_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(holder(directory.path()), None);
        let file = fs::File::open(directory.path()).expect("it is there");
        file.lock().expect("it can be locked");
        assert_eq!(holder(directory.path()), Some(std::process::id()));
        let own = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(limit_of(std::process::id()), Some(own));
        assert!(check(directory.path(), true, 1).is_ok());
        assert!(!check(directory.path(), true, u32::MAX).is_ok());
    }
}
