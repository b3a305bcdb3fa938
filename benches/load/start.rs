//! T9: from the start of the program to its first answer, and what it holds when it has nothing
//! to do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::meter::{median, millis};
use crate::report::{Bound, Row};
use crate::{Options, program};

const STARTS: usize = 10;
const IDLE: Duration = Duration::from_secs(2);

/// Measures the program alone: there is no floor.
pub(crate) fn run(_: &Options) -> Vec<Row> {
    let first_answer = median((0..STARTS).map(|_| millis(start())));
    vec![
        Row::plain(
            "T9",
            "start → first answer, empty directory, first admin made",
            "ms",
            first_answer,
            Bound::AtMost(100.0),
        ),
        Row::plain("T9", "resident memory, idle", "MB", idle(), Bound::AtMost(30.0)),
    ]
}

fn start() -> Duration {
    let begin = Instant::now();
    let server = program::server();
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("the connection stays open");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("it answers");
    assert_eq!(status, *b"HTTP/1.1 200");
    begin.elapsed()
}

/// Resident memory in megabytes.
fn idle() -> f64 {
    let server = program::server();
    std::thread::sleep(IDLE);
    server.resident() / 1e6
}
