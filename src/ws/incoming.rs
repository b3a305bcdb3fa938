//! The bytes of a socket on their way to its frame reader: counted, and cut into small frames.
//!
//! ```text
//! text 40,000 FIN ─▶ text 16,384 ─ continuation 16,384 ─ continuation 7,232 FIN
//! ```
//!
//! A frame reader reserves the length that a frame announces, and keeps the memory for as long as the socket lives. So
//! a long frame reaches the reader in pieces, as if the client had sent it so, and the bytes of an unfinished message
//! take room of the account's budget. A whole message takes room, but none of its account's, until the next read,
//! which comes once the message was parsed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use callboard_domain::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::http::Share;

/// The longest piece, in bytes; a multiple of four, so that each piece is masked alike.
pub(crate) const PIECE: usize = 8 << 10;
/// The bytes of one read.
const READ_AT_ONCE: usize = 16 << 10;

/// The bits of a frame's first byte: the last of its message; extensions; control frames.
const FIN: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const CONTROL: u8 = 0x08;
/// The bit of the second byte: a mask follows.
const MASKED: u8 = 0x80;
/// The lengths in the second byte that announce a longer one: of two bytes, or of eight.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// The limits of a socket.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The longest message, in bytes.
    pub(crate) max_message: usize,
    /// The time in which a message must arrive.
    pub(crate) within: Duration,
    /// The share of the budget that an unfinished message takes.
    pub(crate) share: Share,
}

/// The reason why a socket is not read any further; inside of an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overrun {
    /// The budget has no room for the message.
    #[error("{0}")]
    NoRoom(Error),
    /// The message took too long.
    #[error("the frame did not arrive within {} seconds", .0.as_secs())]
    TooSlow(Duration),
}

impl Overrun {
    /// The reason inside of an error, if the error holds one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// The bytes of a socket; writes go through unchanged.
#[derive(Debug)]
pub(crate) struct Incoming<S> {
    inner: S,
    limits: Limits,
    read: Read,
    at: At,
    /// True if a message has begun and is not whole.
    is_unfinished: bool,
    /// True if a whole message was handed on in the last read.
    is_handed_on: bool,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The bytes that were read and not handed on.
#[derive(Debug)]
struct Read {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Read {
    fn left(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Makes room behind the rest.
    fn room(&mut self) -> ReadBuf<'_> {
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        ReadBuf::new(&mut self.bytes[self.to..])
    }
}

/// The place of the reader.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Before the head of a frame.
    Head,
    /// Within a piece.
    Piece(Piece),
}

/// The rest of a piece that has not been handed on.
#[derive(Debug, Clone, Copy)]
struct Piece {
    head: Head,
    payload: usize,
    /// The payload of the frame behind this piece, and its first byte.
    behind: u64,
    first: u8,
    mask: Option<[u8; 4]>,
}

/// The head of a frame, as bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    bytes: [u8; 14],
    from: usize,
    to: usize,
}

impl Head {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.to..self.to + bytes.len()].copy_from_slice(bytes);
        self.to += bytes.len();
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

impl Piece {
    /// The first piece of the frame that begins here; `None` until the whole head was read.
    fn parse(read: &mut Read) -> Option<Self> {
        let left = read.left();
        let (first, second) = (*left.first()?, *left.get(1)?);
        let extended = match second & !MASKED {
            LENGTH_16 => 2,
            LENGTH_64 => 8,
            _ => 0,
        };
        let masked = if second & MASKED == 0 { 0 } else { 4 };
        let extension = left.get(2..2 + extended)?;
        let mask = left.get(2 + extended..2 + extended + masked)?;
        let length = match extended {
            0 => u64::from(second & !MASKED),
            _ => extension.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        let mask = mask.first_chunk().copied();
        read.from += 2 + extended + masked;
        Some(Self::begin(first, mask, length))
    }

    /// The first piece of the rest of a frame.
    fn begin(first: u8, mask: Option<[u8; 4]>, left: u64) -> Self {
        let is_cut = first & CONTROL == 0 && left > PIECE as u64;
        let payload = if is_cut { PIECE as u64 } else { left };
        let mut head = Head::default();
        head.push(&[if is_cut { first & !FIN } else { first }]);
        let masked = mask.map_or(0, |_| MASKED);
        match (u8::try_from(payload), u16::try_from(payload)) {
            (Ok(length @ 0..LENGTH_16), _) => head.push(&[masked | length]),
            (_, Ok(length)) => {
                head.push(&[masked | LENGTH_16]);
                head.push(&length.to_be_bytes());
            }
            // The reader refuses a control frame of this length.
            (_, Err(_)) => {
                head.push(&[masked | LENGTH_64]);
                head.push(&payload.to_be_bytes());
            }
        }
        head.push(&mask.unwrap_or_default()[..mask.map_or(0, |mask| mask.len())]);
        let payload_here = usize::try_from(payload).unwrap_or(usize::MAX);
        Self { head, payload: payload_here, behind: left - payload, first, mask }
    }

    /// The piece behind this one, which continues its message.
    fn next(&self) -> Option<Self> {
        let first = self.first & FIN;
        (self.behind > 0).then(|| Self::begin(first, self.mask, self.behind))
    }

    const fn is_control(&self) -> bool {
        self.first & CONTROL != 0 && self.first & OPCODE != 0
    }

    /// True if a message ends with this piece.
    const fn ends_message(&self) -> bool {
        self.behind == 0 && self.first & FIN != 0
    }
}

impl<S> Incoming<S> {
    pub(super) fn new(inner: S, limits: Limits) -> Self {
        let read = Read { bytes: vec![0; READ_AT_ONCE].into(), from: 0, to: 0 };
        Self {
            inner,
            limits,
            read,
            at: At::Head,
            is_unfinished: false,
            is_handed_on: false,
            deadline: None,
        }
    }

