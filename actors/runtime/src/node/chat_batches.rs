//! The batches in the form of `OpenAI`'s interface that something is still to be done for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::id::{ChatBatchId, Environment, FileId, Slot};
use callboard_store::Error;
use tokio::sync::Notify;

use crate::node::Node;
use crate::tables::chat_batches;

type Key = (Environment, ChatBatchId);

/// These batches, each with its input file.
#[derive(Debug, Default)]
pub(crate) struct ChatBatches {
    open: Mutex<BTreeMap<Key, FileId>>,
    /// A batch was created or changed.
    pub(crate) wake: Notify,
    /// The lock of a writer of a batch's row.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
}

impl ChatBatches {
    fn open(&self) -> MutexGuard<'_, BTreeMap<Key, FileId>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, key: Key, input: FileId) {
        self.open().insert(key, input);
    }

    pub(crate) fn forget(&self, key: Key) {
        self.open().remove(&key);
    }

    /// Forgets the batches of a project that is gone.
    pub(crate) fn forget_project(&self, project: Slot) {
        self.open().retain(|(environment, _), _| environment.slot() != project);
    }

    /// The batches, the oldest first in each environment.
    pub(crate) fn all(&self) -> Vec<Key> {
        self.open().keys().copied().collect()
    }

    /// The number of an environment's batches.
    pub(crate) fn count(&self, environment: Environment) -> usize {
        self.open().keys().filter(|(of, _)| *of == environment).count()
    }

    /// The batch that still reads a file.
    pub(crate) fn reader_of(&self, environment: Environment, file: FileId) -> Option<ChatBatchId> {
        let open = self.open();
        let found = open.iter().find(|((of, _), input)| *of == environment && **input == file);
        found.map(|((_, batch), _)| *batch)
    }
}

impl Node {
    /// Reads the batches that something is still to be done for.
    pub(crate) async fn load_chat_batches(
        &self,
        environments: &[Environment],
    ) -> Result<(), Error> {
        for &environment in environments {
            for batch in chat_batches::open(self.store(), environment).await? {
                self.state.chat_batches.keep((environment, batch.id), batch.order.input);
            }
        }
        Ok(())
    }
}
