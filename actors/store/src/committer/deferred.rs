//! Deferred commits: a batch whose ticket was dropped may wait for up to 10 ms, to share the next sync and,
//! often, its rows with a later batch of the same item. A lease that is answered at once is then never
//! written by itself.
//!
//! A deferred batch stays before every later batch that names one of its keys. Deliberately absent: any
//! other promise; dropping a ticket gives up the place in the queue.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use foldhash::HashSet;

use super::{GROUP, Job};
use crate::batch::{Key, Op};

/// The longest wait of a deferred batch, but for the sync under way.
pub const DEFERRED: Duration = Duration::from_millis(10);

/// The deferred batches, in the order of their arrival.
#[derive(Default)]
pub(super) struct DeferredCommits {
    queue: VecDeque<Arrival>,
    arrivals: u64,
}

/// A batch, and its place in the order of arrival.
struct Arrival {
    number: u64,
    at: Instant,
    job: Job,
}

impl DeferredCommits {
    /// The time until the first batch is due; `None` without one.
    pub(super) fn next_due(&self, now: Instant) -> Option<Duration> {
        let oldest = self.queue.front()?;
        Some((oldest.at + DEFERRED).saturating_duration_since(now))
    }

    /// Takes out all batches, for the last group.
    pub(super) fn drain(&mut self) -> Vec<Job> {
        self.queue.drain(..).map(|arrival| arrival.job).collect()
    }

    /// Selects from the deferred and the `received` batches those to commit now, in the order of arrival.
    /// Empty if no ticket is held and no batch is due.
    pub(super) fn select(&mut self, received: impl Iterator<Item = Job>, now: Instant) -> Vec<Job> {
        let mut selected = Vec::new();
        for job in received {
            let arrival = Arrival { number: self.arrivals, at: now, job };
            self.arrivals += 1;
            if arrival.job.reply.is_closed() {
                self.queue.push_back(arrival);
            } else {
                selected.push(arrival);
            }
        }
        if !self.queue.is_empty() {
            self.join(&mut selected, now);
        }
        selected.into_iter().map(|arrival| arrival.job).collect()
    }

    /// Adds the deferred batches that are due, and those that a selected one must not overtake.
    fn join(&mut self, selected: &mut Vec<Arrival>, now: Instant) {
        let crowded = self.queue.len() >= GROUP;
        let mut joins = vec![false; self.queue.len()];
        let mut named: HashSet<&Key> =
            selected.iter().flat_map(|arrival| keys(&arrival.job)).collect();
        // The newest arrival comes first: each that joins may take older ones along.
        for (arrival, joins) in self.queue.iter().zip(&mut joins).rev() {
            let due = crowded || now >= arrival.at + DEFERRED;
            *joins = due || keys(&arrival.job).any(|key| named.contains(key));
            if *joins {
                named.extend(keys(&arrival.job));
            }
        }
        if !joins.contains(&true) {
            return;
        }
        for (arrival, joins) in std::mem::take(&mut self.queue).into_iter().zip(joins) {
            if joins { selected.push(arrival) } else { self.queue.push_back(arrival) }
        }
        selected.sort_unstable_by_key(|arrival| arrival.number);
    }
}

fn keys(job: &Job) -> impl Iterator<Item = &Key> {
    job.batch.ops.iter().filter_map(|op| match op {
        Op::Put { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => Some(key),
        Op::Append { .. } | Op::Trim { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::batch::{Batch, BatchId};
    use crate::{Outcome, Ticket};

    /// Batches as they arrive, and the tickets that are held.
    struct Inbox {
        deferred: DeferredCommits,
        tickets: Vec<Ticket>,
        start: Instant,
    }

    impl Inbox {
        fn new() -> Self {
            Self {
                deferred: DeferredCommits::default(),
                tickets: Vec::new(),
                start: Instant::now(),
            }
        }

        fn batch(&mut self, number: u8, keys: &[u8], holds_ticket: bool) -> Job {
            let (reply, ticket) = Ticket::new();
            if holds_ticket {
                self.tickets.push(ticket);
            }
            let put = |key: &u8| Op::Put {
                key: Key::new(1, 0, &[*key]),
                value: Bytes::new(),
                entry: None,
            };
            let ops = keys.iter().map(put).collect();
            Job { batch: Batch { id: BatchId(u128::from(number)), guards: Vec::new(), ops }, reply }
        }

        fn select<const N: usize>(&mut self, at_ms: u64, received: [Job; N]) -> Vec<u128> {
            let now = self.start + Duration::from_millis(at_ms);
            self.deferred
                .select(received.into_iter(), now)
                .iter()
                .map(|job| job.batch.id.0)
                .collect()
        }
    }

    #[test]
    fn a_batch_without_a_ticket_is_committed_when_it_is_due() {
        let mut inbox = Inbox::new();
        let job = inbox.batch(1, &[1], false);
        assert_eq!(inbox.select(0, [job]), []);
        assert_eq!(
            inbox.deferred.next_due(inbox.start + Duration::from_millis(4)),
            Some(Duration::from_millis(6))
        );
        assert_eq!(inbox.select(9, []), []);
        assert_eq!(inbox.select(10, []), [1]);
        assert_eq!(inbox.deferred.next_due(inbox.start), None);
    }

    #[test]
    fn a_batch_with_a_ticket_overtakes_it_unless_they_share_a_key() {
        let mut inbox = Inbox::new();
        let (first, other) = (inbox.batch(1, &[1], false), inbox.batch(2, &[2], true));
        assert_eq!(inbox.select(0, [first, other]), [2]);
        let same = inbox.batch(3, &[3, 1], true);
        assert_eq!(inbox.select(1, [same]), [1, 3]);
    }

    #[test]
    fn a_batch_takes_along_those_that_it_must_not_overtake() {
        let mut inbox = Inbox::new();
        let jobs = [
            inbox.batch(1, &[1], false),
            inbox.batch(2, &[1, 2], false),
            inbox.batch(3, &[9], false),
        ];
        assert_eq!(inbox.select(0, jobs), []);
        let job = inbox.batch(4, &[2], true);
        assert_eq!(inbox.select(1, [job]), [1, 2, 4]);
        assert_eq!(inbox.select(10, []), [3]);
    }

    #[test]
    fn a_later_batch_of_the_same_key_is_never_first() {
        let mut inbox = Inbox::new();
        let jobs = [inbox.batch(1, &[1], true), inbox.batch(2, &[1], false)];
        let order = inbox.select(0, jobs);
        assert!(order == [1] || order == [1, 2], "{order:?}");
    }

    #[test]
    fn a_full_group_is_not_deferred() {
        let mut inbox = Inbox::new();
        let jobs: Vec<_> = (0..GROUP).map(|_| inbox.batch(1, &[1], false)).collect();
        let gone = inbox.deferred.select(jobs.into_iter(), inbox.start);
        assert_eq!(gone.len(), GROUP);
        for job in gone {
            assert!(job.reply.send(Outcome::Committed).is_err());
        }
    }
}
