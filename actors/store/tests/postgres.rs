//! The contract on PostgreSQL, on a server of the test's own.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callboard_postgres::Server;
use callboard_store::contract::{ClusterFixture, Fixture};
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore, migrate};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{
    Batch, BatchId, Entry, Filter, Key, LogId, Op, Order, Outcome, Ownership, Partition,
    PartitionSet, Query, Store, contract_tests, ownership_tests,
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

#[test]
fn an_embedded_store_moves_with_every_row_list_and_log() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let open = || {
        let on_failure = Box::new(|error: &_| panic!("{error}"));
        let path = directory.path().join("data");
        SledStore::open(SledOptions::new(path, 16 << 20, on_failure)).expect("the store opens")
    };
    let log = LogId(1);
    let listed = |n: u128| Key::new(0x80, 1, &n.to_be_bytes());
    let put = |n: u128, text: &'static str| Op::Put {
        key: listed(n),
        value: Bytes::from_static(text.as_bytes()),
        entry: Some(Entry {
            list: [1, 2],
            terms: vec![(1, text.as_bytes().into())],
            sort: [None; 2],
        }),
    };
    let append = |n: u8| Op::Append { log, record: Bytes::from(vec![n; 9]) };
    let batch = |ops| Batch { id: BatchId(1), guards: Vec::new(), ops };
    let query = Query {
        list: [1, 2],
        filters: vec![Filter::AnyOf(1, vec![b"old"[..].into()])],
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: 10_000,
    };
    let server = SERVER.with(Arc::clone);
    let url = server.url("postgres");
    let before = apart(async {
        drop(open());
        let sled = open();
        let old = |n: u128| vec![put(n, "old"), append(u8::try_from(n % 251).expect("it fits"))];
        let tickets: Vec<_> = (0..3_000).map(|n| sled.commit(batch(old(n)))).collect();
        for ticket in tickets {
            assert!(matches!(ticket.await, Outcome::Committed));
        }
        let ops = vec![put(7, "new"), Op::Trim { log, before: 100 }];
        assert!(matches!(sled.commit(batch(ops)).await, Outcome::Committed));
        let records = sled.read_log(log, 0, usize::MAX).await.unwrap();
        let page = sled.query(&query).await.unwrap();
        let address = Address::parse(&url, None).unwrap();
        let migrated = migrate(&sled, address.clone()).await.expect("the rows are moved");
        assert!(migrated.rows > 3_000, "{migrated:?}");
        let again = migrate(&sled, address).await;
        assert!(again.is_err_and(|error| error.to_string().contains("name an empty one")));
        (records, page)
    });
    let moved = Lone::open(server, "postgres".into());
    apart(async {
        assert_eq!(moved.store.read_log(log, 0, usize::MAX).await.unwrap(), before.0);
        assert_eq!(moved.store.query(&query).await.unwrap(), before.1);
        // Stamps go on above those of the embedded store: a later put of a document wins.
        let guard = (Partition(7), moved.store.epoch(Partition(7)).unwrap());
        let ops = vec![put(8, "new"), append(9)];
        let later = Batch { id: BatchId(2), guards: vec![guard], ops };
        assert!(matches!(moved.store.commit(later).await, Outcome::Committed));
        assert_eq!(moved.store.query(&query).await.unwrap().total, before.1.total - 1);
        assert_eq!(moved.store.log_bounds(log).await.unwrap().1, 3_001);
    });
}

contract_tests!(together every_promise_of_a_store_holds, Lone);
ownership_tests!(together every_promise_of_ownership_holds, Nodes);
