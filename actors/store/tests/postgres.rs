//! The contract on PostgreSQL, on a server of the test's own.

#[path = "postgres/faults.rs"]
mod faults;

use std::collections::VecDeque;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use callboard_postgres::Server;
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, Migrated, PostgresOptions, PostgresStore, migrate};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::testing::contract::{ClusterFixture, Fixture};
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
fn nodes_that_append_to_one_log_at_once_leave_no_gap() {
    let log = LogId(1);
    let server = SERVER.with(Arc::clone);
    let database = server.database();
    apart(async {
        let (mut nodes, mut tails, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
        for id in 0..3 {
            let store = open(&server, &database, NodeId(id.into()), Duration::from_mins(1)).await;
            store.join("127.0.0.1:1").await.expect("the node joins");
            let own: PartitionSet = (0..=255).map(Partition).filter(|p| p.0 % 3 == id).collect();
            assert_eq!(store.claim(own).await.expect("the store answers"), own);
            tails.push(store.tail());
            nodes.push((id, store));
        }
        for n in 0..1_500_u32 {
            for (id, store) in &nodes {
                let guard = (Partition(*id), store.epoch(Partition(*id)).expect("its own"));
                let record = [&[*id], &n.to_be_bytes()[..]].concat();
                let key = Key::new(1, 1, &record);
                let ops = vec![
                    Op::Insert { key, value: Bytes::from_static(b"row") },
                    Op::Append { log, record: record.into() },
                ];
                let id = BatchId(n.into());
                tickets.push(store.commit(Batch { id, guards: vec![guard], ops }));
            }
            if n == 700 {
                server.kill();
                server.resume();
            }
        }
        for ticket in tickets {
            let outcome = ticket.await;
            assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
        }
        let records = nodes[0].1.read_log(log, 0, usize::MAX).await.expect("the store answers");
        for (number, record) in (1..).zip(&records) {
            assert_eq!(record.sequence, number);
        }
        for id in 0..3 {
            let of = records.iter().filter(|record| record.bytes[0] == id);
            let of: Vec<_> = of.map(|record| record.bytes.slice(1..)).collect();
            let expected = (0..1_500_u32).map(|n| Bytes::copy_from_slice(&n.to_be_bytes()));
            assert_eq!(of, expected.collect::<Vec<_>>());
        }
        for tail in &mut tails {
            let mut heard = Vec::new();
            while heard.len() < records.len() {
                heard.extend(tail.recv().await.expect("the tail is open"));
            }
            assert!(heard == records, "each node hears every record once, in order");
        }
    });
}

/// The tables of the first format, as an older program made them.
const FIRST_FORMAT: &str = include_str!("../src/postgres/schema.sql");

#[test]
fn tables_of_the_first_format_are_extended_by_one_of_the_nodes() {
    let server = SERVER.with(Arc::clone);
    let database = server.database();
    let tables = format!("BEGIN; CREATE SCHEMA callboard; {FIRST_FORMAT} COMMIT");
    server.psql(&database, &tables).expect("the tables are made");
    apart(async {
        let node = |id| open(&server, &database, NodeId(id), Duration::from_mins(1));
        let (first, _second, _third) = tokio::join!(node(1), node(2), node(3));
        first.join("127.0.0.1:1").await.expect("the node joins");
        first.claim(PartitionSet::ALL).await.expect("the store answers");
        let guard = (Partition(7), first.epoch(Partition(7)).expect("the node owns it"));
        let ops = vec![Op::Append { log: LogId(1), record: Bytes::from_static(b"record") }];
        let batch = Batch { id: BatchId(1), guards: vec![guard], ops };
        assert!(matches!(first.commit(batch).await, Outcome::Committed));
        assert_eq!(first.log_bounds(LogId(1)).await.expect("the store answers"), (1, 1));
    });
    let format = server.psql(&database, "SELECT format FROM callboard.meta");
    assert_eq!(format.as_deref(), Some("3"));
}

#[test]
fn rows_of_a_newer_program_are_refused_by_a_node_that_joins_and_by_one_that_has_joined() {
    let server = SERVER.with(Arc::clone);
    let database = server.database();
    let meta = |columns: &str| {
        server.psql(&database, &format!("SELECT {columns} FROM callboard.meta")).expect("a row")
    };
    apart(async {
        let node = open(&server, &database, NodeId(1), Duration::from_mins(1)).await;
        node.join("127.0.0.1:1").await.expect("the node joins");
        assert_eq!(meta("rows || program"), "0", "a node that has not been active writes no row");
        assert_eq!(node.claim(PartitionSet::ALL).await.unwrap(), PartitionSet::ALL);
        let own = concat!("3,", env!("CARGO_PKG_VERSION"));
        assert_eq!(meta("oldest_reader || ',' || program"), own);

        node.release(PartitionSet::ALL).await.expect("the store answers");
        let newer = "UPDATE callboard.meta SET rows = rows + 1, program = '0.9.1'";
        server.psql(&database, newer).expect("it is changed");
        let right = "the schema callboard of the database was written by a newer program";
        let refused = node.claim(PartitionSet::ALL).await.expect_err("it is older").to_string();
        assert!(refused.starts_with(right) && refused.contains("version 0.9.1"), "{refused}");
        let owners = "SELECT count(owner) FROM callboard.part";
        assert_eq!(server.psql(&database, owners).as_deref(), Some("0"));

        let address = Address::parse(&server.url(&database), None).expect("the address is right");
        let on_failure = Box::new(|error: &_| panic!("{error}"));
        let options = PostgresOptions::new(address, NodeId(2), on_failure);
        let refused = PostgresStore::open(options).await.expect_err("it is older").to_string();
        assert!(refused.starts_with(right) && refused.contains("version 0.9.1"), "{refused}");
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
        // A second move finds the copy of the first.
        let again = migrate(&sled, address.clone()).await.expect("the rows are there");
        assert_eq!(again, Migrated { was_there: true, ..migrated });
        // Of another state of the store there is none.
        let later = SledOptions::new(directory.path().join("other"), 16 << 20, Box::new(|_| ()));
        let other = migrate(&SledStore::open(later).unwrap(), address).await;
        assert!(other.is_err_and(|error| error.to_string().contains("no node has served from it")));
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
        let address = Address::parse(&url, None).unwrap();
        let refused = migrate(&open(), address).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("name an empty one")));
    });
}

