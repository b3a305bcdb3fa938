//! Work that goes on by itself once its waiter is gone.
//!
//! The waiter drives the work, which costs no task of its own and no message. Only if the waiter leaves
//! before the end, because its client did or its time is over, is the rest spawned. Deliberately absent:
//! a way to stop the work.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Work that its waiter drives, and that goes on by itself once this is dropped, as long as the runtime
/// runs. A held and unpolled one stands still.
pub(crate) struct Finish<T: Send + 'static>(Option<Work<T>>);

impl<T: Send + 'static> Finish<T> {
    /// Work of which nothing is done before the first poll, or the drop.
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // The work is taken out while it is polled: work that has panicked does not go on.
        let mut work = self.0.take().expect("it is not polled after its end");
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        // The end of the runtime ends everything, and the next start sees to the durable rest.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Waker;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Work that takes a second, and where it says that it is done.
    fn work() -> (Finish<u8>, oneshot::Receiver<()>) {
        let (done, is_done) = oneshot::channel();
        let work = async {
            sleep(Duration::from_secs(1)).await;
            let _ = done.send(());
            7
        };
        (Finish::new(work), is_done)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_what_it_comes_to() {
        let (work, is_done) = work();
        assert_eq!((work.await, is_done.await), (7, Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_when_nobody_waits_any_more() {
        let (late, is_done) = work();
        assert!(timeout(Duration::from_millis(10), late).await.is_err());
        assert_eq!(is_done.await, Ok(()));
        let (never_polled, is_done) = work();
        drop(never_polled);
        assert_eq!(is_done.await, Ok(()));
    }

    #[test]
    fn what_has_panicked_does_not_go_on() {
        let mut broken = Finish::<()>::new(async { panic!("it breaks") });
        let mut context = Context::from_waker(Waker::noop());
        let poll = AssertUnwindSafe(|| Pin::new(&mut broken).poll(&mut context));
        assert!(catch_unwind(poll).is_err());
        assert!(broken.0.is_none());
    }
}
