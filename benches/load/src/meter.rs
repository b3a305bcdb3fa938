//! A closed loop: each client asks again as soon as its answer has come.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::error::{Error, broken};

/// The time that clients run before an answer counts, unless the measurement is shorter.
const WARM_UP: Duration = Duration::from_secs(1);
/// The time after which a request counts as unanswered.
const PATIENCE: Duration = Duration::from_mins(1);

/// A client that repeats its request.
pub(super) trait Client: Send + 'static {
    /// Asks once, and returns when the answer has come.
    fn once(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The figures of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Summary {
    /// The answers a second.
    pub(super) rate: f64,
    /// The median latency in milliseconds.
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Summary {
    /// The summary of latencies in microseconds, which took `span` together.
    pub(super) fn new(latency: &Histogram<u64>, span: Duration) -> Self {
        let at = |quantile| millis(Duration::from_micros(latency.value_at_quantile(quantile)));
        Self {
            rate: count(latency.len()) / span.as_secs_f64(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
        }
    }

    /// The median of several measurements, taken for each figure by itself.
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            rate: of(|s| s.rate),
            p50: of(|s| s.p50),
            p90: of(|s| s.p90),
            p99: of(|s| s.p99),
            p999: of(|s| s.p999),
        }
    }
}

/// Runs all clients for `span`, after a warm-up, and measures the answers that came within it, but
/// at least one of each client: then the measurement takes as long as that answer.
///
/// # Errors
/// The error of the first client that fails.
pub(super) async fn closed_loop<C: Client>(
    clients: Vec<C>,
    span: Duration,
) -> Result<Summary, Error> {
    let begin = Instant::now() + span.min(WARM_UP);
    let end = begin + span;
    let mut runs = tokio::task::JoinSet::new();
    for mut client in clients {
        runs.spawn(async move {
            let mut latency = histogram();
            let (mut asked, mut last) = (Instant::now(), end);
            while asked < end || latency.is_empty() {
                client.once().await?;
                let answered = Instant::now();
                if answered >= begin && (answered < end || latency.is_empty()) {
                    latency.saturating_record(micros(answered - asked));
                    last = last.max(answered);
                }
                asked = answered;
            }
            Ok::<_, Error>((latency, last))
        });
    }
    let (mut latency, mut last) = (histogram(), end);
    let all = async {
        while let Some(run) = runs.join_next().await {
            let (of_client, until) = run.map_err(Error::of("a client broke"))??;
            latency += of_client;
            last = last.max(until);
        }
        Ok::<_, Error>(())
    };
    let in_time = tokio::time::timeout(end - Instant::now() + PATIENCE, all).await;
    in_time.map_err(|_| broken("an answer took longer than a minute"))??;
    Ok(Summary::new(&latency, last - begin))
}

/// The middle of some figures; of an even number, the lower one.
pub(super) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// A duration in milliseconds.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A histogram of microseconds up to a minute, to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "no run answers 2^52 requests")]
pub(super) fn count(answers: u64) -> f64 {
    answers as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow(u64);

    impl Client for Slow {
        async fn once(&mut self) -> Result<(), Error> {
            tokio::time::sleep(Duration::from_millis(self.0)).await;
            if self.0 == 0 { Err(broken("it broke")) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn latency_and_rate_are_those_of_the_clients() {
        let span = Duration::from_millis(400);
        let summary = closed_loop(vec![Slow(20), Slow(20)], span).await.unwrap();
        assert!(summary.p50 >= 20.0 && summary.p50 <= summary.p999, "{summary:?}");
        assert!(summary.rate > 10.0 && summary.rate <= 100.0, "{summary:?}");
    }

    #[tokio::test]
    async fn an_answer_that_takes_longer_than_the_measurement_counts_with_its_time() {
        let summary = closed_loop(vec![Slow(200)], Duration::from_millis(20)).await.unwrap();
        assert!(summary.p50 >= 200.0 && summary.rate <= 10.0, "{summary:?}");
    }

    #[tokio::test]
    async fn a_client_that_fails_ends_the_measurement() {
        let outcome = closed_loop(vec![Slow(1), Slow(0)], Duration::from_millis(50)).await;
        assert_eq!(outcome.unwrap_err().to_string(), "it broke");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_one() {
        assert!((median([4.0, 1.0, 3.0, 2.0].into_iter()) - 2.0).abs() < f64::EPSILON);
        assert!(median(std::iter::empty()).is_nan());
    }
}
