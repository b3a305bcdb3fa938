//! The contract on PostgreSQL, on a server of the test's own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use callboard_postgres::Server;
use callboard_store::contract::{ClusterFixture, Fixture};
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore};
use callboard_store::{Ownership, PartitionSet, Store, contract_tests, ownership_tests};

/// Runs a future on a runtime and a thread of its own.
fn apart<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be had").block_on(future)
        };
        scope.spawn(run).join().expect("the future ends")
    })
}

async fn open(server: &Server, database: &str, node: NodeId, term: Duration) -> PostgresStore {
    let address = Address::parse(&server.url(database), None).expect("the address is right");
    let on_failure = Box::new(|error: &_| panic!("{error}"));
    let options = PostgresOptions { term, ..PostgresOptions::new(address, node, on_failure) };
    PostgresStore::open(options).await.expect("the store opens")
}

struct Lone {
    store: PostgresStore,
    server: Arc<Server>,
    database: String,
}

impl Lone {
    fn open(server: Arc<Server>, database: String) -> Self {
        let store = apart(async {
            let term = Duration::from_mins(1);
            let store = open(&server, &database, NodeId(7), term).await;
            store.join("127.0.0.1:1").await.expect("the node joins");
            let gained = store.claim(PartitionSet::ALL).await.expect("the store answers");
            assert_eq!(gained, PartitionSet::ALL);
            store
        });
        Self { store, server, database }
    }
}

thread_local! {
    static SERVER: Arc<Server> = Arc::new(Server::start());
}

impl Fixture for Lone {
    fn new() -> Self {
        let server = SERVER.with(Arc::clone);
        let database = server.database();
        Self::open(server, database)
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn reopen(self) -> Self {
        let Self { store, server, database } = self;
        drop(store);
        Self::open(server, database)
    }
}

struct Nodes {
    server: Arc<Server>,
    database: String,
    term: Duration,
}

impl ClusterFixture for Nodes {
    type Node = PostgresStore;

    fn new(term: Duration) -> Self {
        let server = SERVER.with(Arc::clone);
        let database = server.database();
        Self { server, database, term }
    }

    async fn node(&self, id: NodeId) -> PostgresStore {
        apart(open(&self.server, &self.database, id, self.term))
    }
}

contract_tests!(together every_promise_of_a_store_holds, Lone);
ownership_tests!(together every_promise_of_ownership_holds, Nodes);
