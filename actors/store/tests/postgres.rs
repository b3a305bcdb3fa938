//! The contract on PostgreSQL, on a server of the test's own.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callboard_postgres::Server;
use callboard_store::contract::{ClusterFixture, Fixture};
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore};
use callboard_store::{
    Batch, BatchId, Key, LogId, Op, Outcome, Ownership, Partition, PartitionSet, Store,
    contract_tests, ownership_tests,
};

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
    const CASES: u32 = 4;
    const THREADS: u32 = 1;

    fn new() -> Self {
        let server = SERVER.with(Arc::clone);
        // Quicker than a new database.
        let emptied = server.psql("postgres", "DROP SCHEMA IF EXISTS callboard CASCADE");
        emptied.expect("nobody uses the tables");
        Self::open(server, "postgres".into())
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

impl Nodes {
    fn change(&self, id: NodeId, set: &str) {
        let change = format!("UPDATE callboard.node SET {set} WHERE id = '{id}'");
        self.server.psql(&self.database, &change).expect("the node has a row");
    }
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

    fn expire(&self, id: NodeId) {
        self.change(id, "expires = clock_timestamp()");
    }

    fn ripen(&self, id: NodeId) {
        self.change(id, "since = since - interval '1 day'");
    }
}

/// The number of batches in each wave of [`a_killed_server_loses_and_doubles_nothing`].
const WAVE: u64 = 400;

#[test]
fn a_killed_server_loses_and_doubles_nothing() {
    let log = LogId(1);
    let fixture = Lone::new();
    let append = |n: u64| {
        let key = Key::new(1, 1, &n.to_be_bytes());
        let record = Bytes::copy_from_slice(&n.to_be_bytes());
        let ops =
            vec![Op::Insert { key, value: Bytes::from_static(b"row") }, Op::Append { log, record }];
        let guard = (Partition(7), fixture.store.epoch(Partition(7)).expect("the node owns it"));
        fixture.store.commit(Batch { id: BatchId(n.into()), guards: vec![guard], ops })
    };
    apart(async {
        for wave in 0..4 {
            let mut tickets: VecDeque<_> = (0..WAVE).map(|n| append(wave * WAVE + n)).collect();
            // Some groups are through, one is on its way.
            for ticket in tickets.drain(..usize::try_from(wave * 30 + 1).expect("it is small")) {
                assert!(matches!(ticket.await, Outcome::Committed));
            }
            fixture.server.kill();
            fixture.server.resume();
            for ticket in tickets {
                let outcome = ticket.await;
                assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
            }
        }
        let records = fixture.store.read_log(log, 0, usize::MAX).await.expect("the store answers");
        let found: Vec<_> = records.iter().map(|it| (it.sequence, it.bytes.clone())).collect();
        let expected = (0..4 * WAVE).map(|n| (n + 1, Bytes::copy_from_slice(&n.to_be_bytes())));
        assert_eq!(found, expected.collect::<Vec<_>>());
    });
}

contract_tests!(together every_promise_of_a_store_holds, Lone);
ownership_tests!(together every_promise_of_ownership_holds, Nodes);
