//! The backtest of a threshold: reviews saved, rejections missed, and the uncertainty of both.
//!
//! Deliberately absent: a best threshold. The reader decides the worth of a review in rejections.

use super::{BINS, DECILE, Outcomes};

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

/// A confidence of 0 to 1 in whole hundredths; outputs below it are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(u8);

impl Threshold {
    /// The threshold of this many hundredths; `None` above 100.
    #[must_use]
    pub const fn hundredths(hundredths: u8) -> Option<Self> {
        if hundredths <= 100 { Some(Self(hundredths)) } else { None }
    }

    /// The threshold of this value; `None` unless it is a multiple of 0.01 from 0 to 1.
    #[must_use]
    pub fn of(value: f64) -> Option<Self> {
        (0..=100).map(Self).find(|threshold| threshold.value().total_cmp(&value).is_eq())
    }

    /// The number that the threshold's decimal text is parsed as.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// 0.05, 0.10 and so on up to 1: the thresholds of a query without any.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        (5..=100).step_by(5).map(Self).collect()
    }
}

/// The effect that a threshold would have had on the outputs with a confidence, each of which counts
/// in exactly one of `reviews`, `reviews_saved` and `unreviewed`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backtest {
    /// The threshold.
    pub threshold: Threshold,
    /// Outputs below the threshold, which it would have held.
    pub reviews: u32,
    /// Reviewed outputs at or above the threshold, which it would have passed.
    pub reviews_saved: u32,
    /// All known rejections.
    pub rejections: u32,
    /// Known rejections at or above the threshold.
    pub rejections_missed: u32,
    /// The share of all rejections, known or hidden, at or above the threshold.
    pub missed_share: MissRate,
    /// Unreviewed outputs at or above the threshold.
    pub unreviewed: u32,
    /// The part of `unreviewed` in deciles without a single review, of which nothing is known.
    pub unknown_unreviewed: u32,
}

/// The share of all rejections that a threshold would have missed, 0 to 1.
///
/// A reviewer would have rejected some of the unreviewed outputs. The *rejection rate* of a decile,
/// rejected ÷ reviewed, estimates their number. With m known rejections at or above the threshold, k
/// known below it, and u and v hidden rejections at or above and below it, the share is
/// (m + u) ÷ (m + u + k + v).
///
/// # The reviews that the rate is taken from
///
/// Outputs are not held at random. A gate holds those below its threshold, so the held outputs of a
/// decile are the less confident ones, or come from other steps than those that passed. Sampled
/// outputs differ: they are drawn at random from those that would have passed the same gate, so they
/// represent the unreviewed ones. Where a decile has sampled reviews, its rate is therefore taken
/// from these alone, even if they are few: the other reviews answer another question, and a few
/// samples rightly make the interval wide. A decile without sampled reviews takes all its reviews,
/// which mostly overestimates the rate; that is an assumption and not a measurement.
///
/// # Known biases
///
/// Gates with different sampling rates are pooled, so a gate that samples more weighs more. Undecided
/// outputs are treated like those that passed. A decile counts as one, though its upper end may be
/// better than its lower end. Reviewers are assumed to be right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MissRate {
    /// The lower bound: no rejection is hidden at or above the threshold, and as many below it as the
    /// upper bounds of the rates allow.
    pub low: f64,
    /// The estimate by the rates. `None` if there is no estimate: an unreviewed output is in a decile
    /// without reviews, or no rejection is expected anywhere.
    pub expected: Option<f64>,
    /// The upper bound: as many hidden rejections at or above the threshold as the upper bounds of
    /// the rates allow (Wilson, 95 % each; all, in a decile without reviews), and none below it.
    pub high: f64,
}

/// The rejections hidden among unreviewed outputs.
#[derive(Debug, Clone, Copy)]
struct Hidden {
    expected: Option<f64>,
    most: f64,
}

impl Backtest {
    pub(super) fn of(
        threshold: Threshold,
        bins: &[Outcomes; BINS],
        deciles: &[Outcomes; 10],
    ) -> Self {
        let at = usize::from(threshold.0);
        let sum =
            |outcomes: &Outcomes, more: &Outcomes| outcomes.combine(more, u32::saturating_add);
        let [below, above] = [&bins[..at], &bins[at..]].map(|bins| {
            bins.iter().fold(Outcomes::default(), |outcomes, more| sum(&outcomes, more))
        });
        let unknown = bins.iter().enumerate().skip(at);
        let unknown = unknown.filter(|(bin, _)| deciles[decile_of(*bin)].reviewed() == 0);
        let outputs = |outcomes: &Outcomes| outcomes.reviewed() + outcomes.unreviewed();
        let missed_share = if outputs(&below) + outputs(&above) == 0 {
            MissRate::UNKNOWN
        } else {
            MissRate::of(
                (f64::from(below.rejected), hidden(bins, 0..at, deciles)),
                (f64::from(above.rejected), hidden(bins, at..BINS, deciles)),
            )
        };
        Self {
            threshold,
            reviews: below.reviewed() + below.unreviewed(),
            reviews_saved: above.reviewed(),
            rejections: below.rejected + above.rejected,
            rejections_missed: above.rejected,
            missed_share,
            unreviewed: above.unreviewed(),
            unknown_unreviewed: unknown.map(|(_, outcomes)| outcomes.unreviewed()).sum(),
        }
    }
}

