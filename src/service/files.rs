//! The open files of the process: its limit is raised as far as the system permits, and bounds the connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most files that are kept for the store, webhooks and workers of the process.
const MOST_KEPT: u64 = 512;

/// Raises the process's own limit of open files to the one that the system permits.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it was");
    }
}

/// The connections that the limit of open files permits, of `wanted`; warns if they are fewer.
pub(super) fn permitted(wanted: u32) -> u32 {
    let permitted = within(getrlimit(Resource::Nofile).current, wanted);
    if permitted < wanted {
        tracing::warn!(
            "the limit of open files is below [server] max_connections = {wanted}: {permitted} connections are taken \
             at once; raise it (LimitNOFILE of systemd, ulimit -Hn of a shell)"
        );
    }
    permitted
}

/// The connections under a limit of open files, a quarter of which is kept for all else.
pub(crate) fn within(limit: Option<u64>, wanted: u32) -> u32 {
    let Some(limit) = limit else { return wanted };
    let permitted = limit.saturating_sub((limit / 4).min(MOST_KEPT));
    u32::try_from(permitted).unwrap_or(u32::MAX).clamp(1, wanted.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_of_files_leaves_some_for_the_store() {
        for (limit, connections) in [
            (None, 20_000),
            (Some(1 << 20), 20_000),
            (Some(20_512), 20_000),
            (Some(20_000), 19_488),
            (Some(1_024), 768),
            (Some(256), 192),
            (Some(1), 1),
        ] {
            assert_eq!(within(limit, 20_000), connections, "{limit:?}");
        }
    }
}
