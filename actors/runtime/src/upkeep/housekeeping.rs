//! Periodic removal of old data: old events, idempotency keys, deliveries and sessions; and
//! memory that is held ready for later work.
//!
//! Deliberately absent: work that a request waits for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::machine::Machine;
use callboard_store::{Error, Op};

use crate::items::submission::OldKey;
use crate::items::{accounts, submission};
use crate::node::Node;
use crate::tables::{
    self, ENDED_DELIVERIES, EVENTS, IDEMPOTENCY, TEXTS, deliveries, event_words, executions,
};

/// The interval at which the number of events is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The number of these after which the memory is looked through.
const SLIM: u64 = 10;
/// The number of these after which everything else is looked at.
const TIDY: u64 = 60;
const PAGE: usize = 1_000;
/// The number of idempotency keys that are looked at each minute. The keys stand in no order of time,
/// so each is looked at in its turn, and one may be forgotten hours later than it could be.
const KEYS: usize = 20_000;
/// The most of those that are forgotten before submissions have their turn.
const KEYS_AT_ONCE: usize = 64;

/// Tidies up once a minute, for as long as the process lives. Data that comes by the thousand in that time
/// is looked at more often.
pub(crate) async fn run(node: Arc<Node>) {
    let mut ticks = tokio::time::interval(LOOK);
    // The idempotency key that was looked at last, of each environment.
    let mut places: BTreeMap<Environment, Option<[u8; 32]>> = BTreeMap::new();
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for look in 0.. {
        ticks.tick().await;
        if look % SLIM == 0 {
            node.slim();
        }
        if look % TIDY != 0 {
            for &environment in &*node.environments() {
                if let Err(error) = cap_events(&node, environment).await {
                    tracing::warn!(%error, "could not tidy up");
                }
            }
            continue;
        }
        for &environment in &*node.environments() {
            let place = places.entry(environment).or_default();
            if let Err(error) = tidy(&node, environment, place).await {
                tracing::warn!(%error, "could not tidy up");
            }
        }
        // The actor is not there before the system has started and while it stops; the next minute
        // will do.
        if let Some(writer) = node.actors.account_writer.get() {
            let _ = writer.cast(accounts::Message::Tidy);
        }
    }
}

async fn tidy(
    node: &Node,
    environment: Environment,
    place: &mut Option<[u8; 32]>,
) -> Result<(), Error> {
    trim_events(node, environment).await?;
    forget_keys(node, environment, place).await?;
    forget_deliveries(node, environment).await
}

/// Forgets events that are a tenth too many: at once, as a minute may bring a million.
async fn cap_events(node: &Node, environment: Environment) -> Result<(), Error> {
    let (shard, log) = (node.shard(0), tables::event_log(environment));
    let (oldest, newest) = shard.store.log_bounds(log).await?;
    let most = node.settings.keep_events_max;
    if (newest + 1).saturating_sub(oldest) > most.saturating_add(most / 10) {
        let before = (newest + 1).saturating_sub(most);
        drop(shard.commit(0, vec![Op::Trim { log, before }]));
    }
    Ok(())
}

/// Forgets events that are too old or too many (`[events] keep, keep_max`).
async fn trim_events(node: &Node, environment: Environment) -> Result<(), Error> {
    let shard = node.shard(0);
    let log = tables::event_log(environment);
    let (oldest, newest) = shard.store.log_bounds(log).await?;
    let mut before = oldest.max((newest + 1).saturating_sub(node.settings.keep_events_max));
    let now = node.now();
    while node.may_remove(node.settings.keep_events) {
        let page = shard.store.read_log(log, before.saturating_sub(1), PAGE).await?;
        let mut young = false;
        for record in &page {
            if now.since(EVENTS.read(record)?.at()) < node.settings.keep_events {
                young = true;
                break;
            }
            before = record.sequence + 1;
        }
        if young || page.len() < PAGE {
            break;
        }
    }
    if before > oldest {
        drop(shard.commit(0, vec![Op::Trim { log, before }]));
    }
    Ok(())
}

/// Forgets idempotency keys that have served their time and whose tasks have ended; the next ones
/// after `place`.
async fn forget_keys(
    node: &Node,
    environment: Environment,
    place: &mut Option<[u8; 32]>,
) -> Result<(), Error> {
    if !node.may_remove(submission::KEPT) {
        return Ok(());
    }
    let now = node.now();
    for _ in 0..KEYS / PAGE {
        let store = node.store();
        let page = IDEMPOTENCY.scan(store, environment.number(), place.as_ref(), PAGE).await?;
        *place = page.last().map(|(last, _)| *last);
        if place.is_none() {
            return Ok(());
        }
        let mut old: BTreeMap<u8, Vec<OldKey>> = BTreeMap::new();
        for (scope, row) in page {
            if now.since(row.at) < submission::KEPT {
                continue;
            }
            let mut ended = match row.execution {
                Some(id) => executions::has_ended(store, environment, id).await?,
                None => true,
            };
            for task in &row.tasks {
                let task = tables::task(store, environment, *task).await?;
                ended &= task.is_none_or(|found| found.task.is_finished());
            }
            if ended {
                let mut ops = Vec::new();
                // The salt of a batch stands by itself.
                if let Some(batch) = row.salted_by.filter(|_| row.tasks.len() > 1) {
                    ops = TEXTS.delete_all(store, environment.number(), batch).await?;
                }
                let key = OldKey { environment, scope, at: row.at, ops };
                old.entry(scope[0]).or_default().push(key);
            }
        }
        for (partition, keys) in old {
            // The actor of the keys knows which are being used again. It is there unless the system is stopping.
            let Some(submissions) = node.shard(partition).submissions.get() else { continue };
            let mut keys = keys.into_iter().peekable();
            while keys.peek().is_some() {
                let some = keys.by_ref().take(KEYS_AT_ONCE).collect();
                let _ = submissions.cast(submission::Message::Forget(some));
            }
        }
        // A scan of the embedded store never waits; others are to have their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Forgets deliveries that are over and old; they stand in the order in which they were made.
async fn forget_deliveries(node: &Node, environment: Environment) -> Result<(), Error> {
    if !node.may_remove(deliveries::KEPT) {
        return Ok(());
    }
    let now = node.now();
    let mut after = None;
    loop {
        let (store, number) = (node.store(), environment.number());
        let page = ENDED_DELIVERIES.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        for (id, _) in page {
            let delivery = DeliveryId::from_u128(id);
            if now.since(delivery.created_at()) < deliveries::KEPT {
                return Ok(());
            }
            let mut ops = event_words::removal(store, environment, id, None).await?;
            ops.push(ENDED_DELIVERIES.delete(number, &id));
            let partition = delivery.partition();
            drop(node.shard(partition).commit(partition, ops));
        }
    }
}
