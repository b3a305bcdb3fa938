//! The bytes of bodies, frames and answers that are held at once (docs/reference/limits.md).
//!
//! ```text
//!   all                    a body until its request is answered, a frame until it is parsed
//!   one project            three times what is free, if there is another one
//!   one account, address   a quarter of all, for unfinished bodies
//!   public endpoints       an eighth, in a pool of their own: they take nothing from the others
//!   answers                as much as all, in a pool of their own, until they are sent; of one account or
//!                          address a quarter, or one answer of any length; frames of an item's stream too
//! ```
//!
//! The first bytes of each do not count, because a connection's buffer holds as many anyway: many
//! slow or large bodies are refused before they fill the memory, and small ones go on. Deliberately
//! absent: the largest size and the longest time of a body, which [`super::body`] and the sockets
//! enforce.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::Error;
use callboard_domain::id::Slot;
use callboard_domain::share::{ProjectWeight, ProjectWeights, Room};
use tokio::sync::Notify;

use super::body::MAX_BODY;
use super::limit::Counted;

/// The first bytes that do not count.
const FREE: usize = 8 * 1024;
/// The first bytes at a public endpoint that do not count; a body has a few hundred bytes there.
const FREE_PUBLIC: usize = 1024;
/// Answers of fewer bytes do not count.
const FREE_ANSWER: usize = 64 * 1024;
/// The name of the answers' limit.
const UNREAD: &str = "bytes of unread answers";

/// The remaining bytes, for all requests and sockets.
#[derive(Debug, Clone)]
pub(super) struct BodyBudget {
    members: Arc<Pool>,
    public: Arc<Pool>,
    answers: Arc<Pool>,
    /// The number of projects, as the last request knew it.
    projects: Arc<Projects>,
}

/// The room of an answer that is not sent yet; dropping it gives the room back.
#[derive(Debug)]
pub(super) struct AnswerPermit {
    pool: Arc<Pool>,
    one: Option<Counted>,
    bytes: usize,
}

impl Drop for AnswerPermit {
    fn drop(&mut self) {
        self.pool.give_back(self.one, self.bytes, self.bytes);
        self.pool.given_back.notify_waiters();
    }
}

/// The projects that share a pool, as the last request of each knew them.
#[derive(Debug, Default)]
struct Projects {
    count: AtomicUsize,
    weights: ProjectWeights,
}

impl Projects {
    fn know(&self, count: usize, project: Option<Slot>, weight: ProjectWeight) {
        self.count.store(count, Ordering::Relaxed);
        if let Some(project) = project {
            self.weights.set(project, weight);
        }
    }

    fn room(&self, project: Option<Slot>, free: usize) -> Room {
        let weight = project.map(|project| self.weights.of(project)).unwrap_or_default();
        Room { projects: self.count.load(Ordering::Relaxed), free, weight }
    }
}

#[derive(Debug)]
struct Pool {
    free: usize,
    limit: usize,
    limit_of_one: usize,
    projects: Arc<Projects>,
    held: Mutex<Held>,
    /// An answer was sent; streams that wait for room may ask again.
    given_back: Notify,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_project: HashMap<Slot, usize>,
    /// The bytes of bodies that are not whole yet, or answers not sent.
    by_one: HashMap<Counted, usize>,
}

/// The share of one request or socket; an extension of the request. Given back when the last copy is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    budget: BodyBudget,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug)]
struct Taken {
    pool: Arc<Pool>,
    /// The account or address; `None` until the guard has authenticated the caller.
    one: Option<Counted>,
    read: usize,
    unfinished: usize,
    held: usize,
}

impl BodyBudget {
    /// A budget of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let projects = Arc::<Projects>::default();
        let pool = |free, limit: usize, least| {
            let limit_of_one = (limit / 4).max(least);
            let (held, given_back) = (Mutex::default(), Notify::new());
            let projects = Arc::clone(&projects);
            Arc::new(Pool { free, limit, limit_of_one, projects, held, given_back })
        };
        // One body always fits.
        Self {
            members: pool(FREE, bytes, MAX_BODY),
            public: pool(FREE_PUBLIC, bytes / 8, FREE),
            answers: pool(FREE_ANSWER, bytes, 0),
            projects,
        }
    }

    /// A request that has taken nothing yet.
    pub(super) fn share(&self) -> Share {
        let pool = Arc::clone(&self.members);
        let taken = Taken { pool, one: None, read: 0, unfinished: 0, held: 0 };
        Share { budget: self.clone(), taken: Arc::new(Mutex::new(taken)) }
    }
}

