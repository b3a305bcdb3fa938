//! The turns of long computations: which project's is next, which of its accounts', and how much may wait.
//!
//! An account's use, and a project's, is the time that its computations took, halved every ten seconds. The next turn
//! goes to the project whose use will be the least after it, and there to the oldest of the account of which the same is
//! true: what it is expected to take is added, else what the account's computations take on average, and for an account
//! without one what those of all take. So an account with brief ones does not wait for many that begin with long ones,
//! and a project not for the many accounts of another one. Deliberately absent: threads, which run what has its turn.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::id::Slot;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::kernel::environments::Environments;

/// The most requests of one account that wait or are computed.
const MAX_ASKED: usize = 64;

/// The most bytes that requests of one account hold while they wait or are computed; one request fits
/// whatever its size.
const MAX_BYTES_OF_ONE: usize = 16 << 20;

/// The most bytes that all requests hold while they wait or are computed.
const MAX_BYTES: usize = 64 << 20;

/// The time in which a use counts half.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// The use below which an account or a project without a computation is forgotten.
const FORGOTTEN: Duration = Duration::from_millis(1);

/// The threads, and those who wait for one.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    environments: Arc<Environments>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The bytes of all requests.
    bytes: usize,
    projects: HashMap<Slot, Project>,
    /// The time that a computation takes, on average.
    usual: Average,
    /// The number of the next turn.
    next: u64,
}

/// The turns of one project.
#[derive(Debug)]
struct Project {
    lines: HashMap<Arc<str>, Line>,
    /// The bytes of all its requests.
    bytes: usize,
    used: Use,
}

/// The time that computations took, as it counted at an instant.
#[derive(Debug, Clone, Copy)]
struct Use(Duration, Instant);

/// The turns of one account in a project.
#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiting>,
    running: usize,
    /// Requests that wait or are computed, and their bytes.
    asked: usize,
    bytes: usize,
    used: Use,
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
pub(super) struct ComputePermit {
    pool: Arc<Pool>,
    project: Slot,
    account: Arc<str>,
    number: u64,
    /// The bytes of a request; `None` for what was accepted before.
    bytes: Option<usize>,
    began: Option<Instant>,
}

impl Pool {
    /// All processors but one, which is left to requests.
    pub(super) fn of_processors(environments: Arc<Environments>) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::new((processors - 1).max(1), environments)
    }

    fn new(threads: usize, environments: Arc<Environments>) -> Self {
        Self { threads, environments, state: Mutex::default() }
    }

    /// Waits for a turn to compute for what was accepted before.
    pub(super) fn owed(
        self: &Arc<Self>,
        project: Slot,
        account: &str,
    ) -> impl Future<Output = ComputePermit> + Send + use<> {
        reached(self.line_up(&mut self.state(), (project, account), (None, None)))
    }

    /// Takes a place in the line for a request, and waits for its turn.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`] if the account has too much in the line, [`Error::Unavailable`] if its project or all
    /// together have.
    pub(super) fn asked<T: Into<Weight>>(
        self: &Arc<Self>,
        project: Slot,
        account: &str,
        weight: T,
    ) -> Result<impl Future<Output = ComputePermit> + Send + use<T>, Error> {
        let Weight { bytes, takes } = weight.into();
        let mut state = self.state();
        let of_project = state.projects.get(&project);
        let line = of_project.and_then(|project| project.lines.get(account));
        if let Some(line) = line.filter(|line| line.asked > 0) {
            if line.asked >= MAX_ASKED {
                return Err(Error::TooMuchWaits { what: "requests", limit: MAX_ASKED });
            }
            if line.bytes + bytes > MAX_BYTES_OF_ONE {
                return Err(Error::TooMuchWaits { what: "bytes", limit: MAX_BYTES_OF_ONE });
            }
        }
        let held = of_project.map_or(0, |project| project.bytes);
        let free = MAX_BYTES.saturating_sub(state.bytes);
        let room = self.environments.room(project, free);
        if state.bytes > 0 && !room.fits(held, bytes) {
            return Err(Error::Unavailable(
                "too many requests wait for a processor: send this again in a few seconds",
            ));
        }
        let waiting = self.line_up(&mut state, (project, account), (Some(bytes), takes));
        drop(state);
        Ok(reached(waiting))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line_up(
        self: &Arc<Self>,
        state: &mut State,
        (project, account): (Slot, &str),
        (bytes, takes): (Option<usize>, Option<Duration>),
    ) -> (ComputePermit, oneshot::Receiver<()>) {
        let (go, gone) = oneshot::channel();
        let (number, now) = (state.next, Instant::now());
        state.next += 1;
        state.bytes += bytes.unwrap_or(0);
        let of_project = state.projects.entry(project).or_insert_with(|| Project::new(now));
        of_project.bytes += bytes.unwrap_or(0);
        let account = match of_project.lines.get_key_value(account) {
            Some((account, _)) => Arc::clone(account),
            None => Arc::from(account),
        };
        let line = of_project.lines.entry(Arc::clone(&account)).or_insert_with(|| Line::new(now));
        line.asked += usize::from(bytes.is_some());
        line.bytes += bytes.unwrap_or(0);
        line.waiting.push_back(Waiting { number, takes, go });
        state.go_on(self.threads, now);
        (
            ComputePermit { pool: Arc::clone(self), project, account, number, bytes, began: None },
            gone,
        )
    }
}

