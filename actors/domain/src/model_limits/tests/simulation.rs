//! Fifty workers against a provider of 60 requests and 10,000 tokens a minute that answers 429
//! beyond, for an hour of a simulated clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;

const WORKERS: usize = 50;
const MINUTES: u64 = 60;
const MINUTE: u64 = 60_000;

/// A linear congruential generator: the same numbers in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The provider's way of counting.
#[derive(Debug, Clone, Copy)]
enum Counting {
    /// Everything of the last 60 seconds.
    Log,
    /// A bucket that fills steadily, as `OpenAI` and Anthropic describe theirs.
    Bucket,
}

struct Provider {
    counting: Counting,
    requests: u64,
    tokens: u64,
    log: VecDeque<(u64, u64)>,
    level: (f64, f64, u64),
}

impl Provider {
    fn new(counting: Counting, requests: u64, tokens: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let level = (requests as f64, tokens as f64, 0);
        Self { counting, requests, tokens, log: VecDeque::new(), level }
    }

    fn takes(&mut self, now: u64, tokens: u64) -> bool {
        match self.counting {
            Counting::Log => {
                while self.log.front().is_some_and(|(at, _)| at + MINUTE <= now) {
                    self.log.pop_front();
                }
                let sum: u64 = self.log.iter().map(|(_, tokens)| tokens).sum();
                let fits = (self.log.len() as u64) < self.requests && sum + tokens <= self.tokens;
                if fits {
                    self.log.push_back((now, tokens));
                }
                fits
            }
            Counting::Bucket => {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let (requests, all, need, passed) = (
                    self.requests as f64,
                    self.tokens as f64,
                    tokens as f64,
                    (now - self.level.2) as f64 / 60_000.0,
                );
                self.level.0 = (self.level.0 + requests * passed).min(requests);
                self.level.1 = (self.level.1 + all * passed).min(all);
                self.level.2 = now;
                let fits = self.level.0 >= 1.0 && self.level.1 >= need;
                if fits {
                    self.level.0 -= 1.0;
                    self.level.1 -= need;
                }
                fits
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A call reaches the provider: its index.
    Arrives(usize),
    /// Its answer is back.
    Ends(usize),
    /// Somebody looks for room.
    Look,
}

struct Outcome {
    calls: u64,
    refused: u64,
    /// The share of each limit that was used, in percent.
    used: (u64, u64),
}

/// Runs the simulation: every call has `input` + `output` tokens, by chance within half of them.
fn simulate(counting: Counting, (input, output): (u64, u64), seed: u64) -> Outcome {
    let limits =
        ModelLimits { requests_per_minute: Some(60), tokens_per_minute: Some(10_000), ..NONE };
    let (mut meter, mut provider) = (Meter::new(limits), Provider::new(counting, 60, 10_000));
    let mut chance = Chance(seed);
    let mut events = BinaryHeap::from([Reverse((0, Happens::Look))]);
    let mut calls: Vec<(Call, (u64, u64), bool)> = Vec::new();
    let (mut free, mut refused, mut tokens) = (WORKERS, 0, 0);
    let end = MINUTES * MINUTE;
    let mut pending_look = false;
    while let Some(Reverse((now, event))) = events.pop() {
        if now >= end {
            break;
        }
        match event {
            Happens::Arrives(index) => {
                let (_, (input, output), taken) = &mut calls[index];
                *taken = provider.takes(now, *input + *output);
                let latency = if *taken { 500 + chance.below(4_000) } else { 20 };
                events.push(Reverse((now + latency, Happens::Ends(index))));
            }
            Happens::Ends(index) => {
                let (call, (input, output), taken) = calls[index].clone();
                let settled = if taken {
                    tokens += input + output;
                    CallEnd::Used { input, output }
                } else {
                    refused += 1;
                    super::refused(Some(1_000))
                };
                meter.settle(call, settled, at(now));
                free += 1;
            }
            Happens::Look => pending_look = false,
        }
        while free > 0 {
            let spread = |chance: &mut Chance, middle: u64| middle / 2 + chance.below(middle + 1);
            let sizes = (spread(&mut chance, input), spread(&mut chance, output));
            // The estimate of the prompt is a third too low.
            let demand = meter.demand(sizes.0 * 2 / 3, Some(1_000));
            match meter.begin_with(TASK, demand, at(now)) {
                Ok(call) => {
                    free -= 1;
                    calls.push((call, sizes, false));
                    let travel = 1 + chance.below(300);
                    events.push(Reverse((now + travel, Happens::Arrives(calls.len() - 1))));
                }
                Err(NoRoom { until }) => {
                    if let (Some(until), false) = (until, pending_look) {
                        events.push(Reverse((until.0, Happens::Look)));
                        pending_look = true;
                    }
                    break;
                }
            }
        }
    }
    let calls = calls.len() as u64;
    let used = ((calls - refused) * 100 / (60 * MINUTES), tokens * 100 / (10_000 * MINUTES));
    Outcome { calls, refused, used }
}

#[test]
fn fifty_workers_use_the_limit_and_are_refused_less_than_one_call_in_a_hundred() {
    for counting in [Counting::Log, Counting::Bucket] {
        for seed in 1..=5 {
            // Small calls meet the limit of requests, large ones that of tokens.
            for (size, requests) in [((60, 40), true), ((100, 150), false)] {
                let Outcome { calls, refused, used } = simulate(counting, size, seed);
                let share = if requests { used.0 } else { used.1 };
                let seen =
                    format!("{counting:?} {size:?} {seed}: {refused} of {calls}, {used:?} %");
                assert!(refused * 100 <= calls, "{seen}");
                assert!(share >= 95, "{seen}");
            }
        }
    }
}
