//! The rest of a body whose request is answered before all of it has come: it is read and dropped, so that the caller,
//! who is still sending, reads the answer and does not meet a closed connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The most bytes that are dropped: more than the largest body that a route takes by default.
const MOST: usize = 128 << 20;
/// The time for it.
const LONGEST: Duration = Duration::from_secs(10);

/// A body, the rest of which is dropped once nobody wants it any more.
#[derive(Debug)]
pub(super) struct Dropped(Option<Incoming>);

impl Dropped {
    pub(super) const fn of(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for Dropped {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let mut pieces = axum::body::Body::new(body).into_data_stream();
        let rest = async move {
            let mut dropped = 0;
            while let Some(Ok(piece)) = pieces.next().await {
                dropped += piece.len();
                if dropped > MOST {
                    return;
                }
            }
        };
        // A process that stops has no runtime.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LONGEST, rest));
        }
    }
}
