//! The outcome of a batch, for the caller that waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::oneshot;

use crate::{Error, Outcome};

/// A future of the [`Outcome`] of a batch.
///
/// The batch is queued when [`Store::commit`](crate::Store::commit) returns; dropping the ticket does not cancel it.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Outcome>);

impl Ticket {
    /// A ticket and the sender that resolves it.
    #[must_use]
    pub fn new() -> (oneshot::Sender<Outcome>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A ticket that has its outcome.
    #[must_use]
    pub fn answered(outcome: Outcome) -> Self {
        let (sender, ticket) = Self::new();
        // The ticket is still here.
        let _ = sender.send(outcome);
        ticket
    }

    /// Calls `then` with the outcome, in the thread that brings it: it must not block. It takes no task of tokio.
    pub fn then(self, then: impl FnOnce(Outcome) + Send + 'static) {
        Arc::new(Awaited(Mutex::new(Some((self, then))))).wake();
    }
}

/// A ticket that is looked at when its outcome wakes it, until it has one.
struct Awaited<F>(Mutex<Option<(Ticket, F)>>);

impl<F: FnOnce(Outcome) + Send + 'static> Wake for Awaited<F> {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut awaited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ticket, _)) = &mut *awaited else { return };
        let Poll::Ready(outcome) = Pin::new(ticket).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let answered = awaited.take();
        drop(awaited);
        if let Some((_, then)) = answered {
            then(outcome);
        }
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|outcome| outcome.unwrap_or(Outcome::Unknown(Error::Stopped)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_outcome_is_told_once_whether_it_came_before_or_comes_later_or_never() {
        let (told, outcomes) = mpsc::channel();
        let tell = |told: &mpsc::Sender<Outcome>| {
            let told = told.clone();
            move |outcome| told.send(outcome).expect("the test listens")
        };
        Ticket::answered(Outcome::Fenced).then(tell(&told));
        assert!(matches!(outcomes.try_recv(), Ok(Outcome::Fenced)));

        let (reply, ticket) = Ticket::new();
        ticket.then(tell(&told));
        assert!(outcomes.try_recv().is_err());
        let committer = std::thread::spawn(move || reply.send(Outcome::Committed));
        assert!(matches!(outcomes.recv(), Ok(Outcome::Committed)));
        assert!(committer.join().is_ok_and(|sent| sent.is_ok()));

        let (reply, ticket) = Ticket::new();
        ticket.then(tell(&told));
        drop(reply);
        assert!(matches!(outcomes.try_recv(), Ok(Outcome::Unknown(Error::Stopped))));
        assert!(outcomes.try_recv().is_err());
    }
}
