//! Frames of workers: what is read is written and read again as the same frame.
#![no_main]

use callboard_protocol::workers::FromWorker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(frame) = serde_json::from_str::<FromWorker>(text) {
        let written = serde_json::to_string(&frame).expect("a frame is written");
        let again: FromWorker = serde_json::from_str(&written).expect("what was written is read");
        assert_eq!(serde_json::to_string(&again).expect("a frame is written"), written);
    }
});
