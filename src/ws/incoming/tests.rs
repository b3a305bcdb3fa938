//! Frames of every length, however they arrive, and those that take too much.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::*;
use crate::http::Edge;

use futures_util::{SinkExt, StreamExt};

fn limits(bodies_max_bytes: usize) -> Limits {
    let share = Share::tested(Edge { bodies_max_bytes, ..Edge::default() });
    Limits { max_message: 1 << 20, within: Duration::from_secs(30), share }
}

/// The bytes that the reader receives if these arrive in parts of these lengths.
async fn handed(bytes: &[u8], parts: &[usize]) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(1 << 22);
    let mut incoming = Incoming::new(server, limits(64 << 20));
    let mut rest = bytes;
    let mut handed = Vec::new();
    let mut room = [0; 4096];
    let mut parts = parts.iter().cycle();
    while !rest.is_empty() {
        let length = (*parts.next().expect("it cycles")).min(rest.len());
        client.write_all(&rest[..length]).await.expect("there is room");
        rest = &rest[length..];
        while let Ok(Ok(more)) =
            tokio::time::timeout(Duration::ZERO, incoming.read(&mut room)).await
        {
            handed.extend_from_slice(&room[..more]);
        }
    }
    handed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_message_arrives_as_it_was_sent(
        lengths in prop::collection::vec(prop_oneof![
            0..200_usize, 65_500..65_600_usize, PIECE - 2..PIECE + 3, 2 * PIECE - 2..2 * PIECE + 3,
        ], 1..6),
        parts in prop::collection::vec(1..50_000_usize, 1..5),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(1 << 22);
            let mut client = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
            let mut sent = Vec::new();
            for (number, length) in lengths.iter().enumerate() {
                let text: String = ('a'..='z').cycle().skip(number).take(*length).collect();
                sent.push(Message::text(text));
                sent.push(Message::Ping(Bytes::from_static(b"?")));
                sent.push(Message::binary(vec![7; *length]));
            }
            for message in &sent {
                client.send(message.clone()).await.expect("there is room");
            }
            drop(client);
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.expect("it ends");
            let handed = handed(&bytes, &parts).await;

            let (mut near, far) = tokio::io::duplex(1 << 23);
            near.write_all(&handed).await.expect("there is room");
            let mut server = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
            for message in sent {
                assert_eq!(server.next().await.expect("a message").expect("it is whole"), message);
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_frame_becomes_pieces_of_one_message() {
    let mut frame = vec![0x81, 0xff];
    frame.extend((2 * PIECE as u64 + 5).to_be_bytes());
    frame.extend([1, 2, 3, 4]);
    frame.extend(vec![9; 2 * PIECE + 5]);
    let handed = handed(&frame, &[700]).await;
    let head = |first: u8, length: usize| {
        let [high, low] = u16::try_from(length).expect("it is short").to_be_bytes();
        vec![first, 0xfe, high, low, 1, 2, 3, 4]
    };
    let long = vec![9; PIECE];
    let last = vec![0x80, 0x85, 1, 2, 3, 4, 9, 9, 9, 9, 9];
    assert_eq!(handed, [head(0x01, PIECE), long.clone(), head(0x00, PIECE), long, last].concat());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_whole_takes_room_and_pings_between_give_none_back() {
    let (mut client, server) = tokio::io::duplex(1 << 23);
    // A quarter of 8 MiB.
    let mut incoming = Incoming::new(server, limits(8 << 20));
    let (mut read, mut room) = (0, vec![0; 1 << 16]);
    let failed = loop {
        // A fragment of 64 KiB, and a ping.
        let mut frame = vec![u8::from(read == 0), 0xff];
        frame.extend((1_u64 << 16).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(vec![b'x'; 1 << 16]);
        frame.extend([0x89, 0x80, 0, 0, 0, 0]);
        client.write_all(&frame).await.expect("there is room");
        read += 1;
        let end = loop {
            match tokio::time::timeout(Duration::ZERO, incoming.read(&mut room)).await {
                Err(_) => break None,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => break Some(error),
            }
        };
        if let Some(error) = end {
            break error;
        }
    };
    assert_eq!(read, 33, "2 MiB and what is free");
    let refused = Overrun::NoRoom(Error::TooMuchUnfinished { limit: 2 << 20 });
    assert_eq!(Overrun::of(&failed), Some(&refused));
}

/// Before: the room was free while the message waited to be parsed, and others could take it.
#[tokio::test(start_paused = true)]
async fn a_whole_message_takes_room_until_the_next_read_and_none_of_its_accounts() {
    const MIB: usize = 1 << 20;
    let (mut client, server) = tokio::io::duplex(4 * MIB);
    let limits = limits(3 * MIB);
    // Of one account: 2 MiB, of all: 3 MiB.
    let share = limits.share.clone();
    let mut incoming = Incoming::new(server, limits);
    let mut frame = vec![0x81, 0xff];
    frame.extend((2 * MIB as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(vec![b'x'; 2 * MIB]);
    client.write_all(&frame).await.expect("there is room");
    // Each piece has a head of 8 bytes.
    let mut message = vec![0; 2 * MIB + 8 * (2 * MIB / PIECE)];
    incoming.read_exact(&mut message).await.expect("it is whole");
    let no_room = Error::Unavailable(
        "too many unfinished bodies are in memory ([server] bodies_max_bytes): send this again in a few \
         seconds",
    );
    assert_eq!(share.take(MIB + MIB / 2), Err(no_room), "the message is not parsed yet");
    assert_eq!(share.take(MIB / 2), Ok(()), "it is whole");
    let next = tokio::time::timeout(Duration::ZERO, incoming.read(&mut message)).await;
    assert!(next.is_err(), "there is no other message");
    assert_eq!(share.take(MIB + MIB / 2), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_trickles_in_is_given_up_and_an_idle_socket_is_not() {
    let (mut client, server) = tokio::io::duplex(1 << 16);
    let mut incoming = Incoming::new(server, limits(8 << 20));
    let mut room = [0; 100];
    client.write_all(&[0x89, 0x80, 0]).await.expect("there is room");
    let wait = |seconds| Duration::from_secs(seconds);
    assert!(tokio::time::timeout(wait(20), incoming.read(&mut room)).await.is_err());
    client.write_all(&[0, 0, 0]).await.expect("there is room");
    assert!(incoming.read(&mut room).await.is_ok());
    assert!(tokio::time::timeout(wait(600), incoming.read(&mut room)).await.is_err(), "it is idle");
    client.write_all(&[0x81, 0xfe, 1, 0, 0, 0, 0, 0, b'x']).await.expect("there is room");
    assert!(incoming.read(&mut room).await.is_ok());
    let began = tokio::time::Instant::now();
    assert!(tokio::time::timeout(wait(29), incoming.read(&mut room)).await.is_err());
    client.write_all(b"x").await.expect("there is room");
    assert!(incoming.read(&mut room).await.is_ok());
    let failed = incoming.read(&mut room).await.expect_err("it is too slow");
    assert_eq!(Overrun::of(&failed), Some(&Overrun::TooSlow(wait(30))));
    assert_eq!(began.elapsed(), wait(30));
}
