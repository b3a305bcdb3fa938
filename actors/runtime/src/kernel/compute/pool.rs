//! The turns of long computations: which account's is next, and how much may wait.
//!
//! An account's use is the time that its computations took, halved every ten seconds. The next turn is
//! the oldest of the account whose use will be the least after it: what it is expected to take is added, else what
//! the account's computations take on average, and for an account without one what those of all take. So an account
//! with brief ones does not wait for many that begin with long ones. The key of a share is one text, so that shares of
//! something else than accounts need no other code here. Deliberately absent: threads, which run what
//! has its turn.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use callboard_domain::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The most requests of one account that wait or are computed.
const MAX_ASKED: usize = 64;

/// The most bytes that requests of one account hold while they wait or are computed; one request fits
/// whatever its size.
const MAX_BYTES_OF_ONE: usize = 16 << 20;

/// The most bytes that all requests hold while they wait or are computed.
const MAX_BYTES: usize = 64 << 20;

/// The time in which the use of an account counts half.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// The use below which an account without a computation is forgotten.
const FORGOTTEN: Duration = Duration::from_millis(1);

/// The threads, and those who wait for one.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The bytes of all requests.
    bytes: usize,
    lines: HashMap<Arc<str>, Line>,
    /// The time that a computation takes, on average.
    usual: Average,
    /// The number of the next turn.
    next: u64,
}

/// The turns of one account.
#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiting>,
    running: usize,
    /// Requests that wait or are computed, and their bytes.
    asked: usize,
    bytes: usize,
    /// The use at `used_at`.
    used: Duration,
    used_at: Instant,
    usual: Average,
}

/// The average of some times; each new one counts half.
#[derive(Debug, Clone, Copy, Default)]
struct Average(Option<Duration>);

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// The time that it is expected to take, if that is known.
    takes: Option<Duration>,
    go: oneshot::Sender<()>,
}

/// The size of a request's computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The bytes that the request holds while it waits.
    pub(crate) bytes: usize,
    /// The time that it is expected to take, if that is known.
    pub(crate) takes: Option<Duration>,
}

/// The most bytes of a request whose time is looked for before its turn.
const LOOKED_AT: usize = 64 << 10;

impl Weight {
    /// A request of so many bytes; a short one `takes` so long.
    pub(crate) fn new(bytes: usize, takes: impl FnOnce() -> Duration) -> Self {
        Self { bytes, takes: (bytes <= LOOKED_AT).then(takes) }
    }
}

impl From<usize> for Weight {
    fn from(bytes: usize) -> Self {
        Self { bytes, takes: None }
    }
}

/// A turn that waits or was reached; dropping it gives up the place, or the thread.
#[derive(Debug)]
pub(super) struct Turn {
    pool: Arc<Pool>,
    account: Arc<str>,
    number: u64,
    /// The bytes of a request; `None` for what was accepted before.
    bytes: Option<usize>,
    began: Option<Instant>,
}

impl Default for Pool {
    /// All processors but one, which is left to requests.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::new((processors - 1).max(1))
    }
}