/// The moment at which a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// The database hears nothing of the commit.
    Commit,
    /// The database commits, and its answer is lost.
    Answer,
    /// As with the answer, and the database is out of reach from then on.
    Way,
}

/// A commit as a client sends it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// A way to the database on which the first commit's connection is lost; returns its port.
fn losing(server: &Server, lost: Lost) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (socket, is_lost) = (server.socket(), Arc::new(AtomicBool::new(false)));
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            if is_lost.load(Ordering::SeqCst) && lost == Lost::Way {
                return;
            }
            let database = UnixStream::connect(&socket).expect("the database listens");
            let is_lost = Arc::clone(&is_lost);
            std::thread::spawn(move || join(&client, &database, lost, &is_lost));
        }
    });
    port
}

/// Passes bytes both ways until an end closes, or the first commit comes.
fn join(client: &TcpStream, database: &UnixStream, lost: Lost, is_lost: &AtomicBool) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (database, client);
            let mut bytes = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                if to.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            let _ = client.shutdown(Shutdown::Both);
            // Only now the answer to a commit has come.
            let _ = database.shutdown(Shutdown::Both);
        });
        let (mut from, mut to) = (client, database);
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let is_first =
                bytes[..length].ends_with(COMMIT) && !is_lost.swap(true, Ordering::SeqCst);
            if is_first {
                client.shutdown(Shutdown::Both).expect("it is open");
            }
            if is_first && lost == Lost::Commit || to.write_all(&bytes[..length]).is_err() {
                break;
            }
            if is_first {
                return;
            }
        }
        let _ = database.shutdown(Shutdown::Both);
    });
}

#[test]
fn a_move_whose_commit_was_interrupted_finds_out_whether_it_happened() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let path = directory.path().join("data");
    let options = SledOptions::new(path, 16 << 20, Box::new(|error: &_| panic!("{error}")));
    let sled = SledStore::open(options).expect("the store opens");
    let server = SERVER.with(Arc::clone);
    apart(async {
        for n in 0..100_u8 {
            let key = Key::new(1, 1, &[n]);
            let ops = vec![Op::Put { key, value: Bytes::from(vec![n; 20]), entry: None }];
            let batch = Batch { id: BatchId(n.into()), guards: Vec::new(), ops };
            assert!(matches!(sled.commit(batch).await, Outcome::Committed));
        }
        for lost in [Lost::Commit, Lost::Answer, Lost::Way] {
            let database = server.database();
            let port = losing(&server, lost);
            let url = format!("postgres://callboard@127.0.0.1:{port}/{database}?sslmode=disable");
            let moved = migrate(&sled, Address::parse(&url, None).unwrap()).await;
            let rows = server.psql(&database, "SELECT count(*) FROM callboard.row");
            let rows: u64 = rows.expect("the tables are there").parse().expect("a number");
            match (lost, moved) {
                (Lost::Commit | Lost::Answer, Ok(moved)) => {
                    assert_eq!((moved.rows, moved.was_there), (rows, lost == Lost::Answer));
                }
                (Lost::Way, Err(error)) => {
                    assert!(error.to_string().contains("is unknown"), "{error}");
                    let url = server.url(&database);
                    let again = migrate(&sled, Address::parse(&url, None).unwrap()).await.unwrap();
                    assert_eq!((again.rows, again.was_there), (rows, true));
                }
                (lost, moved) => panic!("{lost:?}: {moved:?}"),
            }
            assert_eq!(rows, 100, "{lost:?}");
        }
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
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = std::thread::spawn(move || {
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
