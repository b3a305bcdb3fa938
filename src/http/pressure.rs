//! The disk and the memory that new work needs: it is refused before either is used up, so that running work can end.
//!
//! ```text
//! a thread, once a second ─▶ Pressure ─▶ guard: 507 without disk, 503 without memory
//!                               └─▶ the reserve, which a full disk gets back
//! ```
//!
//! Deliberately absent: the rule of the disk ([`callboard_domain::room`]), and the occurrences of schedules, which a low
//! disk does not hold up.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use axum::http::Method;
use callboard_domain::Error;
use callboard_domain::access::Action;
use callboard_domain::room::{Held, LAST, Room};
use callboard_runtime::Handle;
use callboard_store::Reserve;

use super::metrics;

const INTERVAL: Duration = Duration::from_secs(1);
/// The tenths of the memory that may be used before new work is refused.
const TENTHS: u64 = 9;

/// The bounds.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The reserve of the disk that counts; `None` without an embedded store.
    pub disk: Option<Reserve>,
    /// The free bytes that the disk must have.
    pub min_free_bytes: u64,
    /// The bytes of memory; `None` for those of the control group, if it has a limit.
    pub memory_bytes: Option<u64>,
}

/// The last measurements.
#[derive(Debug)]
pub(super) struct Pressure {
    disk: Option<Disk>,
    max_resident: u64,
    resident: AtomicU64,
}

#[derive(Debug)]
struct Disk {
    reserve: Reserve,
    min_free: u64,
    free: AtomicU64,
    is_full: AtomicBool,
}

impl Pressure {
    /// Measures once, and then once a second for as long as the returned value is held.
    pub(super) fn watch(bounds: Bounds, handle: &Handle) -> Arc<Self> {
        let memory = bounds.memory_bytes.or_else(group_limit).map(|bytes| bytes / 10 * TENTHS);
        let disk = |reserve| Disk {
            reserve,
            min_free: bounds.min_free_bytes,
            free: AtomicU64::new(u64::MAX),
            is_full: AtomicBool::new(false),
        };
        let pressure = Arc::new(Self {
            disk: bounds.disk.map(disk),
            max_resident: memory.unwrap_or(u64::MAX),
            resident: AtomicU64::new(0),
        });
        pressure.measure(handle);
        let (watched, handle) = (Arc::downgrade(&pressure), handle.clone());
        if pressure.disk.is_some() || pressure.max_resident < u64::MAX {
            let watch = move || follow(&watched, &handle);
            if let Err(error) = thread::Builder::new().name("pressure".into()).spawn(watch) {
                tracing::error!(%error, "the free disk and memory are measured at the start only");
            }
        }
        pressure
    }

    fn measure(&self, handle: &Handle) {
        if let Some(disk) = &self.disk {
            disk.measure(handle);
        }
        if self.max_resident < u64::MAX
            && let Some(resident) = metrics::resident()
        {
            let before = self.resident.swap(resident, Ordering::Relaxed);
            let limit = self.max_resident;
            if resident >= limit && before < limit {
                tracing::warn!(resident, limit, "memory is short: new work is refused");
            } else if resident < limit && before >= limit {
                tracing::info!(resident, "memory is free again: new work is accepted");
            }
        }
    }

