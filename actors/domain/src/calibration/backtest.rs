//! What a threshold would have done: reviews saved, rejections missed, and how sure that is.
//!
//! Deliberately absent: a best threshold. How many rejections a review is worth is the reader's to
//! say.

use super::{BINS, DECILE, Tally};

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

/// A confidence of 0 to 1 in whole hundredths; outputs below it are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(u8);

impl Threshold {
    /// Of so many hundredths; `None` above 100.
    #[must_use]
    pub const fn hundredths(hundredths: u8) -> Option<Self> {
        if hundredths <= 100 { Some(Self(hundredths)) } else { None }
    }

    /// Of this value; `None` unless it is a multiple of 0.01 from 0 to 1.
    #[must_use]
    pub fn of(value: f64) -> Option<Self> {
        (0..=100).map(Self).find(|threshold| threshold.value().total_cmp(&value).is_eq())
    }

    /// Its value: the number that its decimal text is read as.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// 0.05, 0.10 and so on up to 1.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        (5..=100).step_by(5).map(Self).collect()
    }
}

/// What a threshold would have done to the outputs with a confidence: all of them are in exactly one
/// of `reviews`, `reviews_saved` and `unreviewed`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backtest {
    /// Which.
    pub threshold: Threshold,
    /// How many outputs it would have held: those below it.
    pub reviews: u32,
    /// How many were reviewed that it would not have held.
    pub reviews_saved: u32,
    /// How many rejections are known in all.
    pub rejections: u32,
    /// How many of them it would not have held.
    pub rejections_missed: u32,
    /// The share of all rejections, known or not, that it would not have held.
    pub missed_share: Share,
    /// How many outputs it would not have held that nobody decided on.
    pub unreviewed: u32,
    /// How many of these are in deciles in which nothing was ever reviewed: of them nothing is known.
    pub unknown_unreviewed: u32,
}

/// The share of all rejections that a threshold would have missed, 0 to 1.
///
/// Each unreviewed output may be one that a reviewer would have rejected. How many of them are is told
/// by the *rate* of its decile: rejected ÷ reviewed. With m rejections known at or above the
/// threshold, k known below it, and u and v rejections among the unreviewed outputs at or above and
/// below it, the share is (m + u) ÷ (m + u + k + v).
///
/// # Which reviews the rate is of
///
/// Outputs are not held at random. A gate holds those below its threshold, so within a decile those
/// that it held are the less confident ones, or come from other steps than those that passed. Sampled
/// ones differ: they are drawn at random from what would have passed the same gate, so they stand for
/// the outputs that nobody saw. Where a decile has sampled reviews, its rate is therefore of these
/// alone, even if they are few: the others, however many, answer another question, and few make the
/// interval wide, as it should be. A decile without sampled reviews takes all its reviews: most often
/// too high a rate, for they were the less confident; it is an assumption and no measurement.
///
/// # What is not corrected
///
/// Gates with different sampling rates are pooled, so that one which samples more weighs more.
/// Undecided outputs are taken to be as those that passed. A decile counts as one, though its upper
/// end may be better than its lower one. Reviewers are taken to be right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The least: no rejection is hidden at or above the threshold, and below it as many as the upper
    /// bounds of the rates allow.
    pub low: f64,
    /// With the rates as they are. `None` if there is no telling: unreviewed outputs are in a decile
    /// in which nothing was reviewed, or no rejection is expected anywhere.
    pub expected: Option<f64>,
    /// The most: at or above the threshold as many as the upper bounds allow (Wilson, 95 % each,
    /// taken at once; all, where nothing was reviewed), and none hidden below it.
    pub high: f64,
}

/// How many rejections may be hidden among unreviewed outputs.
#[derive(Debug, Clone, Copy)]
struct Hidden {
    expected: Option<f64>,
    most: f64,
}

impl Backtest {
    pub(super) fn of(threshold: Threshold, bins: &[Tally; BINS], deciles: &[Tally; 10]) -> Self {
        let at = usize::from(threshold.0);
        let sum = |tally: &Tally, more: &Tally| tally.with(more, u32::saturating_add);
        let [below, above] = [&bins[..at], &bins[at..]]
            .map(|bins| bins.iter().fold(Tally::default(), |tally, more| sum(&tally, more)));
        let unknown = bins.iter().enumerate().skip(at);
        let unknown = unknown.filter(|(bin, _)| deciles[decile_of(*bin)].reviewed() == 0);
        Self {
            threshold,
            reviews: below.reviewed() + below.unreviewed(),
            reviews_saved: above.reviewed(),
            rejections: below.rejected + above.rejected,
            rejections_missed: above.rejected,
            missed_share: Share::of(
                (f64::from(below.rejected), hidden(bins, 0..at, deciles)),
                (f64::from(above.rejected), hidden(bins, at..BINS, deciles)),
            ),
            unreviewed: above.unreviewed(),
            unknown_unreviewed: unknown.map(|(_, tally)| tally.unreviewed()).sum(),
        }
    }
}

impl Share {
    /// Each of the known and the hidden, below the threshold and from it on.
    fn of(below: (f64, Hidden), above: (f64, Hidden)) -> Self {
        let share = |missed: f64, caught: f64| {
            let all = missed + caught;
            if all == 0.0 { 0.0 } else { missed / all }
        };
        let (caught, hidden_below) = below;
        let (missed, hidden_above) = above;
        let most = missed + hidden_above.most;
        let expected = if most == 0.0 {
            // Nothing can be missed, however much is hidden elsewhere.
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

/// The deciles that bins belong to.
pub(super) fn deciles(bins: &[Tally; BINS]) -> [Tally; 10] {
    let mut deciles = [Tally::default(); 10];
    for (bin, tally) in bins.iter().enumerate() {
        let decile = &mut deciles[decile_of(bin)];
        *decile = decile.with(tally, u32::saturating_add);
    }
    deciles
}

const fn decile_of(bin: usize) -> usize {
    if bin == BINS - 1 { 9 } else { bin / DECILE }
}

fn hidden(bins: &[Tally; BINS], range: std::ops::Range<usize>, deciles: &[Tally; 10]) -> Hidden {
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

/// The reviews that stand for a decile's unreviewed outputs: how many rejected, out of how many.
const fn rate(decile: &Tally) -> (u32, u32) {
    if decile.sampled > 0 {
        (decile.sampled_rejected, decile.sampled)
    } else {
        (decile.rejected, decile.reviewed())
    }
}

/// The upper end of Wilson's score interval; 1 where nothing was reviewed.
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
        assert_eq!((Threshold::usual().len(), Threshold::hundredths(101)), (20, None));
    }
}
