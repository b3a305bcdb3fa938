//! The pause of everything.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::pause::{Pause, Submissions};

use super::Handle;
use crate::kernel::finish::Finish;

impl Handle {
    /// The pause of everything, if there is one.
    #[must_use]
    pub fn pause(&self) -> Option<Arc<Pause>> {
        self.node.pause()
    }

    /// True if the server was started so that nothing leaves it and nothing is leased.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        self.node.settings.stands_still
    }

    /// Leases no task while the disk is full: a call with false ends that.
    pub fn set_disk_full(&self, is_full: bool) {
        self.node.set_full(is_full);
    }

    /// Pauses everything for this reason; a pause that lasts keeps its beginning. After `Ok` no task is leased, also
    /// after a restart, until [`Self::resume`].
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn pause_all(
        &self,
        reason: String,
        submissions: Submissions,
        by: String,
    ) -> Result<Arc<Pause>, Error> {
        let since = self.pause().map_or_else(|| self.now(), |pause| pause.since);
        let pause = Pause { reason, by, since, submissions };
        let set = Arc::clone(&self.node).set_pause(Some(pause.clone()));
        Finish::new(set).await?;
        Ok(Arc::new(pause))
    }

    /// Ends the pause of everything; true if there was one.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if the server was started to stand still, [`Error::Unavailable`].
    pub async fn resume(&self) -> Result<bool, Error> {
        if self.stands_still() {
            return Err(Error::InvalidState(
                "the server was started with --paused: start it without, and it resumes".to_owned(),
            ));
        }
        let was_paused = self.pause().is_some();
        if was_paused {
            Finish::new(Arc::clone(&self.node).set_pause(None)).await?;
        }
        Ok(was_paused)
    }
}
