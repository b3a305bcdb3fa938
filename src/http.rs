//! HTTP: every route, and the middleware around it.
//!
//! ```text
//! connection ─▶ serve ─▶ middleware ─▶ guard ─▶ handler
//!                          │        └ authentication, rate limit, permission
//!                          │  request id, panic to 500, envelope, headers, log line
//!                          ◀── Reply or Failure
//! ```
//!
//! A handler is `async fn(…) -> Result<Reply, Failure>`; it never sees the envelope. Deliberately
//! absent: rules of any kind, which the domain has.

mod accounts;
mod app;
mod approvals;
mod audit;
mod auth;
mod backup;
mod batches;
pub mod body;
mod body_budget;
mod browser;
mod budgets;
mod bulk;
mod cells;
mod chat;
mod cluster;
pub mod describe;
mod elsewhere;
pub mod envelope;
pub mod error;
mod events;
mod executions;
pub mod extract;
mod fair_semaphore;
mod feed;
mod files;
pub mod headers;
mod idempotency;
mod invitations;
pub mod limit;
mod loads;
mod mcp;
mod metrics;
pub mod middleware;
mod models;
pub(crate) mod names;
mod oidc;
mod openapi;
pub(crate) mod origin;
mod pages;
mod pause;
mod plans;
mod pressure;
mod projects;
mod queues;
mod revocation;
mod routes;
mod schedules;
mod search;
pub mod serve;
mod setup;
mod signals;
mod signing_key;
mod sse;
mod streams;
mod system;
mod tasks;
mod templates;
mod trace;
mod views;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use callboard_domain::access::Action;

pub use app::{App, Parts};
pub(crate) use auth::{OfHome, Vouched, caller_of, key_in, parameter, person, project_of};
pub(crate) use body_budget::Share;
pub use browser::Browsers;
pub(crate) use chat::batches::run as run_batches;
pub use cluster::ClusterDoor;
pub(crate) use elsewhere::{Answers, AskCells, Elsewhere, OF_CELL};
pub use envelope::Reply;
pub use error::Failure;
pub use extract::{Body, Id, Query};
pub(crate) use feed::{Feed, FeedItem};
pub(crate) use limit::{Counted, OpenPermit};
pub(crate) use middleware::Refusal;
pub use middleware::{Edge, Middleware};
pub use oidc::SignOn;
pub use openapi::document;
pub use pressure::Bounds;
pub(crate) use system::without_active;

use routes::{Access, Own, Routes};

use crate::ws;

/// The result of a handler.
type Answer = Result<Reply, Failure>;