impl Share {
    /// The share of an account in a fresh budget.
    #[cfg(test)]
    pub(crate) fn tested(edge: super::Edge) -> Self {
        let share = BodyBudget::new(edge.bodies_max_bytes).share();
        share.of(Counted::address([192, 0, 2, 1].into()), false, (1, ProjectWeight::default()));
        share
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns the request to this account, or to this address at a public endpoint, before a byte
    /// is read. `projects` is the number of projects now, `weight` that of the account's.
    pub(super) fn of(
        &self,
        one: Counted,
        is_public: bool,
        (projects, weight): (usize, ProjectWeight),
    ) {
        self.budget.projects.know(projects, one.project(), weight);
        let mut taken = self.taken();
        taken.one = Some(one);
        if is_public {
            taken.pool = Arc::clone(&self.budget.public);
        }
    }

    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// [`Error::TooMuchUnfinished`] if the account has no more, [`Error::Unavailable`] if its
    /// project or the budget has none.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Error> {
        let mut taken = self.taken();
        let counted = |bytes: usize| bytes.saturating_sub(taken.pool.free);
        let more = counted(taken.read + bytes) - counted(taken.read);
        if more > 0 {
            taken.pool.take(taken.one, more)?;
            taken.held += more;
            taken.unfinished += more;
        }
        taken.read += bytes;
        Ok(())
    }

    /// Takes room for an answer of so many bytes; `None` if it does not count. An answer that
    /// `must_go` takes room even beyond the limit.
    ///
    /// # Errors
    /// [`Error::TooManyOpen`] if the account has no more, [`Error::Unavailable`] if its project or
    /// the budget has none.
    pub(super) fn answer(
        &self,
        bytes: usize,
        must_go: bool,
    ) -> Result<Option<AnswerPermit>, Error> {
        let pool = &self.budget.answers;
        if bytes < pool.free {
            return Ok(None);
        }
        let one = self.taken().one;
        pool.take_answer(one, bytes, must_go)?;
        Ok(Some(AnswerPermit { pool: Arc::clone(pool), one, bytes }))
    }

    /// Waits for room for an answer of so many bytes; `None` if it does not count.
    pub(super) async fn room(&self, bytes: usize) -> Option<AnswerPermit> {
        loop {
            let mut given_back = pin!(self.budget.answers.given_back.notified());
            // `enable` registers the wait first, so that room freed in between is noticed.
            given_back.as_mut().enable();
            if let Ok(permit) = self.answer(bytes, false) {
                return permit;
            }
            given_back.await;
        }
    }

    /// Marks the body or the frame as whole: it still takes room, but none of its account's.
    pub(crate) fn finish(&self) {
        self.taken().give_back(false);
    }

    /// The frame was handled; the next begins.
    pub(crate) fn reset(&self) {
        let mut taken = self.taken();
        taken.give_back(true);
        taken.read = 0;
    }
}

impl Taken {
    fn give_back(&mut self, everything: bool) {
        let unfinished = std::mem::take(&mut self.unfinished);
        let held = if everything { std::mem::take(&mut self.held) } else { 0 };
        if unfinished + held > 0 {
            self.pool.give_back(self.one, unfinished, held);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.give_back(true);
    }
}

impl Held {
    fn add(&mut self, one: Option<Counted>, bytes: usize) {
        self.all += bytes;
        if let Some(one) = one {
            *self.by_one.entry(one).or_default() += bytes;
        }
        if let Some(project) = one.and_then(Counted::project) {
            *self.by_project.entry(project).or_default() += bytes;
        }
    }
}

impl Pool {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the project of the account may hold so many bytes more; an address has none.
    fn has_room(&self, held: &Held, one: Option<Counted>, bytes: usize) -> bool {
        let project = one.and_then(Counted::project);
        let of_project = project.and_then(|project| held.by_project.get(&project));
        let room = self.projects.room(project, self.limit.saturating_sub(held.all));
        room.fits(of_project.copied().unwrap_or_default(), bytes)
    }

