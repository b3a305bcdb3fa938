//! The backups that a pruning keeps.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The numbers of backups to keep. A backup that one of them keeps stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// The newest backups.
    pub last: usize,
    /// Days with a backup, of each of which the newest backup stays.
    pub daily: usize,
    /// Weeks with a backup, from Monday on.
    pub weekly: usize,
    /// Months with a backup.
    pub monthly: usize,
}

impl Keep {
    /// The newest `last` backups.
    #[must_use]
    pub const fn last(last: usize) -> Self {
        Self { last, daily: 0, weekly: 0, monthly: 0 }
    }

    /// The ids that stay, of backups in the order of their times. Days, weeks and months are those of UTC. A backup
    /// whose id is no time stays under the last three.
    #[must_use]
    pub fn kept(self, ids: &[&str]) -> BTreeSet<String> {
        let mut kept: BTreeSet<_> = ids.iter().rev().take(self.last).map(|&id| id.into()).collect();
        let rules: [(usize, Span); 3] = [
            (self.daily, |at| (at.year(), at.month(), at.day())),
            (self.weekly, |at| {
                let week = at.date().iso_week_date();
                (week.year(), week.week(), 0)
            }),
            (self.monthly, |at| (at.year(), at.month(), 0)),
        ];
        for (count, span) in rules.into_iter().filter(|(count, _)| *count > 0) {
            let mut spans = BTreeSet::new();
            for &id in ids.iter().rev() {
                let Some(at) = time(id) else {
                    kept.insert(id.into());
                    continue;
                };
                if spans.len() < count && spans.insert(span(&at)) {
                    kept.insert(id.into());
                }
            }
        }
        kept
    }
}

/// The day, week or month of a time.
type Span = fn(&jiff::Zoned) -> (i16, i8, i8);

fn time(id: &str) -> Option<jiff::Zoned> {
    Some(id.parse::<Timestamp>().ok()?.to_zoned(TimeZone::UTC))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backup every six hours from 1 January to 30 June 2026.
    fn half_a_year() -> Vec<String> {
        let mut at: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let mut ids = Vec::new();
        while at < "2026-07-01T00:00:00Z".parse().expect("a time") {
            ids.push(at.strftime("%Y%m%dT%H%M%S%.3fZ").to_string());
            at += jiff::SignedDuration::from_hours(6);
        }
        ids
    }

    fn kept(keep: Keep, ids: &[String]) -> Vec<String> {
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        keep.kept(&ids).into_iter().map(|id| id[..11].to_owned()).collect()
    }

    #[test]
    fn each_rule_keeps_the_newest_backup_of_its_spans() {
        let ids = half_a_year();
        let of = |keep| kept(keep, &ids);
        assert_eq!(of(Keep::last(2)), ["20260630T12", "20260630T18"]);
        let days = of(Keep { daily: 3, ..Keep::default() });
        assert_eq!(days, ["20260628T18", "20260629T18", "20260630T18"]);
        // 30 June 2026 is a Tuesday.
        let weeks = of(Keep { weekly: 3, ..Keep::default() });
        assert_eq!(weeks, ["20260621T18", "20260628T18", "20260630T18"]);
        let months = of(Keep { monthly: 3, ..Keep::default() });
        assert_eq!(months, ["20260430T18", "20260531T18", "20260630T18"]);
        assert_eq!(of(Keep { last: 1, daily: 3, weekly: 3, monthly: 3 }).len(), 6);
        assert_eq!(of(Keep { monthly: 100, ..Keep::default() }).len(), 6, "as many as there are");
    }

    #[test]
    fn days_without_a_backup_use_nothing_up() {
        let ids: Vec<_> = ["20260101T000000.000Z", "20260301T000000.000Z", "20260302T000000.000Z"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(kept(Keep { daily: 3, ..Keep::default() }, &ids).len(), 3);
    }

    #[test]
    fn a_backup_whose_name_is_no_time_stays() {
        assert_eq!(Keep { daily: 1, ..Keep::default() }.kept(&["name", "other"]).len(), 2);
        assert_eq!(Keep::last(1).kept(&["name", "other"]).len(), 1, "the newest by name");
    }
}