/// Every route, with the action that it needs permission for.
#[rustfmt::skip]
#[expect(clippy::too_many_lines, reason = "every route stands in one list")]
fn table() -> Routes {
    use Access::{Health, Metrics, Public};
    const fn may(action: Action) -> Access { Access::Allowed(action) }
    const fn may_later(action: Action) -> Access { Access::AllowedLater(action) }
    const OWN: Access = Access::Own(Own::PasswordIsOwn);
    const OWN_ALWAYS: Access = Access::Own(Own::Always);
    use Action as A;
    Routes::default()
        .post  ("/api/tasks",                       may(A::TasksCreate),      tasks::create)
        .get   ("/api/tasks",                       may(A::TasksRead),        tasks::list)
        .post  ("/api/tasks/batch",                 may(A::TasksCreate),      tasks::create_batch)
        .post  ("/api/tasks/bulk",                  may(A::TasksCreate),      loads::create_bulk)
        .get   ("/api/tasks/batch/{id}",            may(A::TasksRead),        tasks::get_batch)
        .get   ("/api/tasks/{id}",                  may(A::TasksRead),        tasks::get)
        .delete("/api/tasks/{id}",                  may(A::TasksCancel),      tasks::cancel)
        .delete("/api/tasks/{id}/texts",            may(A::TextsErase),       tasks::erase)
        .post  ("/api/tasks/{id}/retry",            may(A::TasksCreate),      tasks::retry)
        .get   ("/api/tasks/{id}/stream",           may(A::TasksRead),        streams::of_task)

        .get   ("/api/search",                      may(A::TasksRead),        search::search)

        .post  ("/api/views",                       may(A::ViewsManage),      views::create)
        .get   ("/api/views",                       may(A::ViewsManage),      views::list)
        .patch ("/api/views/{id}",                  may(A::ViewsManage),      views::change)
        .delete("/api/views/{id}",                  may(A::ViewsManage),      views::delete)

        .post  ("/api/plans",                       may(A::PlansCreate),      plans::create)
        .get   ("/api/plans",                       may(A::PlansRead),        plans::list)
        .get   ("/api/plans/executions",            may(A::ExecutionsRead),   executions::list)
        .get   ("/api/plans/executions/{id}",       may(A::ExecutionsRead),   executions::get)
        .delete("/api/plans/executions/{id}",       may(A::ExecutionsCancel), executions::cancel)
        .delete("/api/plans/executions/{id}/texts", may(A::TextsErase),       executions::erase)
        .get   ("/api/plans/executions/{id}/stream", may(A::ExecutionsRead),  streams::of_execution)
        .post  ("/api/plans/executions/{id}/retry", may(A::ExecutionsRetry),  executions::retry)
        .post  ("/api/plans/executions/{id}/fork",  may(A::PlansExecute),     executions::fork)
        .get   ("/api/plans/executions/{id}/steps/{step}/items", may(A::ExecutionsRead), executions::items)
        .post  ("/api/plans/executions/{id}/signals/{name}",
                                                    may(A::ExecutionsSignal), signals::send)
        .get   ("/api/plans/{id}",                  may(A::PlansRead),        plans::get)
        .post  ("/api/plans/{id}/execute",          may(A::PlansExecute),     plans::execute)

        .post  ("/api/templates",                   may(A::TemplatesCreate),  templates::create)
        .get   ("/api/templates",                   may(A::TemplatesRead),    templates::list)
        .get   ("/api/templates/{id}",              may(A::TemplatesRead),    templates::get)
        .delete("/api/templates/{id}",              may(A::TemplatesDelete),  templates::delete)
        .patch ("/api/templates/{id}",              may(A::TemplatesCreate),  templates::change)
        .put   ("/api/templates/{id}/latest",       may(A::TemplatesCreate),  templates::set_latest)
        .delete("/api/templates/{id}/latest",       may(A::TemplatesCreate),  templates::follow_highest)
        .get   ("/api/templates/{id}/versions",     may(A::TemplatesRead),    templates::versions)
        .post  ("/api/templates/{id}/deploy",       may(A::TemplatesDeploy),  templates::deploy)

        .post  ("/api/schedules",                   may(A::SchedulesManage),  schedules::create)
        .get   ("/api/schedules",                   may(A::SchedulesRead),    schedules::list)
        .get   ("/api/schedules/{id}",              may(A::SchedulesRead),    schedules::get)
        .patch ("/api/schedules/{id}",              may(A::SchedulesManage),  schedules::change)
        .delete("/api/schedules/{id}",              may(A::SchedulesManage),  schedules::delete)
        .get   ("/api/schedules/{id}/runs",         may(A::SchedulesRead),    schedules::runs)
        .post  ("/api/schedules/{id}/trigger",      may(A::SchedulesManage),  schedules::trigger)

        .get   ("/api/hitl",                        may(A::HitlRead),         approvals::list)
        .get   ("/api/hitl/pending",                may(A::HitlRead),         approvals::list_pending)
        .get   ("/api/hitl/stats",                  may(A::HitlStatistics),       approvals::statistics)
        .get   ("/api/hitl/reviewers",              may(A::HitlRead),         approvals::reviewers)
        .get   ("/api/hitl/calibration",            may(A::HitlStatistics),       approvals::calibration)
        .get   ("/api/hitl/{taskId}",               may(A::HitlRead),         approvals::get)
        .post  ("/api/hitl/{taskId}/approve",       may(A::HitlDecide),       approvals::approve)
        .post  ("/api/hitl/{taskId}/reject",        may(A::HitlDecide),       approvals::reject)
        .post  ("/api/hitl/{taskId}/reopen",        may(A::HitlDecide),       approvals::reopen)
        .post  ("/api/hitl/{taskId}/claim",         may(A::HitlClaim),        approvals::claim)
        .post  ("/api/hitl/{taskId}/extend",        may(A::HitlExtend),       approvals::extend)
        .post  ("/api/hitl/{taskId}/assign",        may(A::HitlDecide),       approvals::assign)
        .post  ("/api/hitl/{taskId}/release",       may(A::HitlClaim),        approvals::release)
        .get   ("/api/hitl/{taskId}/history",       may(A::HitlRead),         approvals::history)

        .post  ("/api/auth/login",                  Public,                   accounts::login)
        .post  ("/api/auth/refresh",                Public,                   accounts::refresh)
        .post  ("/api/auth/setup",                  Public,                   setup::setup)
        .get   ("/api/auth/methods",                Public,                   browser::methods)
        .post  ("/api/auth/cookie",                 OWN_ALWAYS,               browser::set_cookie)
        .get   ("/api/auth/session",                OWN_ALWAYS,               browser::who)
        .post  ("/api/auth/links",                  OWN,                      browser::create_link)
        .post  ("/api/auth/links/preview",          Public,                   browser::preview_link)
        .post  ("/api/auth/links/exchange",         Public,                   browser::exchange_link)
        .get   ("/api/auth/oidc/start",             Public,                   oidc::start)
        .get   ("/api/auth/oidc/callback",          Public,                   oidc::callback)
        .post  ("/api/auth/oidc/program/preview",   Public,                   oidc::preview_program)
        .post  ("/api/auth/oidc/program",           Public,                   oidc::answer_program)
        .post  ("/api/auth/oidc/token",             Public,                   oidc::token)
        .post  ("/api/auth/signing-key/rotate",     may(A::KeysManage),       signing_key::rotate)
        .post  ("/api/auth/users",                  may(A::UsersManage),      accounts::create_user)
        .get   ("/api/auth/users",                  may(A::UsersManage),      accounts::list_users)
        .patch ("/api/auth/users/{id}",             may(A::UsersManage),      accounts::change_user)
        .delete("/api/auth/users/{id}",             may(A::UsersManage),      accounts::delete_user)
        .post  ("/api/auth/invitations",            may(A::UsersManage),      invitations::create)
        .get   ("/api/auth/invitations",            may(A::UsersManage),      invitations::list)
        .delete("/api/auth/invitations/{id}",       may(A::UsersManage),      invitations::revoke)
        .post  ("/api/auth/invitations/preview",    Public,                   invitations::preview)
        .post  ("/api/auth/invitations/accept",     Public,                   invitations::accept)
        .post  ("/api/auth/password/forgotten",     Public,                   invitations::forgotten)
        .post  ("/api/auth/password/reset/preview", Public,                   invitations::preview_reset)
        .post  ("/api/auth/password/reset",         Public,                   invitations::reset)
        .post  ("/api/projects",                   may(A::ProjectsManage),   projects::create)
        .get   ("/api/projects",                   may(A::ProjectsRead),     projects::list)
        .get   ("/api/projects/figures",           may(A::ProjectsRead),     projects::figures)
        .get   ("/api/projects/{id}",              may(A::ProjectsRead),     projects::get)
        .patch ("/api/projects/{id}",              may(A::ProjectsManage),   projects::change)
        .delete("/api/projects/{id}",              may(A::ProjectsManage),   projects::delete)
        .post  ("/api/projects/{id}/move",         may(A::ProjectsManage),   projects::begin_move)
        .delete("/api/projects/{id}/move",         may(A::ProjectsManage),   projects::give_up_move)
        .get   ("/api/projects/{id}/members",      may(A::ProjectsRead),     projects::list_members)
        .put   ("/api/projects/{id}/members/{user}", may(A::MembersManage),  projects::set_member)
        .delete("/api/projects/{id}/members/{user}", may(A::MembersManage),  projects::remove_member)
        .post  ("/api/auth/keys",                   may(A::KeysManage),       accounts::create_key)
        .get   ("/api/auth/keys",                   may(A::KeysManage),       accounts::list_keys)
        .post  ("/api/auth/keys/revoke",           may(A::KeysManage),       revocation::revoke_keys)
        .delete("/api/auth/keys/{id}",              may(A::KeysManage),       accounts::revoke_key)
        .post  ("/api/auth/keys/{id}/rotate",       may(A::KeysManage),       accounts::rotate_key)
        .post  ("/api/auth/logout",                 OWN_ALWAYS,               accounts::logout)
        .post  ("/api/auth/password",               OWN_ALWAYS,               accounts::change_password)
        .get   ("/api/auth/sessions",               OWN,                      accounts::list_sessions)
        .delete("/api/auth/sessions/{id}",          OWN,                      accounts::end_session)
        .get   ("/api/audit",                       may(A::AuditRead),        audit::list)
        .post  ("/api/backups",                     may(A::BackupsCreate),    backup::create)
        .get   ("/api/cluster",                     may(A::ClusterManage),    cluster::nodes)
        .patch ("/api/cluster/nodes/{id}",          may(A::ClusterManage),    cluster::change)

        .post  ("/api/cells",                       may(A::ClusterManage),    cells::add_cell)
        .get   ("/api/cells",                       may(A::ClusterManage),    cells::list_cells)
        .delete("/api/cells/{name}",                may(A::ClusterManage),    cells::remove_cell)

        .get   ("/api/webhooks/deliveries",         may(A::DeliveriesRead),   webhooks::list)
        .post  ("/api/webhooks/deliveries/{id}/redeliver",
                                                    may(A::DeliveriesRedeliver), webhooks::redeliver)
        .post  ("/api/webhooks/secret/rotate",     may(A::KeysManage),       webhooks::rotate)
        .get   ("/api/webhooks/secret",             may(A::WebhookSecretRead), webhooks::secret)

        .get   ("/api/queues",                      may(A::QueuesRead),       queues::list)
        .patch ("/api/queues/{name}",               may(A::QueuesManage),     queues::change)

        .post  ("/api/bulk",                        may(A::BulkRun),          bulk::start)
        .get   ("/api/bulk",                        may(A::BulkRead),         bulk::list)
        .get   ("/api/bulk/{id}",                   may(A::BulkRead),         bulk::get)
        .delete("/api/bulk/{id}",                   may(A::BulkRun),          bulk::stop)

        .post  ("/api/batches",                     may(A::BatchesRun),       batches::create)
        .get   ("/api/batches",                     may(A::BatchesRead),      batches::list)
        .get   ("/api/batches/{id}",                may(A::BatchesRead),      batches::get)
        .delete("/api/batches/{id}",                may(A::BatchesDelete),    batches::delete)
        .get   ("/api/batches/{id}/rows",           may(A::BatchesRead),      batches::rows)
        .get   ("/api/batches/{id}/export",         may(A::BatchesRead),      batches::export)
        .get   ("/api/batches/{id}/compare/{other}", may(A::BatchesRead),     batches::compare)
        .post  ("/api/batches/{id}/estimate",       may(A::BatchesRead),      batches::estimate)
        .post  ("/api/batches/{id}/pause",          may(A::BatchesRun),       batches::pause)
        .post  ("/api/batches/{id}/resume",         may(A::BatchesRun),       batches::resume)
        .post  ("/api/batches/{id}/cancel",         may(A::BatchesRun),       batches::cancel)
        .post  ("/api/batches/{id}/retry",          may(A::BatchesRun),       batches::retry)
        .post  ("/api/batches/{id}/review",         may(A::BatchesRun),       batches::review)

        .post  ("/api/files",                       may(A::FilesManage),      files::upload)
        .get   ("/api/files",                       may(A::FilesRead),        files::list)
        .get   ("/api/files/{id}",                  may(A::FilesRead),        files::get)
        .delete("/api/files/{id}",                  may(A::FilesManage),      files::delete)
        .get   ("/api/files/{id}/content",          may(A::FilesRead),        files::content)

        .post  ("/api/budgets",                     may(A::BudgetsManage),    budgets::create)
        .get   ("/api/budgets",                     may(A::BudgetsRead),      budgets::list)
        .get   ("/api/budgets/{id}",                may(A::BudgetsRead),      budgets::get)
        .patch ("/api/budgets/{id}",                may(A::BudgetsManage),    budgets::change)
        .delete("/api/budgets/{id}",                may(A::BudgetsManage),    budgets::delete)
        .get   ("/api/usage",                       may(A::BudgetsRead),      budgets::usage)

        .get   ("/api/workers",                     may(A::WorkersRead),      system::list_workers)
        .post  ("/api/workers/{id}/drain",          may(A::WorkersManage),    system::drain_worker)
        .get   ("/api/workers/connect",             may(A::TasksExecute),     ws::workers::connect)
        .get   ("/api/functions",                   may(A::WorkersRead),      system::list_functions)
        .get   ("/api/models",                      may(A::ModelsRead),       models::list)
        .put   ("/api/models/{name}/limits",        may(A::ModelsManage),     models::set_limits)
        .delete("/api/models/{name}/pause",         may(A::ModelsManage),     models::end_pause)
        .get   ("/api/events",                      may(A::EventsRead),       events::follow)
        .get   ("/ws",                              may_later(A::EventsRead), ws::clients::connect)

        .get   ("/api/system/backup",               may(A::BackupsRead),      backup::backup_status)
        .post  ("/api/system/backup",               may(A::BackupsCreate),    backup::report_backup)
        .post  ("/api/system/backup/verification",  may(A::BackupsCreate),    backup::report_verification)
        .get   ("/api/system/storage",              may(A::MetricsRead),      system::storage)
        .get   ("/api/system/pause",                may(A::QueuesRead),       pause::show)
        .post  ("/api/system/pause",                may(A::QueuesManage),     pause::pause)
        .delete("/api/system/pause",                may(A::QueuesManage),     pause::resume)
        .get   ("/api/health",                      Health,                   system::health)
        .get   ("/api/metrics",                     Metrics,                  metrics::metrics)
        .get   ("/metrics",                         Metrics,                  metrics::metrics)
        .get   ("/metrics/targets",                 Metrics,                  cells::targets)
        .get   ("/api/openapi.json",                Public,                   openapi::serve)
        .post  ("/v1/chat/completions",             may(A::TasksCreate),      chat::complete)
        .get   ("/v1/models",                       may(A::TasksRead),        chat::list_models)
        .get   ("/v1/models/{*id}",                 may(A::TasksRead),        chat::get_model)
        .post  ("/v1/batches",                      may(A::BatchesRun),       chat::batches::create_batch)
        .get   ("/v1/batches",                      may(A::BatchesRead),      chat::batches::list_batches)
        .get   ("/v1/batches/{id}",                 may(A::BatchesRead),      chat::batches::get_batch)
        .post  ("/v1/batches/{id}/cancel",          may(A::BatchesRun),       chat::batches::cancel_batch)
        .post  ("/v1/files",                        may(A::FilesManage),      chat::files::upload_file)
        .get   ("/v1/files",                        may(A::FilesRead),        chat::files::list_files)
        .get   ("/v1/files/{id}",                   may(A::FilesRead),        chat::files::get_file)
        .delete("/v1/files/{id}",                   may(A::FilesManage),      chat::files::delete_file)
        .get   ("/v1/files/{id}/content",           may(A::FilesRead),        chat::files::get_file_content)

        .post  ("/mcp",                             may(A::TasksRead),        mcp::serve)

        .get   ("/health",                          Health,                   system::bare_health)
        .get   ("/health/{component}",              Health,                   system::bare_component)
}

/// Every route, behind the guard.
pub fn routes(app: Arc<App>) -> Router {
    table().guarded(app)
}

/// The whole service: every route inside the middleware.
pub fn service(app: Arc<App>, edge: Edge) -> Middleware {
    Middleware::new(routes(Arc::clone(&app)), edge).with_rates_of(app)
}