/// Waits until a turn is reached.
async fn reached((mut turn, gone): (ComputePermit, oneshot::Receiver<()>)) -> ComputePermit {
    gone.await.expect("a turn that waits is in its line");
    turn.began = Some(Instant::now());
    turn
}

impl State {
    /// Gives free threads to those who wait.
    fn go_on(&mut self, threads: usize, now: Instant) {
        while self.running < threads {
            let others = self.usual;
            let next = self.projects.values_mut().filter_map(|project| project.next(now, others));
            let Some((_, line)) = next.min_by_key(|(place, _)| *place) else { return };
            let Some(next) = line.waiting.pop_front() else { return };
            line.running += 1;
            self.running += 1;
            // If its caller has left, the turn is dropped and goes to the next.
            let _ = next.go.send(());
        }
    }
}

impl Project {
    fn new(now: Instant) -> Self {
        Self { lines: HashMap::new(), bytes: 0, used: Use(Duration::ZERO, now) }
    }

    /// The line whose first is the project's next, and the place of that among those of all projects: the project's
    /// use after it, and its number. `others` is the time that a computation takes on average.
    fn next(&mut self, now: Instant, others: Average) -> Option<((Duration, u64), &mut Line)> {
        let of_line = |line: &mut Line| {
            let first = line.waiting.front()?;
            let takes = first.takes.or(line.usual.0).or(others.0).unwrap_or_default();
            Some(((line.used.at(now) + takes, first.number), takes))
        };
        let lines = self.lines.values_mut().filter_map(|line| Some((of_line(line)?, line)));
        let (((_, number), takes), line) = lines.min_by_key(|((place, _), _)| *place)?;
        Some(((self.used.at(now) + takes, number), line))
    }
}

impl Use {
    /// The use as it counts now.
    fn at(self, now: Instant) -> Duration {
        let halvings = now.saturating_duration_since(self.1).div_duration_f64(HALF_LIFE);
        self.0.mul_f64(0.5_f64.powf(halvings))
    }

    fn add(&mut self, took: Duration, now: Instant) {
        *self = Self(self.at(now) + took, now);
    }
}

impl Line {
    fn new(now: Instant) -> Self {
        let (used, usual) = (Use(Duration::ZERO, now), Average::default());
        Self { waiting: VecDeque::new(), running: 0, asked: 0, bytes: 0, used, usual }
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

impl Drop for ComputePermit {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.pool.state();
        let state = &mut *state;
        state.bytes -= self.bytes.unwrap_or(0);
        let Some(project) = state.projects.get_mut(&self.project) else { return };
        project.bytes -= self.bytes.unwrap_or(0);
        let Some(line) = project.lines.get_mut(&self.account) else { return };
        line.asked -= usize::from(self.bytes.is_some());
        line.bytes -= self.bytes.unwrap_or(0);
        if let Ok(place) = line.waiting.binary_search_by_key(&self.number, |one| one.number) {
            line.waiting.remove(place);
        } else {
            if let Some(took) = self.began.map(|began| now - began) {
                line.used.add(took, now);
                project.used.add(took, now);
                line.usual.add(took);
                state.usual.add(took);
            }
            line.running -= 1;
            state.running -= 1;
        }
        state.go_on(self.pool.threads, now);
        state.projects.retain(|_, project| {
            project.lines.retain(|_, line| !line.is_idle() || line.used.at(now) > FORGOTTEN);
            !project.lines.is_empty() || project.used.at(now) > FORGOTTEN
        });
    }
}

#[cfg(test)]
mod tests;
