//! The disk of the data directory: its kind, whether it syncs, its space, and files from the future.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use callboard_cli::doctor::Finding;
use rustix::fs::statvfs;

use super::existing;

/// File systems whose server is another machine, or another program.
const REMOTE: [&str; 13] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "afs",
    "virtiofs",
];
/// File systems that lose everything with the machine or the container.
const FLEETING: [&str; 3] = ["tmpfs", "ramfs", "overlay"];
/// Options of a mount under which a sync does not reach the disk.
const UNSYNCED: [&str; 4] = ["nobarrier", "barrier=0", "volatile", "fsync_mode=nobarrier"];

/// A sync takes longer than this on any device; a shorter one was none.
const NO_SYNC: Duration = Duration::from_micros(3);
/// A sync that takes longer than this makes every commit slow.
const SLOW_SYNC: Duration = Duration::from_millis(50);
const SYNCS: usize = 9;
const LEAST_SPACE: u64 = 1 << 30;
/// The time by which a file may be ahead of the clock.
const AHEAD: Duration = Duration::from_mins(1);

/// Checks the disk of the data directory, or of the nearest directory above it.
pub(super) fn check(data_dir: &Path) -> Vec<Finding> {
    let Some(directory) = existing(data_dir) else {
        let detail = format!("{} has no directory above it", data_dir.display());
        return vec![Finding::broken("disk", detail, "correct [server] data_dir")];
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let kind = kind(&mounts, &directory);
    // A file system in memory syncs at once, and a remote one as it likes: its kind is the finding.
    let is_disk = kind.is_ok();
    let mut findings = vec![kind];
    findings.extend(match times(&directory) {
        Ok(times) => is_disk.then(|| synced(times)),
        Err(error) => Some(unwritten(&directory, &error)),
    });
    findings.extend(statvfs(&directory).ok().map(|disk| {
        let of = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        space(of(disk.f_bavail), of(disk.f_blocks))
    }));
    findings.push(clock(&data_dir.join("store"), SystemTime::now()));
    findings
}

/// The mount of a directory: its file system and its options.
fn mount<'a>(mounts: &'a str, directory: &Path) -> Option<(&'a str, Vec<&'a str>)> {
    let read = |line: &'a str| {
        // 36 35 98:0 /root /mount options … - type source options
        let (own, rest) = line.split_once(" - ")?;
        let (at, options) = (own.split(' ').nth(4)?, own.split(' ').nth(5)?);
        let mut rest = rest.split(' ');
        let (kind, of_disk) = (rest.next()?, rest.nth(1).unwrap_or_default());
        let at = PathBuf::from(at.replace("\\040", " "));
        let options = options.split(',').chain(of_disk.split(',')).collect();
        directory.starts_with(&at).then(|| (at.as_os_str().len(), kind, options))
    };
    // A later mount hides an earlier one at the same place.
    let found = mounts.lines().filter_map(read).max_by_key(|(length, ..)| *length);
    found.map(|(_, kind, options)| (kind, options))
}

fn kind(mounts: &str, directory: &Path) -> Finding {
    const CHECK: &str = "disk";
    let Some((kind, options)) = mount(mounts, directory) else {
        return Finding::ok(CHECK, "its file system is not known");
    };
    let place = directory.display();
    if REMOTE.contains(&kind) || kind.starts_with("fuse") {
        return Finding::warn(
            CHECK,
            format!(
                "{place} is on {kind}, a network or user-space file system: its syncs and locks may not hold"
            ),
            "put [server] data_dir on a local disk (ext4, XFS), or use PostgreSQL: [store] url",
        );
    }
    if FLEETING.contains(&kind) {
        return Finding::warn(
            CHECK,
            format!("{place} is on {kind}: everything is lost with the machine or the container"),
            "put [server] data_dir on a disk, or mount a volume there",
        );
    }
    if let Some(option) = UNSYNCED.iter().find(|option| options.contains(option)) {
        return Finding::broken(
            CHECK,
            format!("{place} is mounted with {option}: a power cut loses acknowledged work"),
            format!("mount it without {option}"),
        );
    }
    Finding::ok(CHECK, format!("{place} is on {kind}"))
}

/// The times of writes and their syncs in the directory.
fn times(directory: &Path) -> io::Result<Vec<Duration>> {
    let path = directory.join(format!(".callboard-doctor-{}", std::process::id()));
    let measure = |mut file: File| {
        (0..SYNCS)
            .map(|_| {
                file.write_all(&[0x5a; 4096])?;
                let begun = Instant::now();
                file.sync_data().map(|()| begun.elapsed())
            })
            .collect()
    };
    let measured = File::create_new(&path).and_then(measure);
    // Nothing was made if it could not be.
    let _ = fs::remove_file(&path);
    measured
}

