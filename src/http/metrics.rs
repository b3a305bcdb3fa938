//! `/metrics`: the figures of the runtime, and those of the process and its surface (docs/reference/metrics.md).

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::Error;
use callboard_domain::id::{Environment, Slot};
use callboard_runtime::metrics::Histogram;
use callboard_store::Protection;
use callboard_wire::metrics::{BackupFigures, Format, Process, Server, written};
use tokio::sync::Semaphore;

use super::{App, ClusterDoor, Failure};
use crate::outbound::traces::Traces;
use crate::tls::Tls;

/// Counters and gauges in the text of Prometheus, or of `OpenMetrics` if the header Accept names it.
#[utoipa::path(
    get, path = "/api/metrics", tag = "system",
    responses((status = 200, content_type = "text/plain", body = String)),
)]
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let figures = app.handle.figures().await?;
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let of = Arc::clone(&app);
    let write = move || written(figures, of.server_figures(), format);
    // All scrapes have one share, as some come without a credential.
    let text = app.handle.compute(Environment::LIVE, "metrics", Some(0), write).await?;
    Ok(([(CONTENT_TYPE, format.content_type())], text).into_response())
}

/// The limits that a refusal with 429 names.
const LIMITS: [&str; 6] =
    ["requests", "open_streams", "connections", "unfinished_tasks", "unfinished_bodies", "waiting"];

/// The limit that a refused request has met, as an extension of its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetLimit(usize);

impl MetLimit {
    /// The limit that an error names.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let met: [bool; LIMITS.len()] = [
            matches!(error, Error::RateLimited { .. }),
            matches!(error, Error::TooManyOpen { .. }),
            matches!(error, Error::TooManyConnections { .. }),
            matches!(error, Error::TooManyUnfinished { .. }),
            matches!(error, Error::TooMuchUnfinished { .. }),
            matches!(error, Error::TooMuchWaits { .. }),
        ];
        met.into_iter().position(|met| met).map(Self)
    }
}

/// The bounds of the times until an answer, in microseconds.
const REQUEST_BOUNDS: &[u64] = &[
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

#[derive(Debug)]
struct RequestTimes(Histogram);

impl Default for RequestTimes {
    fn default() -> Self {
        Self(Histogram::new(REQUEST_BOUNDS))
    }
}

/// The counters of the HTTP interface.
#[derive(Debug, Default)]
pub(super) struct HttpMetrics {
    responses: [AtomicU64; 5],
    /// The time until the head of an answer, in microseconds.
    requests: RequestTimes,
    /// Requests that were refused with 429, by limit.
    limited: [AtomicU64; LIMITS.len()],
    pub(super) sign_ins_refused: AtomicU64,
    /// Refusals of each project's requests with 429 and with 503.
    refusals: Mutex<HashMap<Slot, [u64; 2]>>,
    connections: std::sync::OnceLock<(Arc<Semaphore>, usize)>,
}

impl HttpMetrics {
    /// Counts an answer.
    pub(super) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        if let Some(counter) = class.checked_sub(1).and_then(|class| self.responses.get(class)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an answer of a request that waits for no work, and the time until it.
    pub(super) fn took(&self, response: &Response, duration: Duration) {
        let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_stream = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        if !is_stream && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            self.requests.0.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        }
        if let Some(MetLimit(limit)) = response.extensions().get() {
            self.limited[*limit].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an answer to a request of a project, if it is a refusal because of a limit or of load.
    pub(super) fn answered_in(&self, project: Slot, status: StatusCode) {
        let which = match status {
            StatusCode::TOO_MANY_REQUESTS => 0,
            StatusCode::SERVICE_UNAVAILABLE => 1,
            _ => return,
        };
        self.refusals().entry(project).or_default()[which] += 1;
    }

    fn refusals(&self) -> MutexGuard<'_, HashMap<Slot, [u64; 2]>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the slots of connections, and their number in all.
    pub(super) fn connects_by(&self, slots: &Arc<Semaphore>, all: usize) {
        // A service that listens twice reports the first listener.
        let _ = self.connections.set((Arc::clone(slots), all));
    }

    fn connections(&self) -> u64 {
        let taken = self.connections.get().map(|(slots, all)| all - slots.available_permits());
        taken.unwrap_or_default() as u64
    }
}

impl App {
    /// The figures of the process and its surface. Reads a few files.
    fn server_figures(&self) -> Server {
        let uptime = self.started.elapsed();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let spans = self.traces.as_ref().map(Traces::counts).unwrap_or_default();
        Server {
            uptime,
            started: now.saturating_sub(uptime).as_secs_f64(),
            connections: self.surface.connections(),
            streams: self.streams.count(),
            worker_sockets: self.worker_sockets.count(),
            responses: self.surface.responses.each_ref().map(|one| one.load(Ordering::Relaxed)),
            limited: {
                let counts = self.surface.limited.iter().map(|one| one.load(Ordering::Relaxed));
                LIMITS.into_iter().zip(counts).collect()
            },
            requests: Some(self.surface.requests.0.read(1_000_000.0)),
            sign_ins_refused: self.surface.sign_ins_refused.load(Ordering::Relaxed),
            logged: crate::telemetry::logged(),
            refusals: {
                let (names, counts) = (self.handle.project_names(), self.surface.refusals());
                let count = |slot| counts.get(&slot).copied().unwrap_or_default();
                names.into_iter().map(|(slot, name)| (name, count(slot))).collect()
            },
            store_bytes: store_bytes(&self.data_dir.join("store")),
            disk: disk(&self.data_dir),
            cluster: self.cluster.as_ref().and_then(ClusterDoor::figures),
            backup: self.store.upgrade().map(|store| restorable(&store.protection())),
            spans: [spans.exported, spans.dropped],
            certificates: self.tls.iter().flat_map(Tls::left).collect(),
            process: process(),
        }
    }
}

/// The times that can be restored.
fn restorable(protection: &Protection) -> BackupFigures {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = |millis| Duration::from_millis(millis).as_secs_f64();
    let moments = protection.restorable(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    BackupFigures {
        restorable: moments.map(|(from, to)| [seconds(from), seconds(to)]),
        archived: protection.archive.as_ref().map(|_| protection.fault().is_none()),
    }
}

/// The bytes of the journal and of all else in the store's directory.
fn store_bytes(directory: &Path) -> [u64; 2] {
    let (mut journal, mut rows) = (0, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // A file may disappear between the listing and the look at it.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            rows += store_bytes(&entry.path()).iter().sum::<u64>();
        } else if entry.file_name().as_encoded_bytes().starts_with(b"journal") {
            journal += metadata.len();
        } else {
            rows += metadata.len();
        }
    }
    [journal, rows]
}

/// The free and all bytes of a directory's file system.
pub(super) fn disk(directory: &Path) -> Option<[u64; 2]> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    Some([disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize])
}

/// The memory of this process, in bytes.
pub(super) fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The figures of Linux; nothing elsewhere.
fn process() -> Process {
    let field = |text: &str, at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
    let status = std::fs::read_to_string("/proc/self/stat").ok();
    // The second field is the program's name in brackets, which may have spaces.
    let cpu_seconds =
        status.as_deref().and_then(|text| text.rsplit_once(')')).and_then(|(_, text)| {
            let ticks = field(text, 11)? + field(text, 12)?;
            #[expect(clippy::cast_precision_loss, reason = "exact for many years")]
            Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        });
    let resident_bytes = resident();
    let open = std::fs::read_dir("/proc/self/fd").ok();
    let open_fds = open.map(|files| files.count() as u64);
    let max_fds = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Process { cpu_seconds, resident_bytes, open_fds, max_fds }
}
