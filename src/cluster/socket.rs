//! A socket that passes through this node: bytes both ways, and a close frame that its caller understands if
//! the way ends here.
//!
//! ```text
//! caller ◀─ bytes, their frames followed by the headers alone (RFC 6455, 5.2) ─ the node that answers
//!        ◀─ close 1012, between two frames, once that node is lost or this one stops
//! ```
//!
//! Deliberately absent: the contents of frames, and the choice of the node.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The close frame of a node that restarts, as a server sends it: without a mask.
const RESTART: &[u8] = b"\x88\x24\x03\xf4the server restarts: connect again";
/// The time for the rest of a frame, and then for the caller's answer to the close frame.
const ENDING: Duration = Duration::from_secs(1);
/// The opcode of a close frame.
const CLOSE: u8 = 8;
/// The bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Passes bytes between two ends until one closes or `over` is ready. The caller of a WebSocket then receives a
/// close frame with the code 1012, unless the other end has sent one.
pub(super) async fn pass(
    caller: impl AsyncRead + AsyncWrite,
    active: impl AsyncRead + AsyncWrite,
    is_websocket: bool,
    over: impl Future<Output = ()>,
) {
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut from_active, mut to_active) = tokio::io::split(active);
    let mut frames = is_websocket.then(Frames::default);
    {
        let there = async {
            // Either end may be gone.
            let _ = tokio::io::copy(&mut from_caller, &mut to_active).await;
            let _ = to_active.shutdown().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = there => {}
            () = back(&mut from_active, &mut to_caller, &mut frames, over) => {}
        }
    }
    let ending = async {
        if frames.is_some_and(|frames| frames.may_close()) {
            to_caller.write_all(RESTART).await?;
        }
        to_caller.shutdown().await?;
        // A caller that is still sending would otherwise meet a closed connection before it reads the frame.
        tokio::io::copy(&mut from_caller, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(ENDING, ending).await;
}

/// Passes the bytes of the node that answers until it closes, or until a frame ends after `over` is ready.
async fn back(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    frames: &mut Option<Frames>,
    over: impl Future<Output = ()>,
) {
    let over = over.shared();
    let mut late = std::pin::pin!(over.clone().then(|()| tokio::time::sleep(ENDING)));
    let (mut over, mut is_over) = (std::pin::pin!(over), false);
    let mut bytes = vec![0; PIECE];
    while !is_over || frames.as_ref().is_some_and(|frames| !frames.are_whole()) {
        let read = tokio::select! {
            biased;
            () = &mut late => return,
            () = over.as_mut(), if !is_over => {
                is_over = true;
                continue;
            }
            read = from.read(&mut bytes) => read,
        };
        let Ok(length @ 1..) = read else { return };
        let piece = &bytes[..length];
        let written = tokio::select! {
            written = to.write_all(piece) => written,
            () = &mut late => return,
        };
        if written.is_err() {
            return;
        }
        if let Some(frames) = frames {
            frames.pass(piece);
        }
    }
}

/// The place in a stream of frames.
#[derive(Debug, Default)]
struct Frames {
    /// The bytes of a header that is not whole yet.
    header: Vec<u8>,
    /// The bytes of the frame's contents that are still to come.
    left: u64,
    /// True once a close frame has begun.
    is_closed: bool,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= length as u64;
                bytes = &bytes[length..];
                continue;
            }
            self.header.push(*first);
            bytes = rest;
            if let Some(length) = contents(&self.header) {
                self.is_closed |= self.header[0] & 0x0f == CLOSE;
                self.left = length;
                self.header.clear();
            }
        }
    }

    /// True between two frames.
    fn are_whole(&self) -> bool {
        self.left == 0 && self.header.is_empty()
    }

    fn may_close(&self) -> bool {
        self.are_whole() && !self.is_closed
    }
}

