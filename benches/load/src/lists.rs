//! T7: lists over all stored tasks, with every filter in every order, at offsets up to 10,000; the
//! memory of the index, and the time of a start that reads it.
//!
//! One client asks. Every combination comes a few times at first, then the slowest of them often
//! enough for their 99th percentile: the target holds for any of them.

use std::time::Instant;

use callboard_client::{Call, Client};
use hdrhistogram::Histogram;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::baseline;
use super::error::{Error, broken};
use super::http::{Connection, Site};
use super::meter::{Summary, count, histogram, micros, millis};
use super::program::{Ground, Program};
use super::report::{Bound, Row};
use super::stored::{Stored, grouped, mix, submit_waiting};
use super::waiting::idle;

/// The number of times that each combination is asked for at first.
const PASSES: usize = 5;
/// The number of the slowest combinations that are measured more closely, and the number of times.
const SLOWEST: usize = 10;
const AGAIN: usize = 200;
const MAX_OFFSET: usize = 10_000;
/// The batches of tasks that wait while lists are read.
const WAITING: usize = 10;
/// The smallest cache of rows there is, so that it is not counted as the index.
const LITTLE_CACHE: [(&str, &str); 1] = [("CALLBOARD_STORE__CACHE_BYTES", "1048576")];

const STATUSES: [&str; 6] = ["completed", "failed", "cancelled", "pending", "running", "rejected"];
const P99_MS: f64 = 10.0;

/// Measures lists: on a stored directory, or on a server that runs already.
pub(super) async fn run(ground: &Ground, stored: Option<&mut Stored>) -> Result<Vec<Row>, Error> {
    let Some(stored) = stored else {
        return lists(&ground.service().await?.operator).await;
    };
    let mut rows = stored.made();
    rows.extend(memory(ground, stored).await?);
    let begin = Instant::now();
    let server = stored.open(ground, &[]).await?;
    let ready = begin.elapsed();
    let service = server.service().await?;
    let total = total(&service.operator.client()?, None).await?;
    let first = begin.elapsed();
    let row = |what: &str, took| Row::of("T7", what, "ms").figure(millis(took));
    rows.push(row("kill -9 with all of it stored → ready", ready));
    rows.push(row("kill -9 with all of it stored → first list", first));
    if total != stored.items as u64 {
        return Err(broken(format!("{total} tasks are listed of {} stored", stored.items)));
    }
    submit_waiting(&service.operator, WAITING).await?;
    rows.extend(lists(&service.operator).await?);
    stored.close(service.kill().await?);
    Ok(rows)
}

/// Measures the index by itself, in a process of its own; and the memory of a server on all tasks
/// beyond that of an empty one, for any purpose: the index, sled's table of its pages, the
/// allocator's reserve.
async fn memory(ground: &Ground, stored: &mut Stored) -> Result<[Row; 2], Error> {
    let index = baseline::index(stored.items).await?;
    let empty = ground.server_on(ground.directory()?, &LITTLE_CACHE).await?;
    let server: Program = stored.open(ground, &LITTLE_CACHE).await?;
    let (empty, full) = tokio::try_join!(idle(&empty), idle(&server))?;
    stored.close(server.kill().await?);
    let each = (full - empty) / count(stored.items as u64);
    let what = "a stored task's memory in a server, all of it";
    Ok([
        Row::of("T7", "a stored task's memory in the index", "B")
            .figure(index)
            .bound(Bound::AtMost(64.0)),
        Row::of("T7", what, "B").figure(each),
    ])
}

