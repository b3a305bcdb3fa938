//! Servers that give no session, or refuse a node's calls for a while.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callboard_postgres::Server;
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore};
use callboard_store::{
    Batch, BatchId, LogId, Op, Outcome, Ownership, Partition, PartitionSet, Store,
};

use super::{SERVER, apart};

/// The longest time after which a start that cannot succeed has ended.
const REFUSED: Duration = Duration::from_secs(20);

/// The error of a store that cannot be opened at this address.
fn refused(url: &str) -> String {
    let address = Address::parse(url, None).expect("the address is right");
    let options = PostgresOptions::new(address, NodeId(7), Box::new(|_| ()));
    let opened = async { tokio::time::timeout(REFUSED, PostgresStore::open(options)).await };
    apart(opened).expect("it ends in time").expect_err("it cannot be opened").to_string()
}

#[test]
fn a_server_that_asks_for_a_password_which_nobody_has_set_is_named_at_once() {
    let server = Server::start();
    let rules = server.directory().join("data/pg_hba.conf");
    let before = std::fs::read_to_string(&rules).expect("the server's rules");
    std::fs::write(&rules, format!("local all walled scram-sha-256\n{before}")).expect("ours");
    server.psql("postgres", "CREATE ROLE walled LOGIN PASSWORD 'secret'").expect("it is made");
    server.psql("postgres", "SELECT pg_reload_conf()").expect("the server reads it");
    let begun = std::time::Instant::now();
    let url = server.url("postgres").replace("callboard@", "walled@");
    let said = refused(&url);
    assert!(said.contains(&*server.directory().display().to_string()), "{said}");
    assert!(said.contains("asks for a password") && said.contains("store.password"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{said}");
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_named_and_keeps_no_node_from_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = SERVER.with(Arc::clone);
    let (url, database) = (server.url("postgres"), server.database());
    let host = url.split_once('@').and_then(|(_, rest)| rest.split_once('/')).expect("a URL").0;
    let both = format!("postgres://callboard@127.0.0.1:{port},{host}/{database}?sslmode=disable");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let url = format!("postgres://callboard@127.0.0.1:{port}/x?sslmode=disable");
            let said = refused(&url);
            assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
            assert!(said.contains("takes connections and says nothing"), "{said}");
            assert!(said.contains("waited 10 s"), "{said}");
        });
        let begun = std::time::Instant::now();
        let address = Address::parse(&both, None).expect("the address is right");
        let options = PostgresOptions::new(address, NodeId(7), Box::new(|_| ()));
        let opened = apart(PostgresStore::open(options));
        opened.expect("the second host answers");
        // Only the first session asks the silent host.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    });
}

/// Waits until the store tells of a fault with this code.
async fn tells(store: &PostgresStore, code: &str) {
    let begun = std::time::Instant::now();
    while !store.fault().is_some_and(|fault| fault.contains(code)) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{code}: {:?}", store.fault());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Before: no fault was told, and a full disk looked like a healthy one until the node ended.
#[test]
fn each_fault_of_a_server_is_told_while_it_lasts_and_loses_no_commit() {
    let server = SERVER.with(Arc::clone);
    let database = server.database();
    let ask = |sql: &str| server.psql(&database, sql).unwrap_or_else(|| panic!("{sql}"));
    ask(&format!("CREATE ROLE node LOGIN; ALTER DATABASE {database} OWNER TO node"));
    let url = server.url(&database).replace("callboard@", "node@");
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let on_failure = Box::new(move |error: &callboard_store::Error| {
        failed.send(error.to_string()).expect("the test waits");
    });
    apart(async {
        let address = Address::parse(&url, None).expect("the address is right");
        let options = PostgresOptions::new(address, NodeId(7), on_failure);
        let store = PostgresStore::open(options).await.expect("the store opens");
        store.join("127.0.0.1:1").await.expect("the node joins");
        store.claim(PartitionSet::ALL).await.expect("the store answers");
        let guard = (Partition(7), store.epoch(Partition(7)).expect("the node owns it"));
        let commit = |n: u8| {
            let ops = vec![Op::Append { log: LogId(1), record: Bytes::from(vec![n]) }];
            store.commit(Batch { id: BatchId(n.into()), guards: vec![guard], ops })
        };
        let faults = [
            (
                "53100",
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$; \
                 CREATE TRIGGER full_disk BEFORE INSERT ON callboard.row \
                 FOR EACH ROW EXECUTE FUNCTION full_disk()",
                "DROP TRIGGER full_disk ON callboard.row",
            ),
            ("53300", "ALTER ROLE node CONNECTION LIMIT 0", "ALTER ROLE node CONNECTION LIMIT -1"),
        ];
        for (number, (code, breaks, mends)) in (1..).zip(faults) {
            ask(breaks);
            // An administrator ends the sessions (57P01).
            ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'");
            let ticket = commit(number);
            tells(&store, code).await;
            ask(mends);
            assert!(matches!(ticket.await, Outcome::Committed), "{code}");
            assert_eq!(store.fault(), None, "{code}");
        }
        // What stays is no fault to wait out: the store ends, and says why.
        ask("REVOKE INSERT ON callboard.row FROM node");
        assert!(matches!(commit(9).await, Outcome::Unknown(_)));
        tells(&store, "42501").await;
        let why = failures.recv().await.expect("the store ends");
        assert!(why.contains("permission denied"), "{why}");
        let records = store.read_log(LogId(1), 0, 10).await.expect("the store answers");
        let records: Vec<_> = records.iter().map(|record| record.bytes[0]).collect();
        assert_eq!(records, [1, 2]);
    });
}
