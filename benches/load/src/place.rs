//! The place of the measurements: the machine, the day, the program.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// The machine, the day and the program of the measurements.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) kernel: String,
    /// The file system of the measured directories.
    pub(super) file_system: String,
    #[serde(skip)]
    pub(super) date: String,
    #[serde(skip)]
    pub(super) commit: String,
}

impl Place {
    /// The place of this process, now; `directory` is on the disk that is measured.
    pub(super) fn here(directory: &Path) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let processor = processors.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = processor.map(|name| name.trim_matches([' ', '\t', ':']).to_owned());
        Self {
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            processor: processor.unwrap_or_else(|| "unknown processor".into()),
            kernel: known(read("/proc/sys/kernel/osrelease").trim()),
            file_system: known(file_system(&read("/proc/self/mounts"), directory)),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit(),
        }
    }

    /// The place in one line.
    pub(super) fn line(&self) -> String {
        let Self { cores, processor, kernel, file_system, date, commit } = self;
        format!(
            "{cores} cores ({processor}), {file_system}, Linux {kernel}, {date}, commit {commit}"
        )
    }
}

fn known(text: &str) -> String {
    if text.is_empty() { "unknown".into() } else { text.into() }
}

/// The commit of the release, else that of the source directory.
fn commit() -> String {
    if let Some(commit) = option_env!("CALLBOARD_COMMIT") {
        return commit.into();
    }
    if !Path::new("actors/runtime/Cargo.toml").exists() {
        return "unknown".into();
    }
    let git = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = git.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    known(&commit.unwrap_or_default())
}

/// The file system of `directory`: of the mounts that hold the directory, the innermost, and of
/// those at one place the last.
fn file_system<'m>(mounts: &'m str, directory: &Path) -> &'m str {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind) = (words.next()?, words.next()?);
            directory.starts_with(at).then_some((at.len(), kind))
        })
        .max_by_key(|(length, _)| *length)
        .map_or("", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "x / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\ny /tmpdata xfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/tmpdata/none")), "xfs");
        assert_eq!(file_system(mounts, Path::new("/none")), "ext4");
        assert_eq!(file_system("", Path::new("/none")), "");
    }
}