async fn lists(site: &Site) -> Result<Vec<Row>, Error> {
    let mut reader = Reader::new(site).await?;
    let mut sums = vec![0; COMBINATIONS];
    let mut all = histogram();
    let begin = Instant::now();
    for pass in 0..PASSES {
        for step in 0..COMBINATIONS {
            // Neighbours must not be read one after the other: 577 has no factor of 864.
            let number = (step * 577 + pass) % COMBINATIONS;
            sums[number] += reader.read(number, &mut all).await?;
        }
    }
    let together = Summary::new(&all, begin.elapsed());
    let mut order: Vec<_> = (0..COMBINATIONS).collect();
    order.sort_unstable_by_key(|number| std::cmp::Reverse(sums[*number]));
    let mut worst: Option<(Summary, usize)> = None;
    for number in order.into_iter().take(SLOWEST) {
        let mut latency: Histogram<u64> = histogram();
        let begin = Instant::now();
        for _ in 0..AGAIN {
            reader.read(number, &mut latency).await?;
        }
        let summary = Summary::new(&latency, begin.elapsed());
        if worst.is_none_or(|(worst, _)| summary.p99 > worst.p99) {
            worst = Some((summary, number));
        }
    }
    let what = format!(
        "lists over {} tasks, any filter and order, offset up to 10,000, p99",
        grouped(usize::try_from(reader.total).unwrap_or(usize::MAX)),
    );
    let row = |what: String, summary: Summary| {
        let row = Row::of("T7", what, "ms").figure(summary.p99).latencies(summary);
        row.bound(Bound::AtMost(P99_MS))
    };
    let mut rows = vec![row(what, together)];
    rows.extend(worst.map(|(summary, number)| {
        row(format!("the slowest of them ({}), p99", Combination::of(number).name()), summary)
    }));
    Ok(rows)
}

/// The filters of a list and its order.
#[derive(Debug, Clone, Copy)]
struct Combination {
    /// The number of statuses: none, one, several.
    statuses: usize,
    model: bool,
    queue: bool,
    tags: usize,
    /// The bounds of the creation: neither, after, before, both.
    window: usize,
    order: usize,
    ascending: bool,
}

const COMBINATIONS: usize = 3 * 2 * 2 * 3 * 4 * ORDERS.len() * 2;
const ORDERS: [&str; 3] = ["createdAt", "completedAt", "priority"];

impl Combination {
    /// The combination with this number.
    fn of(number: usize) -> Self {
        let mut rest = number;
        let mut one_of = |count: usize| {
            let this = rest % count;
            rest /= count;
            this
        };
        Self {
            statuses: one_of(3),
            model: one_of(2) == 1,
            queue: one_of(2) == 1,
            tags: one_of(3),
            window: one_of(4),
            order: one_of(ORDERS.len()),
            ascending: one_of(2) == 1,
        }
    }

    fn after(self) -> bool {
        self.window & 1 == 1
    }

    fn before(self) -> bool {
        self.window & 2 == 2
    }

    fn name(self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        parts.extend([None, Some("a status"), Some("statuses")][self.statuses]);
        parts.extend(self.model.then_some("model"));
        parts.extend(self.queue.then_some("queue"));
        parts.extend([None, Some("a tag"), Some("two tags")][self.tags]);
        parts.extend(self.after().then_some("created after"));
        parts.extend(self.before().then_some("created before"));
        let filters = if parts.is_empty() { "no filter".into() } else { parts.join(", ") };
        let direction = if self.ascending { "up" } else { "down" };
        format!("{filters}, by {} {direction}", ORDERS[self.order])
    }
}

/// The reader of lists, with values for the filters that are there.
struct Reader {
    site: Site,
    connection: Connection,
    /// The number of stored tasks.
    total: u64,
    /// Tasks as lists show them, from which the filters take their values.
    samples: Vec<Value>,
    /// The first and the last creation, in milliseconds.
    created: (i64, i64),
    chance: Chance,
}

impl Reader {
    async fn new(site: &Site) -> Result<Self, Error> {
        let client = site.client()?;
        let total = total(&client, None).await?;
        let mut sum = 0;
        for status in STATUSES {
            sum += self::total(&client, Some(status)).await?;
        }
        if sum != total {
            return Err(broken(format!("{total} tasks are listed, {sum} by their status")));
        }
        let mut samples = Vec::new();
        for page in 0..100 {
            let offset = mix(page) % total.clamp(1, MAX_OFFSET as u64);
            let order = if page % 2 == 0 { "asc" } else { "desc" };
            let list = Call::get(&["tasks"]).query("limit", Some(100));
            let list = list.query("offset", Some(offset)).query("order", Some(order));
            samples.extend(client.page(list).await?.data);
        }
        let created = samples.iter().filter_map(|task| instant(&task["createdAt"]));
        let created = created.clone().min().zip(created.max());
        let created = created.ok_or_else(|| broken("there is no task to list"))?;
        Ok(Self {
            site: site.clone(),
            connection: site.open().await?,
            total,
            samples,
            created,
            chance: Chance::default(),
        })
    }

