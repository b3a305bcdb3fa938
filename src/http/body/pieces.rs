//! A body that is read in pieces, so that it may be larger than the memory for it.
//!
//! Deliberately absent: the notation of the body, and its meaning.

use std::time::{Duration, Instant};

use axum::body::BodyDataStream;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use callboard_domain::{Error, Rule};
use futures_util::StreamExt;

use crate::http::auth::BodySender;
use crate::http::{Edge, Share};

/// The pause after which the sender's credential is looked at again.
const RECHECK: Duration = Duration::from_secs(5);

/// A body in pieces, each within its time and within the budget of bytes.
pub(in crate::http) struct Pieces {
    stream: BodyDataStream,
    share: Option<Share>,
    sender: Option<BodySender>,
    limit: Duration,
    most: u64,
    read: u64,
    checked: Instant,
}

impl Pieces {
    /// The body of a request, of at most so many bytes.
    pub(in crate::http) fn of(request: Request, most: u64) -> Result<Self, Error> {
        let edge = request.extensions().get::<Edge>().copied().unwrap_or_default();
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|it| it > most) {
            return Err(too_large(most));
        }
        let share = request.extensions().get::<Share>().cloned();
        let sender = request.extensions().get::<BodySender>().cloned();
        let stream = request.into_body().into_data_stream();
        let (limit, checked) = (edge.body_timeout, Instant::now());
        Ok(Self { stream, share, sender, limit, most, read: 0, checked })
    }

    /// The next piece, or `None` at the end; the caller still holds so many bytes of the pieces before. A call
    /// that is dropped loses nothing.
    ///
    /// # Errors
    /// [`Error::BodyTooSlow`], [`Error::Invalid`] if the body breaks off, [`Error::PayloadTooLarge`],
    /// [`Error::TooMuchUnfinished`] and [`Error::Unavailable`] if the budget has no room; the error of a
    /// credential that was revoked meanwhile.
    pub(in crate::http) async fn next(&mut self, held: usize) -> Result<Option<Bytes>, Error> {
        self.holds(held)?;
        let piece = tokio::time::timeout(self.limit, self.stream.next()).await;
        let piece = piece.map_err(|_| Error::BodyTooSlow { seconds: self.limit.as_secs() })?;
        let broken = |_| {
            Error::invalid(
                "body",
                Rule::Format,
                "the body ended before it was complete: send it again",
            )
        };
        let Some(piece) = piece.transpose().map_err(broken)? else { return Ok(None) };
        if let Some(share) = &self.share {
            share.take(piece.len())?;
        }
        self.read += piece.len() as u64;
        if self.read > self.most {
            return Err(too_large(self.most));
        }
        if self.checked.elapsed() > RECHECK {
            self.checked = Instant::now();
            self.sender.iter().try_for_each(BodySender::check)?;
        }
        Ok(Some(piece))
    }

    /// Keeps room in the budget for so many bytes, and gives the rest back.
    fn holds(&self, held: usize) -> Result<(), Error> {
        let Some(share) = &self.share else { return Ok(()) };
        share.reset();
        share.take(held)
    }
}

fn too_large(most: u64) -> Error {
    Error::PayloadTooLarge { limit: usize::try_from(most).unwrap_or(usize::MAX) }
}
