//! What approvals come to: how many wait, who decides them, how soon (SPEC.md, HITL statistics;
//! PROTOCOL.md 6).
//!
//! A sum over the records as they are now, kept by taking away what a record was and adding what it
//! is. Every part of it is a whole number, so that taking away leaves nothing behind. Time is cut
//! into UTC days; the last 30 days are the current one and the 29 before it, and days long past are
//! forgotten. Outputs that passed a gate count nowhere here.
//!
//! Deliberately absent: how good confidences are, which is [`crate::calibration`]; and what a record
//! was before, which whoever changed it knows.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::approval::{Fate, Record, SYSTEM};

/// How many days the averages, the rate and the reviewers are of; the current one is among them.
pub const WINDOW_DAYS: u64 = 30;

/// How many days with anything in them are kept: more than the window, so that a clock that was once
/// wrong does not push out what is asked for.
const KEPT_DAYS: usize = 40;

/// How many reviewers are told.
const TOP: usize = 10;

const DAY_MS: u64 = 86_400_000;

/// Confidences are summed in millionths.
const MILLION: f64 = 1_000_000.0;

/// The sums of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    pending: i64,
    /// By the number of days since 1970-01-01.
    days: BTreeMap<u64, Day>,
    /// The first day that was not forgotten.
    since: u64,
}

/// What happened on a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Day {
    created: i64,
    /// Of those created on this day.
    escalated: i64,
    approved: i64,
    rejected: i64,
    waited_ms: i64,
    /// Of those decided on this day: how many have a confidence, and their sum in millionths.
    confident: i64,
    confidence: i64,
    /// Approvals and rejections.
    reviewers: BTreeMap<String, (i64, i64)>,
}

/// What is told of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Undecided, and the reviewers' time is not over.
    pub pending: u64,
    /// Approved on the current UTC day, edited or not.
    pub approved_today: u64,
    /// Rejected on the current UTC day, by a reviewer or by a time-out.
    pub rejected_today: u64,
    /// How long those decided within the window waited, on average, in milliseconds; 0 if there are
    /// none.
    pub avg_wait_ms: u64,
    /// The average confidence, 0 to 1, of those decided within the window that have one; 0 if there
    /// are none.
    pub avg_confidence: f64,
    /// Which share of those created within the window was escalated since, 0 to 1; 0 if there are
    /// none.
    pub escalation_rate: f64,
    /// How many were decided within the window.
    pub decided: u64,
    /// How many were created within the window, whatever became of them.
    pub created: u64,
    /// Who decided most within the window: up to ten, ties by their identifiers.
    pub top_reviewers: Vec<Reviewer>,
}

/// What a reviewer decided within the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewer {
    /// Who, as it was recorded.
    pub id: String,
    /// How many it let pass, edited or not.
    pub approvals: u64,
    /// How many it did not.
    pub rejections: u64,
}

impl Statistics {
    /// A record has changed, or is new. `before` is what was counted of it, if anything was.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, -1);
        }
        self.count(after, 1);
        while self.days.len() > KEPT_DAYS {
            let forgotten = self.days.pop_first();
            self.since = forgotten.map_or(self.since, |(day, _)| day + 1);
        }
    }

    /// What is told at this time.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> Summary {
        let today = day_of(now);
        let first = today.saturating_sub(WINDOW_DAYS - 1);
        let mut all = Day::default();
        for day in self.days.range(first..=today).map(|(_, day)| day) {
            all.add(day);
        }
        let (approved_today, rejected_today) =
            self.days.get(&today).map_or((0, 0), |day| (day.approved, day.rejected));
        let decided = all.approved + all.rejected;
        Summary {
            pending: whole(self.pending),
            approved_today: whole(approved_today),
            rejected_today: whole(rejected_today),
            avg_wait_ms: whole((all.waited_ms + decided / 2).checked_div(decided).unwrap_or(0)),
            avg_confidence: share(all.confidence, all.confident) / MILLION,
            escalation_rate: share(all.escalated, all.created),
            decided: whole(decided),
            created: whole(all.created),
            top_reviewers: all.top_reviewers(),
        }
    }

    fn count(&mut self, record: &Record, sign: i64) {
        let decision = match &record.fate {
            Fate::Passed => return,
            Fate::Open { expired } => {
                self.pending += sign * i64::from(!expired);
                None
            }
            Fate::Approved { by, at, .. } => Some((by, *at, true)),
            Fate::Rejected { by, at } => Some((by, *at, false)),
            Fate::Cancelled => None,
        };
        self.change(record.since, |day| {
            day.created += sign;
            day.escalated += sign * i64::from(record.escalated);
        });
        if let Some((by, at, approved)) = decision {
            let waited = i64::try_from(at.since(record.since).as_millis()).unwrap_or(i64::MAX);
            self.change(at, |day| {
                day.waited_ms += sign * waited;
                if let Some(confidence) = record.confidence {
                    day.confident += sign;
                    day.confidence += sign * millionths(confidence);
                }
                day.decided(by, approved, sign);
            });
        }
    }

    fn change(&mut self, at: Timestamp, change: impl FnOnce(&mut Day)) {
        let number = day_of(at);
        if number < self.since {
            return;
        }
        let day = self.days.entry(number).or_default();
        change(day);
        if *day == Day::default() {
            self.days.remove(&number);
        }
    }
}

impl Day {
    fn decided(&mut self, by: &str, approved: bool, sign: i64) {
        let (approval, rejection) = if approved { (sign, 0) } else { (0, sign) };
        self.approved += approval;
        self.rejected += rejection;
        if by == SYSTEM {
            return;
        }
        let reviewer = self.reviewers.entry(by.to_owned()).or_default();
        reviewer.0 += approval;
        reviewer.1 += rejection;
        if *reviewer == (0, 0) {
            self.reviewers.remove(by);
        }
    }

    fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.escalated += other.escalated;
        self.approved += other.approved;
        self.rejected += other.rejected;
        self.waited_ms += other.waited_ms;
        self.confident += other.confident;
        self.confidence += other.confidence;
        for (id, (approvals, rejections)) in &other.reviewers {
            let reviewer = self.reviewers.entry(id.clone()).or_default();
            reviewer.0 += approvals;
            reviewer.1 += rejections;
        }
    }

    fn top_reviewers(self) -> Vec<Reviewer> {
        let reviewer = |(id, (approvals, rejections))| Reviewer {
            id,
            approvals: whole(approvals),
            rejections: whole(rejections),
        };
        let mut all: Vec<_> = self.reviewers.into_iter().map(reviewer).collect();
        // They come in the order of their identifiers, and the sort keeps it among equals.
        all.sort_by_key(|reviewer| std::cmp::Reverse(reviewer.approvals + reviewer.rejections));
        all.truncate(TOP);
        all
    }
}

const fn day_of(at: Timestamp) -> u64 {
    at.as_millis() / DAY_MS
}

#[expect(clippy::cast_possible_truncation, reason = "a confidence is 0 to 1")]
fn millionths(confidence: f64) -> i64 {
    (confidence.clamp(0.0, 1.0) * MILLION).round() as i64
}

/// Below zero only if a record was taken away that was never counted.
fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^53")]
fn share(part: i64, of: i64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
