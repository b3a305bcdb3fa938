//! Workers and health on the wire (docs/reference/workers.md).

use callboard_domain::id::WorkerId;
use callboard_domain::worker::Monotonic;
use callboard_runtime::worker::View;
use serde::Serialize;
use utoipa::ToSchema;

use super::common::{Iso, Text};

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBody {
    /// `wrk_…`
    #[schema(value_type = String)]
    pub id: Text<WorkerId>,
    /// The name that it gives itself.
    pub name: String,
    /// The version of the worker's program.
    pub version: String,
    /// active, draining or lost.
    pub status: &'static str,
    /// The queues that it serves.
    pub queues: Vec<String>,
    /// The models that it runs: names, prefixes such as `gpt-*`, or `*`.
    pub models: Vec<String>,
    /// The names of the functions that it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The number of tasks that it runs at the same time.
    pub concurrency: usize,
    /// The number of tasks that the worker has.
    pub running: usize,
    /// The time of the last connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<Iso>,
    /// The time of the last heartbeat.
    pub last_heartbeat_at: Iso,
}

impl WorkerBody {
    /// A worker as it is at `moment`.
    #[must_use]
    pub fn new(view: View, moment: Monotonic) -> Self {
        let status = view.worker.status(moment).as_str();
        let running = view.worker.running();
        let id = Text(view.worker.id);
        let profile = view.worker.profile;
        let functions = profile.iter().flat_map(|profile| profile.functions.iter());
        let functions = functions.map(|function| function.name.clone()).collect();
        let (name, version, queues, models, concurrency) = profile
            .map(|p| (p.name, p.version, p.queues, p.models, p.concurrency))
            .unwrap_or_default();
        Self {
            id,
            name,
            version,
            status,
            queues,
            models,
            functions,
            concurrency,
            running,
            connected_at: view.connected_at.map(Iso),
            last_heartbeat_at: Iso(view.last_heard_at),
        }
    }
}

/// The state of the service.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The worst of its components: ok, degraded or unavailable.
    pub status: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// The release of the IANA time-zone database by which schedules go, such as 2026a.
    pub time_zone_data: &'static str,
    /// The time since the start, in milliseconds.
    pub uptime_ms: u64,
    /// The parts of the service.
    pub components: Components,
    /// The pause of everything, and its reason; absent while tasks are leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Settings that do not go together, and certificates that end within two weeks; they do not change the status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The parts of the service.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Components {
    /// The workflow engine.
    pub engine: Component,
    /// The database.
    pub database: Component,
    /// The workers.
    pub workers: Component,
    /// The vector store, which this server lacks.
    pub vector_store: Component,
}

/// The state of one component.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Component {
    /// ok, degraded, unavailable or `not_configured`.
    pub status: &'static str,
    /// The text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Component {
    /// A component without a fault.
    #[must_use]
    pub const fn ok() -> Self {
        Self { status: "ok", detail: None }
    }
}
