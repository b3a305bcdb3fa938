//! The door of a server with a store of its own that shares projects with other cells.

use std::sync::Arc;

use callboard_runtime::ports::Ports;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::cells::Cells;
use super::forwarded::ClusterKey;
use super::front::{Front, Role};
use super::store::FailedReads;
use crate::config::Config;
use crate::http::{App, Middleware};

/// The door, and the task that follows home; `None` without a cluster's key.
pub(crate) fn front(
    config: &Config,
    service: Middleware,
    app: &Arc<App>,
) -> Option<(Front, JoinHandle<()>)> {
    let cells = Cells::of(&config.cluster, app)?;
    let key = ClusterKey::new(config.cluster.key.as_ref()?);
    let clock = Ports::of_this_machine().clock;
    let timeout = config.server.body_timeout;
    let front = Front::new(key, timeout, move || clock.now(), Box::new(|| None));
    let following = tokio::spawn(Arc::clone(&cells).run(front.clone()));
    let (handling, _) = mpsc::channel(1);
    front.set_role(Role::Active {
        service,
        is_current: Arc::new(|| true),
        failed: FailedReads::default(),
        cells: Some(cells),
        _handling: handling,
    });
    Some((front, following))
}