    fn take(&self, one: Option<Counted>, bytes: usize) -> Result<(), Error> {
        let mut held = self.held();
        let of_one = one.and_then(|one| held.by_one.get(&one)).copied().unwrap_or_default();
        if one.is_some() && of_one + bytes > self.limit_of_one {
            return Err(Error::TooMuchUnfinished { limit: self.limit_of_one });
        }
        if !self.has_room(&held, one, bytes) {
            return Err(Error::Unavailable(
                "too many unfinished bodies are in memory ([server] bodies_max_bytes): send this again in a \
                 few seconds",
            ));
        }
        held.add(one, bytes);
        Ok(())
    }

    /// Takes room for an answer; the first answer of an account fits at any size.
    fn take_answer(&self, one: Option<Counted>, bytes: usize, must_go: bool) -> Result<(), Error> {
        let mut held = self.held();
        let of_one = one.and_then(|one| held.by_one.get(&one)).copied().unwrap_or_default();
        if !must_go && of_one > 0 && of_one + bytes > self.limit_of_one {
            let limit = u32::try_from(self.limit_of_one).unwrap_or(u32::MAX);
            return Err(Error::TooManyOpen { what: UNREAD, limit });
        }
        if !must_go && held.all > 0 && !self.has_room(&held, one, bytes) {
            return Err(Error::Unavailable(
                "too many unread answers are in memory ([server] bodies_max_bytes): send this again in a few \
                 seconds",
            ));
        }
        held.add(one, bytes);
        Ok(())
    }