impl Pool {
    fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::default() }
    }

    /// Waits for a turn to compute for what was accepted before.
    pub(super) fn owed(self: &Arc<Self>, account: &str) -> impl Future<Output = Turn> + Send {
        reached(self.line_up(&mut self.state(), account, (None, None)))
    }

    /// Takes a place in the line for a request, and waits for its turn.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`] if the account has too much in the line, [`Error::Unavailable`] if all
    /// accounts together have.
    pub(super) fn asked<T: Into<Weight>>(
        self: &Arc<Self>,
        account: &str,
        weight: T,
    ) -> Result<impl Future<Output = Turn> + Send + use<T>, Error> {
        let Weight { bytes, takes } = weight.into();
        let mut state = self.state();
        if let Some(line) = state.lines.get(account).filter(|line| line.asked > 0) {
            if line.asked >= MAX_ASKED {
                return Err(Error::TooMuchWaits { what: "requests", limit: MAX_ASKED });
            }
            if line.bytes + bytes > MAX_BYTES_OF_ONE {
                return Err(Error::TooMuchWaits { what: "bytes", limit: MAX_BYTES_OF_ONE });
            }
        }
        if state.bytes > 0 && state.bytes + bytes > MAX_BYTES {
            return Err(Error::Unavailable(
                "too many requests wait for a processor: send this again in a few seconds",
            ));
        }
        let waiting = self.line_up(&mut state, account, (Some(bytes), takes));
        drop(state);
        Ok(reached(waiting))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line_up(
        self: &Arc<Self>,
        state: &mut State,
        account: &str,
        (bytes, takes): (Option<usize>, Option<Duration>),
    ) -> (Turn, oneshot::Receiver<()>) {
        let (go, gone) = oneshot::channel();
        let (number, now) = (state.next, Instant::now());
        state.next += 1;
        state.bytes += bytes.unwrap_or(0);
        let account = match state.lines.get_key_value(account) {
            Some((account, _)) => Arc::clone(account),
            None => Arc::from(account),
        };
        let line = state.lines.entry(Arc::clone(&account)).or_insert_with(|| Line::new(now));
        line.asked += usize::from(bytes.is_some());
        line.bytes += bytes.unwrap_or(0);
        line.waiting.push_back(Waiting { number, takes, go });
        state.go_on(self.threads, now);
        (Turn { pool: Arc::clone(self), account, number, bytes, began: None }, gone)
    }
}

/// Waits until a turn is reached.
async fn reached((mut turn, gone): (Turn, oneshot::Receiver<()>)) -> Turn {
    gone.await.expect("a turn that waits is in its line");
    turn.began = Some(Instant::now());
    turn
}

impl State {
    /// Gives free threads to those who wait.
    fn go_on(&mut self, threads: usize, now: Instant) {
        while self.running < threads {
            let waiting = self.lines.values_mut().filter(|line| !line.waiting.is_empty());
            let others = self.usual;
            let next = |line: &mut Line| {
                let first = line.waiting.front()?;
                let takes = first.takes.or(line.usual.0).or(others.0).unwrap_or_default();
                Some((line.used(now) + takes, first.number))
            };
            let Some((_, line)) =
                waiting.filter_map(|line| Some((next(line)?, line))).min_by_key(|(next, _)| *next)
            else {
                return;
            };
            let Some(next) = line.waiting.pop_front() else { return };
            line.running += 1;
            self.running += 1;
            // If its caller has left, the turn is dropped and goes to the next.
            let _ = next.go.send(());
        }
    }
}

impl Line {
    fn new(now: Instant) -> Self {
        let (used, used_at) = (Duration::ZERO, now);
        let usual = Average::default();
        Self { waiting: VecDeque::new(), running: 0, asked: 0, bytes: 0, used, used_at, usual }
    }

