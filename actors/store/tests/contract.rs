//! The contract, on every store of this crate.

use std::sync::Arc;
use std::time::Duration;

use callboard_store::Store;
use callboard_store::ownership::NodeId;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::testing::contract::{ClusterFixture, Fixture};
use callboard_store::testing::faulty::FaultyStore;
use callboard_store::testing::memory::{Cluster, MemoryStore};
use callboard_store::{contract_tests, ownership_tests};

struct Memory(MemoryStore);

impl Fixture for Memory {
    fn new() -> Self {
        Self(MemoryStore::new())
    }

    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn reopen(self) -> Self {
        Self(self.0.reopen())
    }
}

struct Faulty(Arc<MemoryStore>, FaultyStore);

impl Faulty {
    fn around(memory: MemoryStore) -> Self {
        let memory = Arc::new(memory);
        Self(memory.clone(), FaultyStore::transparent(memory))
    }
}

impl Fixture for Faulty {
    fn new() -> Self {
        Self::around(MemoryStore::new())
    }

    fn store(&self) -> &dyn Store {
        &self.1
    }

    fn reopen(self) -> Self {
        Self::around(self.0.reopen())
    }
}

struct Sled {
    store: SledStore,
    directory: tempfile::TempDir,
}

fn open(directory: &tempfile::TempDir, checkpoint_bytes: Option<usize>) -> SledStore {
    let on_failure = Box::new(|error: &_| panic!("{error}"));
    let path = directory.path().join("data");
    let options = SledOptions::new(path, 16 << 20, on_failure);
    let checkpoint_bytes = checkpoint_bytes.unwrap_or(options.checkpoint_bytes);
    SledStore::open(SledOptions { checkpoint_bytes, ..options }).expect("the store opens")
}

impl Fixture for Sled {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        Self { store: open(&directory, None), directory }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn reopen(self) -> Self {
        drop(self.store);
        Self { store: open(&self.directory, None), directory: self.directory }
    }
}

/// A store with a checkpoint after each commit.
struct Checkpointing(Sled);

impl Fixture for Checkpointing {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        Self(Sled { store: open(&directory, Some(1)), directory })
    }

    fn store(&self) -> &dyn Store {
        &self.0.store
    }

    fn reopen(self) -> Self {
        drop(self.0.store);
        let (store, directory) = (open(&self.0.directory, Some(1)), self.0.directory);
        Self(Sled { store, directory })
    }
}

contract_tests!(memory, Memory);
contract_tests!(faulty, Faulty);
contract_tests!(sled, Sled);
contract_tests!(checkpointing, Checkpointing);

struct MemoryNodes(Cluster);

impl ClusterFixture for MemoryNodes {
    type Node = MemoryStore;

    fn new(term: Duration) -> Self {
        Self(Cluster::new(term))
    }

    async fn node(&self, id: NodeId) -> MemoryStore {
        self.0.node(id)
    }

    fn expire(&self, id: NodeId) {
        self.0.expire(id);
    }

    fn ripen(&self, id: NodeId) {
        self.0.ripen(id);
    }
}

ownership_tests!(memory_nodes, MemoryNodes);