    fn give_back(&self, one: Option<Counted>, unfinished: usize, all: usize) {
        let mut held = self.held();
        held.all -= all;
        if let Some(one) = one {
            subtract(&mut held.by_one, &one, unfinished);
        }
        if let Some(project) = one.and_then(Counted::project) {
            subtract(&mut held.by_project, &project, all);
        }
    }
}

fn subtract<K: Eq + Hash>(from: &mut HashMap<K, usize>, of: &K, bytes: usize) {
    if let Some(held) = from.get_mut(of) {
        *held -= bytes;
        if *held == 0 {
            from.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use callboard_domain::access::Account;
    use callboard_domain::id::KeyId;
    use futures_util::FutureExt;

    use super::*;

    const ONE: Counted = Counted::Address(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const OTHER: Counted = Counted::Address(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));
    const MIB: usize = 1 << 20;

    fn share(budget: &BodyBudget, one: Counted, is_public: bool) -> Share {
        let share = budget.share();
        share.of(one, is_public, (1, ProjectWeight::default()));
        share
    }

    fn too_much(limit: usize) -> Result<(), Error> {
        Err(Error::TooMuchUnfinished { limit })
    }

    #[test]
    fn what_is_taken_is_given_back_with_the_request() {
        let budget = BodyBudget::new(4 * MIB);
        let (first, second) = (budget.share(), budget.share());
        assert_eq!(first.take(FREE + 3 * MIB), Ok(()));
        assert_eq!(second.take(FREE + MIB), Ok(()));
        assert!(second.take(1).is_err(), "the first has three quarters");
        first.finish();
        assert!(second.take(1).is_err(), "it is not answered yet");
        assert_eq!(budget.share().take(FREE), Ok(()), "small ones go on");
        drop(first);
        assert_eq!(second.take(3 * MIB), Ok(()));
    }

    #[test]
    fn a_project_with_many_accounts_leaves_room_for_another_one() {
        let budget = BodyBudget::new(16 * MIB);
        let of = |projects, project: u8, key: u128| {
            let project = Slot::new(project).expect("a slot");
            let share = budget.share();
            share.of(
                Counted::Account(project, Account::Key(KeyId::from_u128(key))),
                false,
                (projects, ProjectWeight::default()),
            );
            share
        };
        let flood = |projects| {
            (0..40)
                .map(move |key| of(projects, 1, key))
                .take_while(|one| one.take(FREE + MIB).is_ok())
        };
        assert_eq!(flood(1).collect::<Vec<_>>().len(), 16, "there is no other project");
        let held: Vec<_> = flood(2).collect();
        assert_eq!(held.len(), 12);
        let other = of(2, 2, 0);
        assert_eq!(other.take(FREE + 2 * MIB), Ok(()));
        drop(held);
        assert_eq!(of(2, 1, 0).take(FREE + 4 * MIB), Ok(()));

        let answers: Vec<_> =
            (0..40).map(|key| of(2, 1, key)).map_while(|one| one.answer(MIB, false).ok()).collect();
        assert_eq!(answers.len(), 12);
        assert!(other.answer(2 * MIB, false).is_ok());
    }

    #[test]
    fn an_account_has_a_quarter_for_what_is_not_whole() {
        let budget = BodyBudget::new(16 * MIB);
        let (first, second) = (share(&budget, ONE, false), share(&budget, ONE, false));
        assert_eq!(first.take(FREE + 3 * MIB), Ok(()));
        assert_eq!(second.take(FREE + MIB), Ok(()));
        assert_eq!(second.take(1), too_much(4 * MIB));
        assert_eq!(share(&budget, OTHER, false).take(FREE + 4 * MIB), Ok(()));
        first.finish();
        assert_eq!(second.take(3 * MIB), Ok(()));
        second.reset();
        assert_eq!(second.take(FREE + 4 * MIB), Ok(()), "the next frame");
        drop(second);
        assert_eq!(share(&budget, ONE, false).take(FREE + 4 * MIB), Ok(()));
    }

    #[test]
    fn one_body_always_fits() {
        assert_eq!(share(&BodyBudget::new(2 * MAX_BODY), ONE, false).take(MAX_BODY), Ok(()));
    }

    #[test]
    fn an_account_has_a_quarter_for_answers_that_are_not_sent_or_one_of_any_length() {
        let budget = BodyBudget::new(16 * MIB);
        let (first, other) = (share(&budget, ONE, false), share(&budget, OTHER, false));
        let is_refused = |share: &Share, bytes| match share.answer(bytes, false) {
            Err(Error::TooManyOpen { limit, .. }) => limit == 4 << 20,
            Ok(_) | Err(_) => false,
        };
        let long = first.answer(5 * MIB, false).expect("one of any length").expect("it counts");
        assert!(is_refused(&first, FREE_ANSWER));
        assert!(first.answer(FREE_ANSWER - 1, false).is_ok_and(|permit| permit.is_none()));
        let done = first.answer(5 * MIB, true).expect("it has an answer").expect("it counts");
        let others = other.answer(4 * MIB, false).expect("another account").expect("it counts");
        let third = share(&budget, Counted::Address([192, 0, 2, 3].into()), false);
        assert!(matches!(third.answer(3 * MIB, false), Err(Error::Unavailable(_))));
        drop((long, done));
        assert!(third.answer(3 * MIB, false).is_ok_and(|permit| permit.is_some()));
        let again = [2, 2].map(|mib| first.answer(mib * MIB, false).expect("there is room again"));
        assert!(is_refused(&first, MIB));
        drop((again, others));
        assert_eq!(budget.answers.held().all, 0);
        assert!(budget.answers.held().by_one.is_empty());
    }

    #[tokio::test]
    async fn a_stream_waits_until_an_answer_of_its_account_is_sent() {
        let budget = BodyBudget::new(16 * MIB);
        let (first, other) = (share(&budget, ONE, false), share(&budget, OTHER, false));
        let long = first.answer(4 * MIB, false).expect("there is room");
        let waiting = first.clone();
        let mut waits = pin!(async move { waiting.room(MIB).await });
        assert!(waits.as_mut().now_or_never().is_none());
        drop(other.answer(MIB, false).expect("there is room"));
        assert!(waits.as_mut().now_or_never().is_none(), "the account has none yet");
        drop(long);
        assert!(waits.await.is_some());
        assert!(first.room(FREE_ANSWER - 1).await.is_none(), "it does not count");
        assert_eq!(budget.answers.held().all, 0);
    }

    #[test]
    fn public_endpoints_have_a_pool_of_their_own() {
        let budget = BodyBudget::new(8 * MIB);
        let public: Vec<_> = (0..200).map(|_| share(&budget, ONE, true)).collect();
        let taken = public.iter().filter(|share| share.take(FREE).is_ok()).count();
        assert_eq!(taken, MIB / 4 / (FREE - FREE_PUBLIC), "a quarter of an eighth");
        assert_eq!(share(&budget, ONE, true).take(FREE_PUBLIC), Ok(()), "small ones go on");
        assert_eq!(share(&budget, OTHER, true).take(FREE), Ok(()));
        assert_eq!(budget.share().take(FREE + 8 * MIB), Ok(()), "nothing is missing here");
    }
}
