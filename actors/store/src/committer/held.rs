//! Batches that nobody waits for: held back for a while, so that they share the next sync and, often,
//! their rows with a later batch of the same item. A lease whose answer comes at once is never
//! written by itself.
//!
//! A held batch never falls behind a later one that names one of its keys. Deliberately absent: any
//! promise beyond that; whoever drops a ticket gives up on its place in the line.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use foldhash::HashSet;

use super::{GROUP, Job};
use crate::batch::{Key, Op};

/// How long a batch that nobody waits for is held back at most, but for the sync under way.
const PATIENCE: Duration = Duration::from_millis(10);

/// The batches held back, in the order of their coming.
#[derive(Default)]
pub(super) struct Held {
    jobs: VecDeque<Waiting>,
    came: u64,
}

/// A batch and its place in the line.
struct Waiting {
    place: u64,
    since: Instant,
    job: Job,
}

impl Held {
    /// How long there is nothing to do unless something comes in; `None`: for ever.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let oldest = self.jobs.front()?;
        Some((oldest.since + PATIENCE).saturating_duration_since(now))
    }

    /// Everything that is held, for the last group of all.
    pub(super) fn all(&mut self) -> Vec<Job> {
        self.jobs.drain(..).map(|waiting| waiting.job).collect()
    }

    /// What of `came`, and of what is held, goes now, in the order of its coming. Empty if nobody
    /// waits for anything and nothing is due.
    pub(super) fn take(&mut self, came: impl Iterator<Item = Job>, now: Instant) -> Vec<Job> {
        let mut wanted = Vec::new();
        for job in came {
            let waiting = Waiting { place: self.came, since: now, job };
            self.came += 1;
            if waiting.job.answer.is_closed() {
                self.jobs.push_back(waiting);
            } else {
                wanted.push(waiting);
            }
        }
        if !self.jobs.is_empty() {
            self.join(&mut wanted, now);
        }
        wanted.into_iter().map(|waiting| waiting.job).collect()
    }

    /// Adds what is held to those that go: what is due, and whatever one of them must not overtake.
    fn join(&mut self, going: &mut Vec<Waiting>, now: Instant) {
        let crowded = self.jobs.len() >= GROUP;
        let mut goes = vec![false; self.jobs.len()];
        let mut named: HashSet<&Key> =
            going.iter().flat_map(|waiting| keys(&waiting.job)).collect();
        // From the newest to the oldest, since each that goes may take older ones along.
        for (waiting, goes) in self.jobs.iter().zip(&mut goes).rev() {
            let due = crowded || now >= waiting.since + PATIENCE;
            *goes = due || keys(&waiting.job).any(|key| named.contains(key));
            if *goes {
                named.extend(keys(&waiting.job));
            }
        }
        if !goes.contains(&true) {
            return;
        }
        for (waiting, goes) in std::mem::take(&mut self.jobs).into_iter().zip(goes) {
            if goes { going.push(waiting) } else { self.jobs.push_back(waiting) }
        }
        going.sort_unstable_by_key(|waiting| waiting.place);
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

    /// Lines of batches: their number, the keys that they name, and whether somebody waits.
    struct Line {
        held: Held,
        tickets: Vec<Ticket>,
        start: Instant,
    }

    impl Line {
        fn new() -> Self {
            Self { held: Held::default(), tickets: Vec::new(), start: Instant::now() }
        }

        fn batch(&mut self, number: u8, keys: &[u8], waits: bool) -> Job {
            let (answer, ticket) = Ticket::new();
            if waits {
                self.tickets.push(ticket);
            }
            let put = |key: &u8| Op::Put {
                key: Key::new(1, 0, &[*key]),
                value: Bytes::new(),
                entry: None,
            };
            let ops = keys.iter().map(put).collect();
            Job {
                batch: Batch { id: BatchId(u128::from(number)), guards: Vec::new(), ops },
                answer,
            }
        }

        fn take<const N: usize>(&mut self, at_ms: u64, came: [Job; N]) -> Vec<u128> {
            let now = self.start + Duration::from_millis(at_ms);
            self.held.take(came.into_iter(), now).iter().map(|job| job.batch.id.0).collect()
        }
    }

    #[test]
    fn what_nobody_waits_for_goes_when_it_is_due() {
        let mut line = Line::new();
        let job = line.batch(1, &[1], false);
        assert_eq!(line.take(0, [job]), []);
        assert_eq!(
            line.held.left(line.start + Duration::from_millis(4)),
            Some(Duration::from_millis(6))
        );
        assert_eq!(line.take(9, []), []);
        assert_eq!(line.take(10, []), [1]);
        assert_eq!(line.held.left(line.start), None);
    }

    #[test]
    fn what_others_wait_for_leaves_it_behind_unless_they_share_a_key() {
        let mut line = Line::new();
        let (first, other) = (line.batch(1, &[1], false), line.batch(2, &[2], true));
        assert_eq!(line.take(0, [first, other]), [2]);
        let same = line.batch(3, &[3, 1], true);
        assert_eq!(line.take(1, [same]), [1, 3]);
    }

    #[test]
    fn what_goes_takes_along_what_it_must_not_overtake() {
        let mut line = Line::new();
        let jobs =
            [line.batch(1, &[1], false), line.batch(2, &[1, 2], false), line.batch(3, &[9], false)];
        assert_eq!(line.take(0, jobs), []);
        let job = line.batch(4, &[2], true);
        assert_eq!(line.take(1, [job]), [1, 2, 4]);
        assert_eq!(line.take(10, []), [3]);
    }

    #[test]
    fn one_that_came_later_never_goes_first() {
        let mut line = Line::new();
        let jobs = [line.batch(1, &[1], true), line.batch(2, &[1], false)];
        let order = line.take(0, jobs);
        assert!(order == [1] || order == [1, 2], "{order:?}");
    }

    #[test]
    fn a_crowd_is_not_kept_waiting() {
        let mut line = Line::new();
        let jobs: Vec<_> = (0..GROUP).map(|_| line.batch(1, &[1], false)).collect();
        let gone = line.held.take(jobs.into_iter(), line.start);
        assert_eq!(gone.len(), GROUP);
        for job in gone {
            assert!(job.answer.send(Outcome::Committed).is_err());
        }
    }
}
