//! Review statistics: the number of waiting approvals, their deciders, and the time to a decision
//! (docs/reference/approvals.md).
//!
//! The totals cover the records as they are now: a changed record is subtracted as it was and added
//! as it is. All totals are integers, so a subtraction leaves no rounding error. Time is divided into
//! UTC days; the window is the current day and the 29 before it, and old days are dropped. Outputs
//! that passed a gate count nowhere here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::approval::{GateOutcome, Record, SYSTEM};

/// The days that the averages, the rate and the reviewers cover, the current day included.
pub const WINDOW_DAYS: u64 = 30;

/// The most days with records that are kept: more than the window, so that days written by a wrong
/// clock do not evict days within the window.
const KEPT_DAYS: usize = 40;

/// The most reviewers in a summary.
const TOP: usize = 10;

const DAY_MS: u64 = 86_400_000;

/// Confidences are summed in millionths, as integers.
const MILLION: f64 = 1_000_000.0;

/// The totals of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pending: i64,
    /// The totals of each day, by the number of days since 1970-01-01.
    days: BTreeMap<u64, Day>,
    /// The first day that was not dropped.
    since: u64,
}

/// The totals of one UTC day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Day {
    created: i64,
    /// Approvals created on this day that were escalated on any day.
    escalated: i64,
    approved: i64,
    rejected: i64,
    waited_ms: i64,
    /// Approvals decided on this day that have a confidence, and its sum in millionths.
    confident: i64,
    confidence: i64,
    /// (approvals, rejections) by reviewer.
    reviewers: BTreeMap<String, (i64, i64)>,
}

/// The statistics at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Undecided approvals whose review time is not over.
    pub pending: u64,
    /// Approved on the current UTC day, edited or not.
    pub approved_today: u64,
    /// Rejected on the current UTC day, by a reviewer or by a time-out.
    pub rejected_today: u64,
    /// The average wait of the approvals decided within the window, in milliseconds; 0 without any.
    pub avg_wait_ms: u64,
    /// The average confidence, 0 to 1, of the approvals decided within the window; 0 without any that
    /// has a confidence.
    pub avg_confidence: f64,
    /// The share of the approvals created within the window that was escalated since, 0 to 1; 0
    /// without any.
    pub escalation_rate: f64,
    /// Approvals decided within the window.
    pub decided: u64,
    /// Approvals created within the window, decided or not.
    pub created: u64,
    /// The reviewers with the most decisions within the window: up to ten, ties by identifier.
    pub top_reviewers: Vec<Reviewer>,
}

/// A reviewer's decisions within the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewer {
    /// The reviewer, as recorded with the decision.
    pub id: String,
    /// Approvals, edited or not.
    pub approvals: u64,
    /// Rejections.
    pub rejections: u64,
}

impl Totals {
    /// Counts a new or changed record; `before` is the record as it was counted before.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, -1);
        }
        self.count(after, 1);
        while self.days.len() > KEPT_DAYS {
            let dropped = self.days.pop_first();
            self.since = dropped.map_or(self.since, |(day, _)| day + 1);
        }
    }

    /// The statistics at `now`.
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
            GateOutcome::Passed => return,
            GateOutcome::Open { expired } => {
                self.pending += sign * i64::from(!expired);
                None
            }
            GateOutcome::Approved { by, at, .. } => Some((by, *at, true)),
            GateOutcome::Rejected { by, at } => Some((by, *at, false)),
            GateOutcome::Cancelled => None,
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
        // Sorted by identifier so far, and the sort is stable.
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

/// Negative only if a record was subtracted that was never added.
fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^53")]
fn share(part: i64, of: i64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