    /// The socket below.
    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    /// Hands on the read bytes, until none is left or `out` is full.
    fn hand_on(&mut self, out: &mut ReadBuf<'_>) -> Result<(), Error> {
        let mut unfinished = 0;
        while out.remaining() > 0 {
            let At::Piece(piece) = &mut self.at else {
                let Some(piece) = Piece::parse(&mut self.read) else { break };
                self.at = At::Piece(piece);
                continue;
            };
            let head = piece.head.left();
            let length = head.len().min(out.remaining());
            out.put_slice(&head[..length]);
            piece.head.from += length;
            let read = self.read.left();
            let length = piece.payload.min(out.remaining()).min(read.len());
            out.put_slice(&read[..length]);
            self.read.from += length;
            piece.payload -= length;
            if !piece.is_control() {
                unfinished += length;
                self.is_unfinished = true;
            }
            if !piece.head.left().is_empty() || piece.payload > 0 {
                if self.read.left().is_empty() {
                    break;
                }
                continue;
            }
            if piece.ends_message() && !piece.is_control() {
                unfinished = 0;
                self.is_unfinished = false;
                self.is_handed_on = true;
                self.limits.share.finish();
            }
            if !self.is_unfinished {
                self.deadline = None;
            }
            self.at = piece.next().map_or(At::Head, At::Piece);
        }
        // The next read gives back what was taken before the message that was handed on here.
        if unfinished > 0 && !self.is_handed_on {
            self.limits.share.take(unfinished)
        } else {
            Ok(())
        }
    }

    /// True if a message, or the head of a frame, is incomplete.
    fn is_amid(&self) -> bool {
        self.is_unfinished || matches!(self.at, At::Piece(_)) || !self.read.left().is_empty()
    }
}

fn overrun(overrun: Overrun) -> io::Error {
    io::Error::other(overrun)
}

impl<S: AsyncRead + Unpin> AsyncRead for Incoming<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = out.filled().len();
        // Of a message that began in the last read, the bytes so far do not count: fewer than `PIECE`.
        if std::mem::take(&mut this.is_handed_on) {
            this.limits.share.reset();
        }
        loop {
            let handed = this.hand_on(out);
            handed.map_err(|error| overrun(Overrun::NoRoom(error)))?;
            if out.filled().len() > before || out.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut room = this.read.room();
            let more = Pin::new(&mut this.inner).poll_read(cx, &mut room);
            let more = more.map_ok(|()| room.filled().len());
            if more.is_pending() && this.is_amid() {
                let within = this.limits.within;
                let deadline =
                    this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
                if deadline.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(overrun(Overrun::TooSlow(within))));
                }
            }
            let more = ready!(more)?;
            this.read.to += more;
            if more == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Incoming<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