    /// Passes if there is room for new work.
    ///
    /// # Errors
    /// [`Error::DiskLow`], [`Error::DiskFull`], [`Error::Unavailable`].
    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_growth()?;
        if let Some(Disk { min_free, free, .. }) = &self.disk {
            let free = free.load(Ordering::Relaxed);
            if free < *min_free {
                return Err(Error::DiskLow { free, needed: *min_free });
            }
        }
        if self.resident.load(Ordering::Relaxed) >= self.max_resident {
            let short = "it is short of memory, and takes no new work; running work goes on";
            return Err(Error::Unavailable(short));
        }
        Ok(())
    }

    /// Passes unless the disk is full.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    pub(super) fn check_growth(&self) -> Result<(), Error> {
        match &self.disk {
            Some(disk) if disk.is_full.load(Ordering::Relaxed) => {
                let free = disk.free.load(Ordering::Relaxed);
                Err(Error::DiskFull { free, needed: 2 * LAST })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Disk {
    /// The room at the last look.
    fn room(&self) -> Room {
        if self.is_full.load(Ordering::Relaxed) {
            Room::Full
        } else if self.free.load(Ordering::Relaxed) < self.min_free {
            Room::Low
        } else {
            Room::Enough
        }
    }

    fn measure(&self, handle: &Handle) {
        let Self { reserve, min_free, .. } = self;
        let Ok(free) = reserve.free() else { return };
        let held = Held { now: reserve.held(), whole: reserve.bytes() };
        let before = self.room();
        let look = before.next(free, *min_free, held);
        self.free.store(free, Ordering::Relaxed);
        self.is_full.store(look.room == Room::Full, Ordering::Relaxed);
        if let Some(bytes) = look.reserve {
            let done = if bytes > held.now { reserve.fill() } else { reserve.keep(bytes) };
            match done {
                Err(error) => tracing::debug!(%error, "the reserve stays as it is"),
                Ok(()) if bytes < held.now => tracing::warn!(
                    bytes = held.now - bytes,
                    "the disk of the data directory is full: the reserve gives it bytes back"
                ),
                Ok(()) => {}
            }
        }
        if look.room == before {
            return;
        }
        if (look.room == Room::Full) != (before == Room::Full) {
            handle.set_disk_full(look.room == Room::Full);
        }
        match look.room {
            Room::Full => tracing::error!(
                free,
                needed = 2 * LAST,
                "the disk of the data directory is full: what adds something is refused, and no task is leased"
            ),
            Room::Low => tracing::warn!(
                free,
                needed = min_free,
                "the disk of the data directory is low: new work is refused"
            ),
            Room::Enough => {
                tracing::info!(
                    free,
                    "the disk of the data directory has room: new work is accepted"
                );
            }
        }
    }
}

fn follow(watched: &Weak<Pressure>, handle: &Handle) {
    loop {
        thread::sleep(INTERVAL);
        let Some(pressure) = watched.upgrade() else { return };
        pressure.measure(handle);
    }
}

/// Further routes that bring new work.
const NEW_WORK: [&str; 4] = ["/api/batches", "/api/files", "/v1/batches", "/v1/files"];

/// True for a request that a full disk has no room for: it adds something, and ends nothing.
pub(super) fn grows(action: Action, method: &Method) -> bool {
    let adds = matches!(
        action,
        Action::PlansCreate
            | Action::TemplatesCreate
            | Action::SchedulesManage
            | Action::HitlDecide
            | Action::HitlClaim
            | Action::HitlExtend
            | Action::ExecutionsSignal
            | Action::DeliveriesRedeliver
    );
    adds && !matches!(*method, Method::GET | Method::HEAD | Method::DELETE)
}

/// True for a request that brings new work.
pub(super) fn is_new_work(action: Action, method: &Method, path: &str) -> bool {
    let creates = matches!(
        action,
        Action::TasksCreate
            | Action::PlansExecute
            | Action::TemplatesDeploy
            | Action::ExecutionsRetry
    );
    *method == Method::POST && (creates || NEW_WORK.contains(&path))
}

/// The limit of memory of this process's control group, or of one around it.
fn group_limit() -> Option<u64> {
    limit_in(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
}

/// The least limit in `root`, for the groups that the kernel lists in `groups`.
fn limit_in(groups: &str, root: &Path) -> Option<u64> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let place = root.join(path.trim_start_matches('/'));
        // In a container the path may be that of the host, and the limit stand in the root.
        let places = place.ancestors().take_while(|at| at.starts_with(&root));
        places.filter_map(|at| fs::read_to_string(at.join(file)).ok()?.trim().parse().ok()).min()
    };
    // The kernel writes "no limit" of the first version as a number that no machine has.
    groups.lines().filter_map(of).filter(|limit| *limit < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).expect("it is ours");
        let limit = || limit_in("0::/a/b\n", root.path());
        assert_eq!(limit(), None);
        fs::write(inner.join("memory.max"), "max\n").expect("it is ours");
        assert_eq!(limit(), None);
        fs::write(root.path().join("a/memory.max"), "1000\n").expect("it is ours");
        assert_eq!(limit(), Some(1000));
        fs::write(inner.join("memory.max"), "500\n").expect("it is ours");
        assert_eq!(limit(), Some(500));
        // The path is that of the host, and the limit stands in the root.
        fs::write(root.path().join("memory.max"), "700\n").expect("it is ours");
        assert_eq!(limit_in("0::/elsewhere\n", root.path()), Some(700));
        fs::create_dir(root.path().join("memory")).expect("it is ours");
        let first = root.path().join("memory/memory.limit_in_bytes");
        fs::write(&first, "9223372036854771712\n").expect("it is ours");
        let of_first = || limit_in("5:memory:/x\n4:cpu:/x\n", root.path());
        assert_eq!(of_first(), None);
        fs::write(&first, "900\n").expect("it is ours");
        assert_eq!(of_first(), Some(900));
    }

    #[test]
    fn new_work_is_refused_and_nothing_else() {
        let new = |action, path| is_new_work(action, &Method::POST, path);
        assert!(new(Action::TasksCreate, "/api/tasks"));
        assert!(new(Action::BatchesRun, "/api/batches"));
        assert!(!new(Action::BatchesRun, "/api/batches/{id}/cancel"));
        assert!(!new(Action::HitlDecide, "/api/hitl/{taskId}/approve"));
        assert!(!is_new_work(Action::TasksCancel, &Method::DELETE, "/api/tasks/{id}"));
        assert!(!new(Action::TextsErase, "/api/tasks/{id}/texts"));
    }

    #[test]
    fn a_full_disk_has_no_room_for_what_adds_something() {
        assert!(grows(Action::HitlDecide, &Method::POST));
        assert!(grows(Action::SchedulesManage, &Method::PATCH));
        assert!(!grows(Action::SchedulesManage, &Method::DELETE));
        assert!(!grows(Action::TextsErase, &Method::POST));
        assert!(!grows(Action::BulkRun, &Method::POST));
        assert!(!grows(Action::KeysManage, &Method::POST));
    }
}
