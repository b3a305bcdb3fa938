//! A million tasks for T7 and T10: submitted in batches, run by a worker, some failed, some cancelled.
//!
//! Directories with less in them are kept on the way, so that T10 can go back to them.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::error::{Error, broken};
use super::http::Site;
use super::meter::count;
use super::program::{Ground, Program, Service, data, disk, text};
use super::report::Row;
use super::worker::{TO_FAIL, Worker};

/// The number of stored tasks, unless an option gives another.
const ITEMS: usize = 1_000_000;
/// The smaller numbers, with which T10 begins.
const FEWER: [usize; 2] = [1_000, 10_000];
/// The tasks that one request submits.
const BATCH: usize = 100;
/// The connections that submit at once.
const SUBMITTERS: usize = 8;
/// The most tasks under way.
const ROOM: usize = 10_000;
/// The number of batches of which one is cancelled.
const CANCELLED: usize = 33;
/// The models that the worker runs, and one that it does not run.
const MODELS: &str = "bench-*";
const NOBODYS_MODEL: &str = "nobodys";
/// The number of queues.
const QUEUES: u64 = 10;

/// Directories of servers that have ended, with so many ended tasks in each.
pub(super) struct Stored {
    /// The number of tasks in the large directory.
    pub(super) items: usize,
    /// The smaller directories.
    pub(super) fewer: Vec<(usize, TempDir)>,
    /// The large directory, while no server has it.
    large: Option<TempDir>,
    /// The figures of making the directories.
    made: Vec<Row>,
}

impl Stored {
    /// Starts a server on the large directory.
    pub(super) async fn open(
        &mut self,
        ground: &Ground,
        settings: &[(&str, &str)],
    ) -> Result<Program, Error> {
        let directory = self.large.take().ok_or_else(|| broken("the stored tasks are in use"))?;
        ground.server_on(directory, settings).await
    }

    /// Takes the large directory back.
    pub(super) fn close(&mut self, directory: TempDir) {
        self.large = Some(directory);
    }

    /// The figures of making the directories, returned once.
    pub(super) fn made(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.made)
    }
}

/// Makes the directories.
pub(super) async fn make(ground: &Ground, tell: impl Fn(&str)) -> Result<Stored, Error> {
    let items = ground.options.items.unwrap_or(ITEMS) / BATCH * BATCH;
    let begin = Instant::now();
    let mut service = ground.service().await?;
    let (mut fewer, mut there) = (Vec::new(), 0);
    for size in FEWER.into_iter().filter(|size| *size < items) {
        fill(&service, there, size).await?;
        there = size;
        let directory = service.kill().await?;
        fewer.push((size, ground.copy(&directory)?));
        service = ground.server_on(directory, &[]).await?.service().await?;
    }
    fill(&service, there, items).await?;
    let took = begin.elapsed();
    let directory = service.kill().await?;
    let bytes = disk(&data(&directory)).map_err(Error::of("a directory cannot be read"))?;
    tell(&format!("{} tasks in {took:.1?}, {} MB on disk", grouped(items), bytes / 1_000_000));
    let number = count(items as u64);
    let what = format!("{} tasks submitted in batches, run and stored", grouped(items));
    let made = vec![
        Row::of("T7", what, "tasks/s").figure(number / took.as_secs_f64()),
        Row::of("T7", "their disk", "B a task").figure(count(bytes) / number),
    ];
    Ok(Stored { items, fewer, large: Some(directory), made })
}

/// Stores the tasks with these numbers: all of them have ended when this returns.
async fn fill(service: &Service, from: usize, to: usize) -> Result<(), Error> {
    let queues: Vec<_> = (0..QUEUES).map(queue).collect();
    let worker = Worker::serving(&service.worker, ROOM.min(1_000), &queues, MODELS).await?;
    let room = Arc::new(Semaphore::new(ROOM));
    let batches = from / BATCH..to / BATCH;
    let run = batches.clone().filter(|batch| !is_cancelled(*batch)).count();
    let mut submitters = JoinSet::new();
    for lane in 0..SUBMITTERS {
        let batches = batches.clone().filter(move |batch| batch % SUBMITTERS == lane);
        submitters.spawn(submit(service.operator.clone(), batches.collect(), Arc::clone(&room)));
    }
    let submitted = async {
        while let Some(ended) = submitters.join_next().await {
            ended.map_err(Error::of("a submitter broke"))??;
        }
        Ok(())
    };
    tokio::try_join!(worker.answer(run * BATCH, &room), submitted).map(drop)
}

async fn submit(site: Site, batches: Vec<usize>, room: Arc<Semaphore>) -> Result<(), Error> {
    let mut connection = site.open().await?;
    for batch in batches {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let cancelled = is_cancelled(batch);
        if !cancelled {
            let permits = u32::try_from(BATCH).expect("a hundred fits");
            let room = room.acquire_many(permits).await;
            room.map_err(Error::of("the worker broke"))?.forget();
        }
        let tasks: Vec<_> = numbers.map(|number| task(number as u64, cancelled)).collect();
        let body = json!({"tasks": tasks}).to_string();
        let made = connection.data(&site.post("/api/tasks/batch", &body), 201).await?;
        let made = made["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        for task in made.iter().filter(|_| cancelled) {
            let path = format!("/api/tasks/{}", text(task, "id")?);
            connection.exchange(&site.delete(&path), 200).await?;
        }
    }
    Ok(())
}

/// Submits tasks that no worker runs, so that lists have some that wait.
pub(super) async fn submit_waiting(site: &Site, batches: usize) -> Result<usize, Error> {
    let mut connection = site.open().await?;
    for batch in 0..batches {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let tasks: Vec<_> = numbers.map(|number| task(number as u64, true)).collect();
        let body = json!({"tasks": tasks}).to_string();
        connection.exchange(&site.post("/api/tasks/batch", &body), 201).await?;
    }
    Ok(batches * BATCH)
}

const fn is_cancelled(batch: usize) -> bool {
    batch % CANCELLED == CANCELLED - 1
}

fn queue(number: u64) -> String {
    format!("{}-{number}", super::worker::QUEUE)
}

/// A task of ten queues, twelve models, ten priorities and 1,100 tags; of those that run, one in
/// fourteen fails.
fn task(number: u64, waits: bool) -> Value {
    let r = mix(number);
    let word = if r.is_multiple_of(14) { TO_FAIL } else { "-" };
    let model = if waits { NOBODYS_MODEL.to_owned() } else { format!("bench-{}", (r >> 8) % 12) };
    json!({
        "prompt": format!("{word} Sum up what customer {number} wants."), "model": model,
        "queue": queue((r >> 16) % QUEUES), "priority": (r >> 24) % 10 + 1,
        "tags": [format!("often-{}", (r >> 32) % 100), format!("seldom-{}", (r >> 40) % 1_000)],
    })
}

/// A number that looks random and is the same every time.
pub(super) const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// A number with commas.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        let shown: Vec<_> = [0, 999, 1_000, 20_000, 1_000_000].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "20,000", "1,000,000"]);
    }
}
