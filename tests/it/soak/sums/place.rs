//! The server under the soak: one process on its own store, or two nodes on PostgreSQL with a proxy that cuts one of
//! them off; each with a wall clock that can be set.
//!
//! Only the wall clock is another one, by libfaketime: intervals are those of the machine, as on a machine whose clock
//! is set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_disk::Random;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Key, Store};

use crate::cluster::nodes::Cluster;
use crate::cluster::proxy::Way;
use crate::support::{Server, clock};

/// The pause of a way to the database.
const CUT: Duration = Duration::from_millis(1_200);
const HOUR: i64 = 3_600;
/// The farthest that a clock is set from the right time.
const FARTHEST: i64 = 2 * HOUR;

/// The number of rows of each table, and beside it of the salts of idempotency keys among the texts.
pub(super) type Rows = BTreeMap<u8, u64>;
/// The place of the salts in [`Rows`], which is no table.
pub(super) const SALTS: u8 = 0;
const TEXTS: u8 = 0x10;
const SALT: u8 = 8;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// This node is killed and started again.
    Kill(usize),
    /// The clock of this node is set by so many seconds.
    Step(usize, i64),
    /// The way of the first node to the database breaks, or is not answered, for a while.
    Cut(Way),
}

pub(super) enum Place {
    One(Box<Server>),
    Two(Box<Cluster>),
}

/// A place, and the clock of each node: its difference to the right time in seconds.
pub(super) struct Clocked {
    pub(super) place: Place,
    offsets: Vec<i64>,
    clocks: tempfile::TempDir,
}

impl Clocked {
    pub(super) fn one(settings: &[(&str, &str)]) -> Self {
        Self::of(1, settings, |settings| Place::One(Box::new(Server::with(settings))))
    }

    /// Two nodes, which have begun with one clock.
    pub(super) async fn two(settings: &[(&str, &str)]) -> Self {
        let (clocks, clock) = Self::clocks(2);
        let clocked = clocked(&clock);
        let settings = [&pairs(&clocked), settings].concat();
        let mut cluster = Cluster::with(2, &settings).await;
        let own = path(clocks.path(), 1);
        cluster.nodes[1].kill();
        cluster.nodes[1].set("$FAKETIME_TIMESTAMP_FILE", own.to_str().expect("UTF-8"));
        cluster.nodes[1].restart();
        Self { place: Place::Two(Box::new(cluster)), offsets: vec![0; 2], clocks }
    }

    fn of(
        count: usize,
        settings: &[(&str, &str)],
        start: impl Fn(&[(&str, &str)]) -> Place,
    ) -> Self {
        let (clocks, clock) = Self::clocks(count);
        let clocked = clocked(&clock);
        let place = start(&[&pairs(&clocked), settings].concat());
        Self { place, offsets: vec![0; count], clocks }
    }

    /// The clocks of so many nodes, all right, and the file of the first.
    fn clocks(count: usize) -> (tempfile::TempDir, String) {
        let clocks = tempfile::tempdir().expect("a directory");
        (0..count).for_each(|node| clock::write(&path(clocks.path(), node), 0));
        let first = path(clocks.path(), 0).to_str().expect("UTF-8").to_owned();
        (clocks, first)
    }

    fn nodes(&mut self) -> &mut [Server] {
        match &mut self.place {
            Place::One(server) => std::slice::from_mut(server),
            Place::Two(cluster) => &mut cluster.nodes,
        }
    }

    pub(super) fn urls(&mut self) -> Vec<String> {
        self.nodes().iter().map(|node| node.url.clone()).collect()
    }

    /// A fault that fits this place.
    pub(super) fn draw(&self, random: &mut Random) -> Fault {
        let (count, is_cluster) = (self.offsets.len(), matches!(self.place, Place::Two(_)));
        let node = random.below(count);
        match random.below(if is_cluster { 10 } else { 7 }) {
            0..=3 => Fault::Kill(node),
            4 => Fault::Step(node, HOUR),
            5 => Fault::Step(node, -HOUR),
            6 => Fault::Step(node, -10),
            7 | 8 => Fault::Cut(Way::Cut),
            _ => Fault::Cut(Way::Unanswered),
        }
    }