    /// The use as it counts now.
    fn used(&self, now: Instant) -> Duration {
        let halvings = now.saturating_duration_since(self.used_at).div_duration_f64(HALF_LIFE);
        self.used.mul_f64(0.5_f64.powf(halvings))
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

impl Average {
    fn add(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |before| (before + time) / 2));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.pool.state();
        let state = &mut *state;
        state.bytes -= self.bytes.unwrap_or(0);
        let Some(line) = state.lines.get_mut(&self.account) else { return };
        line.asked -= usize::from(self.bytes.is_some());
        line.bytes -= self.bytes.unwrap_or(0);
        if let Ok(place) = line.waiting.binary_search_by_key(&self.number, |one| one.number) {
            line.waiting.remove(place);
        } else {
            if let Some(took) = self.began.map(|began| now - began) {
                (line.used, line.used_at) = (line.used(now) + took, now);
                line.usual.add(took);
                state.usual.add(took);
            }
            line.running -= 1;
            state.running -= 1;
        }
        state.go_on(self.pool.threads, now);
        state.lines.retain(|_, line| !line.is_idle() || line.used(now) > FORGOTTEN);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    async fn take(turn: Turn, time: Duration) {
        tokio::time::advance(time).await;
        drop(turn);
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_account_waits_for_what_runs_and_for_nothing_that_waits_of_others() {
        let pool = Arc::new(Pool::new(1));
        let mut flood: Vec<_> =
            (0..40).map(|_| Box::pin(pool.asked("flood", 1).expect("room"))).collect();
        let running = flood.remove(0).now_or_never().expect("a thread is free");
        let mut twenty: Vec<_> = (0..20)
            .map(|n| Box::pin(pool.asked(&format!("one of many {n}"), 1).expect("room")))
            .collect();
        take(running, SECOND).await;
        for turn in twenty.drain(..) {
            take(turn.now_or_never().expect("each used nothing"), SECOND / 10).await;
        }
        let second = flood.remove(0).now_or_never().expect("nobody else waits");
        let other = Box::pin(pool.asked("other", 1).expect("room"));
        let mut again = Box::pin(pool.asked("one of many 3", 1).expect("room"));
        take(second, SECOND).await;
        let again = again.as_mut().now_or_never().expect("its computations are brief");
        take(again, SECOND / 10).await;
        let other = other.now_or_never().expect("it used nothing");
        take(other, SECOND / 5).await;
        assert!(flood.remove(0).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn brief_ones_do_not_wait_for_many_accounts_that_begin_with_long_ones() {
        let pool = Arc::new(Pool::new(1));
        take(pool.owed("long").await, SECOND).await;
        take(pool.owed("brief").await, SECOND / 100).await;
        let running = pool.owed("long").await;
        let ask = |account: String| Box::pin(pool.asked(&account, 1).expect("room"));
        let mut new: Vec<_> = (0..20).map(|n| ask(format!("new {n}"))).collect();
        let brief = ask("brief".into());
        take(running, SECOND).await;
        drop(brief.now_or_never().expect("it is over before any of them"));
        assert!(new.remove(0).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_brief_one_does_not_wait_for_first_long_ones() {
        let pool = Arc::new(Pool::new(1));
        let running = pool.owed("any").await;
        let ask = |account: String, takes| {
            let weight = Weight { bytes: 1, takes: Some(takes) };
            Box::pin(pool.asked(&account, weight).expect("room"))
        };
        let mut long: Vec<_> = (0..20).map(|n| ask(format!("long {n}"), SECOND)).collect();
        let brief = ask("brief".into(), SECOND / 10);
        take(running, SECOND).await;
        drop(brief.now_or_never().expect("it is over before any of them"));
        assert!(long.remove(0).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_use_of_an_account_is_forgotten() {
        let pool = Arc::new(Pool::new(1));
        take(pool.owed("a").await, 10 * SECOND).await;
        assert_eq!(pool.state().lines["a"].used(Instant::now()), 10 * SECOND);
        tokio::time::advance(HALF_LIFE).await;
        assert_eq!(pool.state().lines["a"].used(Instant::now()), 5 * SECOND);
        tokio::time::advance(20 * HALF_LIFE).await;
        drop(pool.owed("b").await);
        assert!(pool.state().lines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_who_leave_give_up_their_places_and_threads() {
        let pool = Arc::new(Pool::new(1));
        let first = pool.asked("a", 5).expect("room");
        let second = pool.asked("a", 5).expect("room");
        let third = pool.asked("a", 5).expect("room");
        drop(second);
        assert_eq!(pool.state().bytes, 10);
        // The first has its turn already, though it was never looked at.
        drop(first);
        drop(third.now_or_never().expect("the thread is free"));
        let state = pool.state();
        assert_eq!((state.running, state.bytes, state.lines.len()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_bounded_for_each_account_and_for_all() {
        let pool = Arc::new(Pool::new(1));
        let many: Vec<_> = (0..MAX_ASKED).map(|_| pool.asked("a", 1).expect("room")).collect();
        let refused = pool.asked("a", 1).err();
        assert_eq!(refused, Some(Error::TooMuchWaits { what: "requests", limit: MAX_ASKED }));
        drop(many);
        let large = pool.asked("a", MAX_BYTES_OF_ONE + 1).expect("one always fits");
        let refused = pool.asked("a", 1).err();
        assert_eq!(refused, Some(Error::TooMuchWaits { what: "bytes", limit: MAX_BYTES_OF_ONE }));
        let owed = pool.owed("a");
        let all: Vec<_> = (0..10).map(|n| pool.asked(&format!("{n}"), 8 << 20)).collect();
        let taken = all.iter().filter(|one| one.is_ok()).count();
        assert_eq!(taken, 5, "{MAX_BYTES} bytes in all");
        drop((large, all));
        assert!(owed.now_or_never().is_some(), "what was accepted is not refused");
    }
}