fn synced(mut times: Vec<Duration>) -> Finding {
    const CHECK: &str = "sync";
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let micros = median.as_micros();
    if median < NO_SYNC {
        return Finding::broken(
            CHECK,
            format!(
                "a sync took {micros} µs, which no disk does: syncs are turned off (libeatmydata, or a disk \
                 that only claims to sync)"
            ),
            "start without LD_PRELOAD=libeatmydata.so, and turn off unsafe caching in the virtual machine",
        );
    }
    if median > SLOW_SYNC {
        return Finding::warn(
            CHECK,
            format!("a sync takes {} ms, and each acknowledgement waits for one", micros / 1000),
            "use a local SSD for [server] data_dir",
        );
    }
    Finding::ok(CHECK, format!("a sync takes {micros} µs"))
}

/// The directory cannot be written.
fn unwritten(directory: &Path, error: &io::Error) -> Finding {
    let place = directory.display();
    let kind = error.kind();
    let advice = if kind == io::ErrorKind::PermissionDenied {
        "run it as the user of the server: sudo -u callboard callboard doctor …".to_owned()
    } else if kind == io::ErrorKind::ReadOnlyFilesystem {
        "make the directory writable: ReadWritePaths in the unit, a volume in a container".into()
    } else {
        format!("make room or repair the disk{}", callboard_store::advice(error))
    };
    Finding::broken("sync", format!("{place} cannot be written and synced: {error}"), advice)
}

fn space(free: u64, whole: u64) -> Finding {
    const CHECK: &str = "space";
    let megabytes = free / 1_000_000;
    if free < LEAST_SPACE.min(whole / 20) {
        return Finding::broken(
            CHECK,
            format!("{megabytes} MB are free: the server ends when the disk is full"),
            "make room; callboard compact shrinks the data directory of a stopped server",
        );
    }
    Finding::ok(CHECK, format!("{megabytes} MB are free"))
}

/// Compares the clock with the newest file of the store.
fn clock(store: &Path, now: SystemTime) -> Finding {
    const CHECK: &str = "clock";
    let files = fs::read_dir(store).into_iter().flatten().filter_map(Result::ok);
    let modified = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    let ahead = modified.max().and_then(|newest| newest.duration_since(now).ok());
    match ahead.filter(|ahead| *ahead > AHEAD) {
        Some(ahead) => Finding::broken(
            CHECK,
            format!(
                "the data was written {} s after the time of this machine's clock: the clock is wrong",
                ahead.as_secs()
            ),
            "synchronise the clock with NTP (timedatectl set-ntp true) before the server starts",
        ),
        None => Finding::ok(CHECK, "not behind the stored data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:5 / /dev/shm rw - tmpfs tmpfs rw
24 22 0:6 / /mnt/far rw - nfs4 nas:/x rw,vers=4.2
25 22 0:7 / /mnt/a\\040b rw - fuse.sshfs u@h: rw
26 22 8:2 / /fast rw,noatime - ext4 /dev/sdb1 rw,nobarrier
27 22 0:8 / /layer rw - overlay overlay rw,lowerdir=/l
28 24 8:3 / /mnt/far/near rw - xfs /dev/sdc1 rw
";

    #[test]
    fn file_systems_that_keep_no_promise_are_named() {
        for (path, is_ok, is_broken, names) in [
            ("/var/lib/callboard", true, false, "ext4"),
            ("/dev/shm/x", false, false, "tmpfs"),
            ("/mnt/far/x", false, false, "nfs4"),
            ("/mnt/far/near/x", true, false, "xfs"),
            ("/mnt/a b/x", false, false, "fuse.sshfs"),
            ("/fast", false, true, "nobarrier"),
            ("/faster", true, false, "ext4"),
            ("/layer/x", false, false, "container"),
        ] {
            let found = kind(MOUNTS, Path::new(path));
            assert_eq!((found.is_ok(), found.is_broken()), (is_ok, is_broken), "{path}: {found:?}");
            assert!(found.detail().contains(names), "{path}: {found:?}");
        }
    }

    #[test]
    fn syncs_are_measured() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(times(directory.path()).expect("it can be written").len(), SYNCS);
        assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
        assert!(times(&directory.path().join("absent")).is_err());
        let of = |micros| synced(vec![Duration::from_micros(micros); 3]);
        assert!(of(1).is_broken() && of(800).is_ok());
        assert!(!of(90_000).is_ok() && !of(90_000).is_broken());
    }

    #[test]
    fn a_full_disk_and_a_clock_that_was_set_back_are_found() {
        assert!(space(100 << 20, 100 << 30).is_broken());
        assert!(space(100 << 20, 1 << 30).is_ok(), "a tenth of a small disk");
        assert!(space(50 << 30, 100 << 30).is_ok());
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("journal.0"), "x").expect("it is written");
        let now = SystemTime::now();
        assert!(clock(directory.path(), now).is_ok());
        let found = clock(directory.path(), now - Duration::from_hours(1));
        assert!(found.is_broken() && found.detail().contains("clock is wrong"), "{found:?}");
    }
}
