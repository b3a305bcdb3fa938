//! The pause of everything: a row, and a flag that every lease looks at.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use callboard_domain::Error as Refused;
use callboard_domain::id::Environment;
use callboard_domain::pause::Pause;
use callboard_store::{Error, Outcome};

use crate::messages::queue;
use crate::node::Node;
use crate::tables::PAUSES;

/// The key and the partition of the one row.
const ONLY: u128 = 0;
const PARTITION: u8 = 0;
const NUMBER: u8 = Environment::LIVE.number();

/// The pause, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Paused {
    now: AtomicBool,
    /// True while the disk is full.
    full: AtomicBool,
    pause: RwLock<Option<Arc<Pause>>>,
    /// The lock of a writer of the row.
    writing: tokio::sync::Mutex<()>,
}

impl Paused {
    fn set(&self, pause: Option<Pause>) {
        self.now.store(pause.is_some(), Ordering::Release);
        *self.pause.write().unwrap_or_else(PoisonError::into_inner) = pause.map(Arc::new);
    }
}

impl Node {
    /// True if no task is leased: somebody has paused everything, the disk is full, or the server stands still.
    pub(crate) fn is_paused(&self) -> bool {
        let Paused { now, full, .. } = &self.state.paused;
        self.settings.stands_still || now.load(Ordering::Acquire) || full.load(Ordering::Acquire)
    }

    /// Leases no task while the disk is full.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.state.paused.full.store(is_full, Ordering::Release);
        self.actors.queues.send_to_all_awake(|| queue::Message::Look);
    }

    /// The pause.
    pub(crate) fn pause(&self) -> Option<Arc<Pause>> {
        self.state.paused.pause.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the pause.
    pub(crate) async fn load_pause(&self) -> Result<(), Error> {
        self.state.paused.set(PAUSES.get(self.store(), NUMBER, &ONLY).await?);
        Ok(())
    }

    /// Pauses everything, or resumes, durably. A lease that is not given out yet is not given out.
    ///
    /// # Errors
    /// [`Refused::Unavailable`].
    pub(crate) async fn set_pause(self: Arc<Self>, pause: Option<Pause>) -> Result<(), Refused> {
        let _writing = self.state.paused.writing.lock().await;
        let row = match &pause {
            Some(pause) => PAUSES.put(NUMBER, &ONLY, pause, None),
            None => PAUSES.delete(NUMBER, &ONLY),
        };
        let stored = self.shard(PARTITION).commit(PARTITION, vec![row]).await;
        if !matches!(stored, Outcome::Committed) {
            return Err(Refused::Unavailable("the pause could not be stored"));
        }
        self.state.paused.set(pause);
        self.actors.queues.send_to_all_awake(|| queue::Message::Look);
        Ok(())
    }
}
