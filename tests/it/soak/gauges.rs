//! What a process takes, from outside: memory, threads, open files, disk; and whether it grows.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What was read at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Seconds since the load began.
    pub(crate) at: f64,
    /// Resident memory, in MB.
    pub(crate) memory: f64,
    pub(crate) threads: f64,
    pub(crate) files: f64,
    /// What the data directory takes on disk, in MB.
    pub(crate) disk: f64,
    /// How many tasks are listed.
    pub(crate) listed: f64,
}

impl Reading {
    /// `None` if the process is gone.
    pub(crate) fn take(at: f64, pid: u32, data: &Path, listed: u64) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let figure = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        Some(Self {
            at,
            memory: figure("VmRSS:")? / 1024.0,
            threads: figure("Threads:")?,
            files: count(files as u64),
            disk: count(on_disk(data)) / f64::from(1 << 20),
            listed: count(listed),
        })
    }
}

/// What is counted here is far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "it is far below 2^53")]
pub(crate) const fn count(count: u64) -> f64 {
    count as f64
}

/// How many bytes the files of a directory take up; a file that goes meanwhile takes none.
pub(crate) fn on_disk(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => on_disk(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Whether a gauge stays where it is: the first third is warm-up, and the most of the last third is
/// at most a tenth and `slack` above the most of the second. A saw, as restarts make one, is flat.
pub(crate) fn flat(name: &str, values: &[f64], slack: f64) -> Result<(), String> {
    let third = values.len() / 3;
    if third < 3 {
        return Err(format!("{name}: {} readings are too few", values.len()));
    }
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (before, after) = (most(&values[third..2 * third]), most(&values[2 * third..]));
    if after > before * 1.1 + slack {
        return Err(format!("{name} grows: at most {before:.1}, and then {after:.1}"));
    }
    Ok(())
}

#[test]
fn what_grows_is_told_from_what_goes_up_and_down() {
    let grows: Vec<f64> = (0..60).map(|n| 100.0 + f64::from(n) * 4.0).collect();
    assert!(flat("it", &grows, 5.0).is_err());
    let saw: Vec<f64> = (0..60).map(|n| 100.0 + f64::from(n % 20) * 5.0).collect();
    assert_eq!(flat("it", &saw, 0.0), Ok(()));
    let warm: Vec<f64> = (0..60).map(|n| f64::from(n.min(15)) * 10.0).collect();
    assert_eq!(flat("it", &warm, 0.0), Ok(()));
    assert!(flat("it", &[1.0; 8], 0.0).is_err(), "too little to say");
}