impl MissRate {
    /// The share where there are no outputs at all.
    const UNKNOWN: Self = Self { low: 0.0, expected: None, high: 1.0 };

    /// The share that follows from the known and the hidden rejections, below the threshold and from it on.
    fn of(below: (f64, Hidden), above: (f64, Hidden)) -> Self {
        let share = |missed: f64, caught: f64| {
            let all = missed + caught;
            if all == 0.0 { 0.0 } else { missed / all }
        };
        let (caught, hidden_below) = below;
        let (missed, hidden_above) = above;
        let most = missed + hidden_above.most;
        let expected = if most == 0.0 {
            // No rejection can be missed, however many are hidden below the threshold.
            Some(0.0)
        } else {
            let both = hidden_above.expected.zip(hidden_below.expected);
            let both = both.map(|(above, below)| (missed + above, caught + below));
            both.filter(|(missed, caught)| missed + caught > 0.0)
                .map(|(missed, caught)| share(missed, caught))
        };
        Self { low: share(missed, caught + hidden_below.most), expected, high: share(most, caught) }
    }
}

/// The bins summed up to deciles.
pub(super) fn deciles(bins: &[Outcomes; BINS]) -> [Outcomes; 10] {
    let mut deciles = [Outcomes::default(); 10];
    for (bin, outcomes) in bins.iter().enumerate() {
        let decile = &mut deciles[decile_of(bin)];
        *decile = decile.combine(outcomes, u32::saturating_add);
    }
    deciles
}

const fn decile_of(bin: usize) -> usize {
    if bin == BINS - 1 { 9 } else { bin / DECILE }
}

fn hidden(
    bins: &[Outcomes; BINS],
    range: std::ops::Range<usize>,
    deciles: &[Outcomes; 10],
) -> Hidden {
    let nothing = Hidden { expected: Some(0.0), most: 0.0 };
    range.fold(nothing, |sum, bin| {
        let unreviewed = bins[bin].unreviewed();
        if unreviewed == 0 {
            return sum;
        }
        let (unreviewed, (rejected, reviewed)) =
            (f64::from(unreviewed), rate(&deciles[decile_of(bin)]));
        let expected = (reviewed > 0).then(|| f64::from(rejected) / f64::from(reviewed));
        Hidden {
            expected: sum.expected.zip(expected).map(|(sum, rate)| sum + unreviewed * rate),
            most: sum.most + unreviewed * upper_bound(rejected, reviewed),
        }
    })
}

/// The reviews that represent a decile's unreviewed outputs: (rejected, reviewed).
const fn rate(decile: &Outcomes) -> (u32, u32) {
    if decile.sampled > 0 {
        (decile.sampled_rejected, decile.sampled)
    } else {
        (decile.rejected, decile.reviewed())
    }
}

/// The upper end of Wilson's score interval; 1 without reviews.
fn upper_bound(rejected: u32, reviewed: u32) -> f64 {
    if reviewed == 0 {
        return 1.0;
    }
    let n = f64::from(reviewed);
    let p = f64::from(rejected) / n;
    let z2 = Z * Z;
    let spread = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    ((p + z2 / (2.0 * n) + spread) / (1.0 + z2 / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilsons_bound_is_that_of_the_textbooks() {
        for (rejected, reviewed, expected) in
            [(0, 10, 0.2775), (1, 10, 0.4042), (5, 10, 0.7634), (10, 10, 1.0), (0, 1, 0.7935)]
        {
            let found = upper_bound(rejected, reviewed);
            assert!((found - expected).abs() < 1e-4, "{rejected} of {reviewed}: {found}");
        }
        assert!((upper_bound(0, 0) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_threshold_is_a_multiple_of_a_hundredth() {
        for hundredths in 0..=100 {
            let threshold = Threshold(hundredths);
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            assert_eq!(Threshold::of(text.parse().unwrap()), Some(threshold), "{text}");
        }
        for value in [0.805, -0.01, 1.01, f64::NAN, 0.1 + 0.2] {
            assert_eq!(Threshold::of(value), None, "{value}");
        }
        assert_eq!((Threshold::defaults().len(), Threshold::hundredths(101)), (20, None));
    }
}
