//! T1: tasks are submitted, durably, by 64 authenticated connections.

use std::sync::Arc;

use callboard_client::Call;
use serde_json::json;
use tokio::sync::Semaphore;

use super::IN_FLIGHT;
use super::error::Error;
use super::http::{Connection, Site};
use super::meter::{Client, Summary, closed_loop};
use super::program::{Ground, Service};
use super::report::{Bound, Row};
use super::worker::{QUEUE, Worker};

/// The size of a request's body.
const BODY: usize = 500;

/// A client that submits one task after the other.
pub(super) struct Submitter {
    connection: Connection,
    request: Vec<u8>,
}

impl Submitter {
    /// A client whose prompts begin with this word.
    pub(super) async fn connect(site: &Site, word: &str) -> Result<Self, Error> {
        let request = site.post("/api/tasks", &task(word));
        Ok(Self { connection: site.open().await?, request })
    }
}

impl Client for Submitter {
    async fn once(&mut self) -> Result<(), Error> {
        self.connection.exchange(&self.request, 201).await.map(drop)
    }
}

/// Measures the program beside the least durable server.
pub(super) async fn run(ground: &Ground) -> Result<Vec<Row>, Error> {
    let (mut ours, mut least) = (vec![], vec![]);
    for _ in 0..ground.options.rounds {
        if let Some(baseline) = ground.http_baseline().await? {
            least.push(load(ground, &baseline.site.with_token("none")).await?);
        }
        let service = ground.service().await?;
        ours.push(load(ground, &service.operator).await?);
        if service.program.is_none() {
            answer_the_rest(&service).await?;
        }
    }
    let rate = |summary: &Summary| summary.rate;
    let row = Row::of("T1", "POST /api/tasks, durable, 64 connections", "requests/s");
    Ok(vec![row.beside((&ours, rate), (&least, rate)).bound(Bound::AtLeast(0.6))])
}

async fn load(ground: &Ground, site: &Site) -> Result<Summary, Error> {
    let mut clients = Vec::with_capacity(IN_FLIGHT);
    for _ in 0..IN_FLIGHT {
        clients.push(Submitter::connect(site, "").await?);
    }
    closed_loop(clients, ground.options.span).await
}

/// Answers the remaining tasks, so that none is left waiting on the user's server.
async fn answer_the_rest(service: &Service) -> Result<(), Error> {
    let list = Call::get(&["tasks"]).query("queue", Some(QUEUE)).query("status", Some("pending"));
    let page = service.operator.client()?.page(list.query("limit", Some(1))).await?;
    let left = page.pagination["total"].as_u64().unwrap_or_default();
    let worker = Worker::connect(&service.worker, Arc::new([]), IN_FLIGHT).await?;
    worker.answer(usize::try_from(left).unwrap_or(usize::MAX), &Semaphore::new(0)).await
}

/// Prose without repetition, which compresses no better than real letters.
const LETTER: &str = "Sum up what this customer wants. Dear shop, my parcel with two blue kettles and a \
    toaster came on Friday, but its lid was dented and one plug does not fit our sockets. Please send \
    another by the end of March, to my sister's flat in Harbour Lane 14, since we move house next week. \
    You may keep the voucher; I would rather have money back for whatever cannot be replaced. Yours, \
    Imogen Vale. P.S. Nobody answers your telephone before noon.";

/// The body of a request: 500 bytes, with any beginning of the prompt.
fn task(word: &str) -> String {
    let body = |prompt: &str| {
        json!({
            "prompt": prompt, "model": "bench-model", "queue": QUEUE, "priority": 5,
            "tags": ["bench"], "maxTokens": 256, "temperature": 0.5,
            "systemPrompt": "Answer in one sentence.",
        })
        .to_string()
    };
    let length = BODY - body("").len();
    body(&format!("{word} {LETTER}")[..length])
}