    /// Reads the list of a combination, records the latency, and returns it in microseconds.
    async fn read(&mut self, number: usize, latency: &mut Histogram<u64>) -> Result<u64, Error> {
        let path = self.path(Combination::of(number));
        let request = self.site.get(&path);
        let asked = Instant::now();
        self.connection.exchange(&request, 200).await?;
        let took = micros(asked.elapsed());
        latency.saturating_record(took);
        Ok(took)
    }

    fn path(&mut self, combination: Combination) -> String {
        let mut query = Serializer::new(String::from("/api/tasks?"));
        let Self { samples, chance, .. } = self;
        let task = &samples[chance.below(samples.len())];
        match combination.statuses {
            1 => drop(query.append_pair("status", STATUSES[chance.below(3)])),
            2 => drop(query.append_pair("status", "completed,failed,pending")),
            _ => {}
        }
        let mut named = |name, wanted: bool| {
            if let Some(value) = task[name].as_str().filter(|_| wanted) {
                query.append_pair(name, value);
            }
        };
        named("model", combination.model);
        named("queue", combination.queue);
        let tags = task["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tags: Vec<_> = tags.iter().filter_map(Value::as_str).take(combination.tags).collect();
        if !tags.is_empty() {
            query.append_pair("tags", &tags.join(","));
        }
        let (first, last) = self.created;
        let middle = i64::midpoint(first, last);
        let half = usize::try_from((last - first) / 2).unwrap_or(0) + 1;
        let within = |from: i64, chance: usize| {
            let at = from + i64::try_from(chance).unwrap_or(0);
            jiff::Timestamp::from_millisecond(at).map(|at| format!("{at:.3}")).unwrap_or_default()
        };
        if combination.after() {
            query.append_pair("createdAfter", &within(first, chance.below(half)));
        }
        if combination.before() {
            query.append_pair("createdBefore", &within(middle, chance.below(half)));
        }
        query.append_pair("orderBy", ORDERS[combination.order]);
        query.append_pair("order", if combination.ascending { "asc" } else { "desc" });
        query.append_pair("limit", if chance.below(2) == 0 { "20" } else { "100" });
        // Small offsets come too: a filter that few tasks pass has no task at a large one.
        let most = [0, 100, 1_000, MAX_OFFSET][chance.below(4)];
        let offset = chance.below(most + 1);
        query.append_pair("offset", &offset.to_string());
        query.finish()
    }
}

/// Numbers that look random and are the same every time.
#[derive(Debug, Default)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, of: usize) -> usize {
        self.0 += 1;
        usize::try_from(mix(self.0) % of.max(1) as u64).unwrap_or(0)
    }
}

/// The number of tasks, or of those of one status.
pub(super) async fn total(client: &Client, status: Option<&str>) -> Result<u64, Error> {
    let list = Call::get(&["tasks"]).query("status", status).query("limit", Some(1));
    let page = client.page(list).await?;
    page.pagination["total"].as_u64().ok_or_else(|| broken("a list has no total"))
}

fn instant(value: &Value) -> Option<i64> {
    let instant: jiff::Timestamp = value.as_str()?.parse().ok()?;
    Some(instant.as_millisecond())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_combination_comes_once_in_a_pass() {
        let names: BTreeSet<_> = (0..COMBINATIONS).map(|n| Combination::of(n).name()).collect();
        assert_eq!(names.len(), COMBINATIONS);
        assert!(names.contains("no filter, by createdAt down"));
        let steps: BTreeSet<_> = (0..COMBINATIONS).map(|n| n * 577 % COMBINATIONS).collect();
        assert_eq!(steps.len(), COMBINATIONS);
    }
}