/// The length of a frame's contents; `None` while its header is not whole.
fn contents(header: &[u8]) -> Option<u64> {
    let [_, second, rest @ ..] = header else { return None };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let wide = match second & 0x7f {
        126 => 2,
        127 => 8,
        short => return (rest.len() >= mask).then_some(u64::from(short)),
    };
    let length = rest.get(..wide)?.iter().fold(0, |length, byte| (length << 8) | u64::from(*byte));
    (rest.len() >= wide + mask).then_some(length)
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt, StreamExt};
    use tokio::io::DuplexStream;
    use tokio::sync::oneshot;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// Frames of every kind of header.
    fn messages() -> Vec<Message> {
        let text = |length: usize| Message::text("x".repeat(length));
        vec![text(0), text(125), text(126), text(65_535), text(65_536), Message::Ping("p".into())]
    }

    async fn written(messages: Vec<Message>) -> Vec<u8> {
        let (end, mut other) = tokio::io::duplex(1 << 20);
        let mut socket = WebSocketStream::from_raw_socket(end, Role::Server, None).await;
        for message in messages {
            socket.send(message).await.expect("it is written");
        }
        drop(socket);
        let mut bytes = Vec::new();
        other.read_to_end(&mut bytes).await.expect("bytes");
        bytes
    }

    #[tokio::test]
    async fn the_ends_of_frames_are_found_however_they_arrive() {
        let bytes = written(messages()).await;
        for size in [1, 2, 3, 7, 1_000, bytes.len()] {
            let (mut frames, mut ends) = (Frames::default(), 0);
            for piece in bytes.chunks(size) {
                frames.pass(piece);
                ends += usize::from(frames.are_whole());
            }
            assert!(frames.may_close());
            assert!(size > 1 || ends == messages().len(), "{ends}");
        }
        let mut frames = Frames::default();
        frames.pass(&written(vec![Message::Close(None)]).await);
        assert!(frames.are_whole() && !frames.may_close());
    }

    /// A way between a caller's socket and the bytes of the node that answers, and its end. Each of those bytes is
    /// read before the next one is taken.
    async fn way() -> (WebSocketStream<DuplexStream>, DuplexStream, oneshot::Sender<()>) {
        let (caller, of_caller) = tokio::io::duplex(1 << 20);
        let (active, of_active) = tokio::io::duplex(1);
        let (end, over) = oneshot::channel();
        tokio::spawn(pass(of_caller, of_active, true, over.map(drop)));
        (WebSocketStream::from_raw_socket(caller, Role::Client, None).await, active, end)
    }

    /// The text and the close code that arrive.
    async fn received(socket: &mut WebSocketStream<DuplexStream>) -> (String, Option<u16>) {
        let mut text = String::new();
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                return (text, frame.map(|frame| frame.code.into()));
            }
            text.push_str(message.to_text().expect("text"));
        }
        (text, None)
    }

    #[tokio::test]
    async fn a_caller_receives_the_whole_frame_and_then_the_restart() {
        let bytes = written(vec![Message::text("a message in two pieces")]).await;
        let (mut socket, mut active, end) = way().await;
        active.write_all(&bytes[..9]).await.expect("it is sent");
        end.send(()).expect("it passes");
        active.write_all(&bytes[9..]).await.expect("it is sent");
        let all = ("a message in two pieces".to_owned(), Some(1012));
        assert_eq!(received(&mut socket).await, all);
    }

    #[tokio::test]
    async fn a_caller_whose_node_breaks_off_receives_the_restart_between_frames_alone() {
        let bytes = written(vec![Message::text("whole")]).await;
        for (sent, right) in [(bytes.len(), Some(1012)), (bytes.len() - 1, None)] {
            let (mut socket, mut active, _end) = way().await;
            active.write_all(&bytes[..sent]).await.expect("it is sent");
            drop(active);
            assert_eq!(received(&mut socket).await.1, right);
        }
    }

    #[tokio::test]
    async fn a_close_frame_of_the_node_that_answers_stays_the_last_one() {
        let bytes = written(vec![Message::Close(None)]).await;
        let (mut socket, mut active, end) = way().await;
        active.write_all(&bytes).await.expect("it is sent");
        drop(active);
        assert_eq!(received(&mut socket).await, (String::new(), None));
        drop(end);
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_never_ends_holds_no_node_up() {
        let bytes = written(vec![Message::text("never whole")]).await;
        let (mut socket, mut active, end) = way().await;
        active.write_all(&bytes[..5]).await.expect("it is sent");
        end.send(()).expect("it passes");
        let begun = tokio::time::Instant::now();
        assert_eq!(received(&mut socket).await, (String::new(), None));
        assert!(begun.elapsed() <= 2 * ENDING);
    }
}