    pub(super) async fn suffer(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(node) => self.restart(node, &[]),
            Fault::Step(node, seconds) => self.step(node, seconds),
            Fault::Cut(way) => {
                let Place::Two(cluster) = &self.place else { return };
                cluster.proxy.set(way);
                tokio::time::sleep(CUT).await;
                cluster.proxy.set(Way::Open);
            }
        }
    }

    /// Kills a node, and starts it again with these settings beside its own.
    pub(super) fn restart(&mut self, node: usize, settings: &[(&str, &str)]) {
        let node = &mut self.nodes()[node];
        node.kill();
        for (name, value) in settings {
            node.set(name, value);
        }
        tokio::task::block_in_place(|| node.restart());
    }

    /// Kills all nodes, and starts them again with these settings beside their own.
    pub(super) fn restart_all(&mut self, settings: &[(&str, &str)]) {
        for node in 0..self.offsets.len() {
            self.restart(node, settings);
        }
    }

    fn step(&mut self, node: usize, seconds: i64) {
        let next = self.offsets[node] + seconds;
        self.set(node, if next.abs() > FARTHEST { 0 } else { next });
    }

    /// Sets the clock of a node.
    pub(super) fn set(&mut self, node: usize, offset: i64) {
        self.offsets[node] = offset;
        clock::write(&path(self.clocks.path(), node), offset);
    }

    /// Sets all clocks.
    pub(super) fn set_all(&mut self, offset: i64) {
        (0..self.offsets.len()).for_each(|node| self.set(node, offset));
    }

    /// Counts the rows. The embedded store is stopped for that, and starts again.
    pub(super) async fn rows(&mut self) -> Rows {
        match &mut self.place {
            Place::One(server) => {
                assert!(server.terminate(), "it ends in order");
                let rows = rows_of(&server.data().join("store")).await;
                tokio::task::block_in_place(|| server.restart());
                rows
            }
            Place::Two(cluster) => {
                // The byte before a key's own is `r`.
                let rows = cluster.sql(&format!(
                    "SELECT string_agg(of || ' ' || count, ',') FROM (SELECT CASE WHEN get_byte(key, 1) = {TEXTS} AND \
                     get_byte(key, 19) = {SALT} THEN {SALTS} ELSE get_byte(key, 1) END AS of, count(*) AS count \
                     FROM callboard.row WHERE get_byte(key, 0) = 114 GROUP BY 1) AS rows"
                ));
                let pairs = rows.trim().split(',').filter_map(|pair| pair.split_once(' '));
                pairs
                    .map(|(of, count)| {
                        (of.parse().expect("a table"), count.parse().expect("a count"))
                    })
                    .collect()
            }
        }
    }
}

async fn rows_of(store: &Path) -> Rows {
    let options = SledOptions::new(store.into(), 8 << 20, Box::new(|error| panic!("{error}")));
    let store = SledStore::open(options).expect("the store opens");
    let (first, last) = (Key(Box::new([0])), Key(Box::new([u8::MAX; 64])));
    let all = store.scan(first, last, usize::MAX).await.expect("they are read");
    let mut rows = Rows::new();
    for (key, _) in all {
        let is_salt = key.0[0] == TEXTS && key.0[18] == SALT;
        *rows.entry(if is_salt { SALTS } else { key.0[0] }).or_default() += 1;
    }
    rows
}

/// The settings of a server whose wall clock is that of a file.
fn clocked(clock: &str) -> [(String, String); 5] {
    clock::variables(Path::new(clock)).map(|(name, value)| (format!("${name}"), value))
}

fn pairs(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn path(directory: &Path, node: usize) -> PathBuf {
    directory.join(node.to_string())
}
