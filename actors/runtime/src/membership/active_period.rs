//! Tenures: the system of an active node, begun and ended as its standing changes.

use std::time::Duration;

use super::{Membership, Standing, Term};

/// The pause before the active period after one that was lost.
const PAUSE: Duration = Duration::from_millis(500);

/// The program of a node.
pub trait Part: Send {
    /// The running program of an active period.
    type Running: Send + Sync;
    /// The reason why an active period could not begin.
    type Failed: std::fmt::Display + Send;

    /// Begins an active period: this node owns every partition from now on.
    fn begin(
        &mut self,
        term: Term,
    ) -> impl Future<Output = Result<Self::Running, Self::Failed>> + Send;

    /// Ready when an active period cannot go on, because a commit was fenced or its outcome cannot be known.
    fn lost(&self, running: &Self::Running) -> impl Future<Output = ()> + Send;

    /// Ends an active period, whose later writes are fenced once another node claims its partitions.
    fn end(&mut self, running: Self::Running) -> impl Future<Output = ()> + Send;

    /// Stands by for the node at this address, or for any.
    fn stand_by(&mut self, active: Option<&str>);
}

/// The reason why a node has no part any more.
#[derive(Debug, thiserror::Error)]
pub enum Ended<E> {
    /// Another process joined as this node.
    #[error("another process joined the cluster as this node")]
    Replaced,
    /// An active period could not begin.
    #[error("{0}")]
    Failed(E),
}

/// Plays a node's part until `shutdown` is ready; then ends the active period, stands by for the node that takes
/// over, and leaves.
///
/// # Errors
/// [`Ended`]; the system has ended then.
pub async fn take_part<P: Part>(
    membership: Membership,
    part: &mut P,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Ended<P::Failed>> {
    let mut standing = membership.standing();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let current = standing.borrow_and_update().clone();
        let running = match &current {
            Standing::Replaced => return Err(Ended::Replaced),
            Standing::Standby(active) => {
                part.stand_by(active.as_deref());
                None
            }
            Standing::Active(_) => match part.begin(membership.term()).await {
                Ok(running) => Some(running),
                // Another active period may succeed, if this one was lost meanwhile.
                Err(error) if *standing.borrow() == current => {
                    membership.leave().await;
                    return Err(Ended::Failed(error));
                }
                Err(error) => {
                    tracing::warn!(%error, "this node could not become the active one");
                    membership.ended().await;
                    continue;
                }
            },
        };
        let lost = async {
            match &running {
                Some(running) => part.lost(running).await,
                None => std::future::pending().await,
            }
        };
        let (is_lost, is_over) = tokio::select! {
            biased;
            () = &mut shutdown => (false, true),
            changed = standing.changed() => (false, changed.is_err()),
            () = lost => (true, false),
        };
        let was_active = running.is_some();
        if let Some(running) = running {
            part.stand_by(None);
            part.end(running).await;
        }
        if is_over {
            if was_active {
                part.stand_by(membership.hand_over().await.as_deref());
            }
            membership.leave().await;
            return Ok(());
        }
        if is_lost {
            // The same fault may break the next active period.
            tokio::time::sleep(PAUSE).await;
            // Claimed again they have new epochs, and everything is read anew.
            membership.release().await;
        } else if was_active {
            membership.ended().await;
        }
    }
}
