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

#[test]
fn a_claim_whose_answer_was_lost_is_heard_when_it_is_repeated() {
    let server = SERVER.with(Arc::clone);
    let database = server.database();
    apart(async {
        let store = open(&server, &database, NodeId(7), Duration::from_mins(1)).await;
        store.join("127.0.0.1:1").await.expect("the node joins");
        // The connection broke after the database had committed.
        let parts = "(SELECT array_agg(p::smallint) FROM generate_series(0, 99) p)";
        let claim =
            format!("SELECT count(*) FROM callboard.claim_1('{}', 1, {parts}, '1 min')", NodeId(7));
        assert_eq!(server.psql(&database, &claim).as_deref(), Some("100"));
        let gained = store.claim(PartitionSet::ALL).await.expect("the store answers");
        assert_eq!(gained, PartitionSet::ALL);
        for partition in [Partition(7), Partition(200)] {
            let guard = (partition, store.epoch(partition).expect("the node owns it"));
            let key = Key::new(1, 1, &[partition.0]);
            let ops = vec![Op::Put { key, value: Bytes::new(), entry: None }];
            let batch = Batch { id: BatchId(1), guards: vec![guard], ops };
            assert!(matches!(store.commit(batch).await, Outcome::Committed));
        }
        // A claim of partitions that the node has used is none.
        let again = store.claim(PartitionSet::ALL).await.expect("the store answers");
        assert_eq!(again, PartitionSet::EMPTY);
    });
}

/// Lets commits wait for the standby of this name.
fn wait_for_standby(server: &Server, name: &str) {
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
    server.psql("postgres", &set).expect("the server takes it");
    server.psql("postgres", "SELECT pg_reload_conf()").expect("the server reads it");
    while server.psql("postgres", "SHOW synchronous_standby_names").as_deref() != Some(name) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends the wait of a commit for a standby, once there is one, by a function of the database.
fn end_wait(server: &Server, cancel: &str) {
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let count = format!("SELECT count(*) {waiting}");
    while server.psql("postgres", &count).as_deref() == Some("0") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = format!("SELECT bool_and({cancel}(pid)) {waiting}");
    assert_eq!(server.psql("postgres", &ended).as_deref(), Some("t"));
}

#[test]
fn a_cancelled_wait_for_a_standby_ends_no_migration() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let path = directory.path().join("data");
    let options = SledOptions::new(path, 16 << 20, Box::new(|error: &_| panic!("{error}")));
    let sled = SledStore::open(options).expect("the store opens");
    let server = Server::start();
    let address = Address::parse(&server.url("postgres"), None).expect("the address is right");
    wait_for_standby(&server, "absent");
    let (answer, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| {
            let moved = apart(migrate(&sled, address));
            answer.send(()).expect("the test waits");
            moved
        });
        // The tables are made, the rows are committed, and the wait begins anew.
        for _ in 0..4 {
            end_wait(&server, "pg_cancel_backend");
            let early = answers.recv_timeout(Duration::from_millis(300));
            assert!(early.is_err(), "no standby has the rows");
        }
        wait_for_standby(&server, "");
        migrating.join().expect("no panic").expect("the rows are moved");
    });
}

#[test]
fn a_cancelled_wait_for_a_standby_is_no_commit() {
    let fixture = Lone::new();
    let server = Arc::clone(&fixture.server);
    wait_for_standby(&server, "absent");
    let guard = (Partition(7), fixture.store.epoch(Partition(7)).expect("the node owns it"));
    let ops =
        vec![Op::Put { key: Key::new(1, 1, &[1]), value: Bytes::from_static(b"row"), entry: None }];
    let ticket = fixture.store.commit(Batch { id: BatchId(1), guards: vec![guard], ops });
    let (answer, answers) = std::sync::mpsc::channel();
    let asked = std::thread::spawn(move || {
        let outcome = apart(ticket);
        answer.send(()).expect("the test waits");
        outcome
    });
    for cancel in ["pg_cancel_backend", "pg_cancel_backend", "pg_terminate_backend"] {
        end_wait(&server, cancel);
        let early = answers.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "no standby has the commit");
    }
    wait_for_standby(&server, "");
    assert!(matches!(asked.join().expect("no panic"), Outcome::Committed));
}

#[test]
fn a_server_without_tls_is_refused_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.read_exact(&mut [0; 8]).expect("a request for TLS");
        stream.write_all(b"N").expect("an answer");
    });
    let url = format!("postgres://callboard@127.0.0.1:{port}/x?sslmode=require");
    let address = Address::parse(&url, None).expect("the address is right");
    let options = PostgresOptions::new(address, NodeId(7), Box::new(|_| ()));
    let begun = std::time::Instant::now();
    let refused = apart(PostgresStore::open(options)).expect_err("there is no TLS");
    assert!(refused.to_string().contains("server does not support TLS"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    served.join().expect("no panic");
}

contract_tests!(together every_promise_of_a_store_holds, Lone);
ownership_tests!(together every_promise_of_ownership_holds, Nodes);
