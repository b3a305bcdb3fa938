//! Identifiers: a prefix that names the kind and a ULID whose last ten bits are the partition.
//!
//! ```text
//! dt_task_01kahj9d2z4x0v5y8m3n7r6q4e
//!         └────────┘└────────────┘└┘
//!          48 bits   70 bits       partition, 0..255
//!          millis    monotonic
//! ```
//!
//! Identifiers of one process sort by creation, and name their partition (docs/reference/api.md).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

const PARTITION_BITS: u32 = 10;
const TAIL_MASK: u128 = (1 << 80) - 1;

/// Production or sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Production: for `svc_live_` keys, `svc_worker_` keys and sessions.
    Live,
    /// The sandbox: for `svc_test_` keys.
    Test,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Live, Self::Test];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

/// A project's place in the store that holds it, 0 to 127. The project `default` has the first one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct Slot(u8);

impl Slot {
    /// The number of projects that one store can hold.
    pub const COUNT: u8 = 128;
    /// The project `default`.
    pub const DEFAULT: Self = Self(0);

    /// The place with this number, if there is one.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// True for the project `default`.
    #[must_use]
    pub const fn is_default(self) -> bool {
        self.0 == 0
    }

    /// The project's production and its sandbox.
    #[must_use]
    pub const fn environments(self) -> [Environment; 2] {
        [self.environment(Mode::Live), self.environment(Mode::Test)]
    }

    /// The project's production or its sandbox.
    #[must_use]
    pub const fn environment(self, mode: Mode) -> Environment {
        Environment(self.0 << 1 | mode as u8)
    }
}

impl From<Slot> for u8 {
    fn from(slot: Slot) -> Self {
        slot.0
    }
}

impl TryFrom<u8> for Slot {
    type Error = InvalidId;

    fn try_from(number: u8) -> Result<Self, InvalidId> {
        Self::new(number).ok_or(InvalidId)
    }
}

/// A project's production or its sandbox: part of every key in the store. No item is visible from another one.
///
/// One byte, which is the project's [`Slot`] twice, plus one for the sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Environment(u8);

impl Environment {
    /// The production of the project `default`.
    pub const LIVE: Self = Slot::DEFAULT.environment(Mode::Live);
    /// The sandbox of the project `default`.
    pub const TEST: Self = Slot::DEFAULT.environment(Mode::Test);
    /// The number of environments that one store can hold.
    pub const COUNT: usize = 256;

    /// The environment with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// The number in keys of the store.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The project's place.
    #[must_use]
    pub const fn slot(self) -> Slot {
        Slot(self.0 >> 1)
    }

    /// Production or sandbox.
    #[must_use]
    pub const fn mode(self) -> Mode {
        if self.is_test() { Mode::Test } else { Mode::Live }
    }

    /// True for production.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !self.is_test()
    }

    /// True for a sandbox.
    #[must_use]
    pub const fn is_test(self) -> bool {
        self.0 & 1 == 1
    }

    /// The production of the same project.
    #[must_use]
    pub const fn live(self) -> Self {
        self.slot().environment(Mode::Live)
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode().as_str();
        match self.slot() {
            Slot::DEFAULT => f.write_str(mode),
            Slot(number) => write!(f, "{mode}.{number}"),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Environment> for String {
    fn from(environment: Environment) -> Self {
        environment.to_string()
    }
}

impl TryFrom<String> for Environment {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        let (mode, slot) = text.split_once('.').unwrap_or((&text, "0"));
        let mode = Mode::ALL.into_iter().find(|one| one.as_str() == mode).ok_or(InvalidId)?;
        let slot = slot.parse().ok().and_then(Slot::new).ok_or(InvalidId)?;
        Ok(slot.environment(mode))
    }
}

/// A text that is not an identifier of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of this kind")]
pub struct InvalidId;

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Kept as bytes, most significant first: waiting items in memory are mostly identifiers,
        /// and a `u128` would pad each of their structs to a multiple of 16 bytes.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The beginning of the text form.
            pub const PREFIX: &str = $prefix;

            /// The bytes of the text form.
            pub const LENGTH: usize = Self::PREFIX.len() + ULID;

            /// The identifier with this number.
            #[must_use]
            pub const fn from_u128(number: u128) -> Self {
                Self(number.to_be_bytes())
            }

            /// The number, which is the stored key; sorts like the text form.
            #[must_use]
            pub const fn as_u128(self) -> u128 {
                u128::from_be_bytes(self.0)
            }

            /// The partition that stores the item.
            #[must_use]
            pub const fn partition(self) -> u8 {
                partition_of(self.as_u128())
            }

            /// The creation time, in milliseconds.
            #[must_use]
            pub const fn created_at(self) -> Timestamp {
                created_at(self.as_u128())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Encoded::of($prefix, self.as_u128()).as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix).ok_or(InvalidId).and_then(parse_ulid).map(Self::from_u128)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(Encoded::of($prefix, self.as_u128()).as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

identifiers! {
    /// A task: one prompt.
    TaskId = "dt_task_";
    /// A batch of tasks submitted together.
    BatchId = "dt_batch_";
    /// A batch in the form of OpenAI's interface: a chat completion for each line of a file.
    ChatBatchId = "batch_";
    /// A batch: one template over many rows.
    TemplateBatchId = "bat_";
    /// A plan: a graph of steps.
    PlanId = "dt_plan_";
    /// One run of a plan.
    ExecutionId = "dt_exec_";
    /// A project.
    ProjectId = "prj_";
    /// A user.
    UserId = "usr_";
    /// An API key.
    KeyId = "key_";
    /// An invitation to make an account.
    InvitationId = "inv_";
    /// A session, from a login over all its refreshes.
    SessionId = "ses_";
    /// An entry of the audit log.
    AuditId = "aud_";
    /// A worker process, kept over reconnections.
    WorkerId = "wrk_";
    /// A budget of many tasks.
    BudgetId = "bdg_";
    /// A bulk job.
    BulkId = "blk_";
    /// A delivery of a mail or a webhook.
    DeliveryId = "dlv_";
    /// A signal to an execution, kept for its wait steps.
    SignalId = "dt_sig_";
    /// A schedule.
    ScheduleId = "dt_sched_";
    /// An uploaded file.
    FileId = "file_";
    /// A move of a project to another cell.
    MoveId = "move_";
    /// A saved view.
    ViewId = "view_";
}

impl ProjectId {
    /// The project `default`.
    pub const DEFAULT: Self = Self::from_u128(0);
}

/// The partition in an identifier's number.
#[must_use]
pub const fn partition_of(number: u128) -> u8 {
    (number & 0xff) as u8
}

/// The creation time in an identifier's number.
#[must_use]
pub const fn created_at(number: u128) -> Timestamp {
    Timestamp::from_millis((number >> 80) as u64)
}

/// The smallest number of an identifier created at `instant` or later.
#[must_use]
pub fn first_at(instant: Timestamp) -> u128 {
    u128::from(instant.as_millis()) << 80
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The value of each byte as a digit; [`NO_DIGIT`] for a byte outside the alphabet.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit: u8 = 0;
    while digit < 32 {
        digits[ALPHABET[digit as usize] as usize] = digit;
        digit += 1;
    }
    digits
};
const NO_DIGIT: u8 = u8::MAX;

const ULID: usize = 26;
const LONGEST_PREFIX: usize = 9;

/// The text form, on the stack: rows and frames contain many identifiers.
struct Encoded {
    bytes: [u8; LONGEST_PREFIX + ULID],
    length: usize,
}

impl Encoded {
    fn of(prefix: &str, number: u128) -> Self {
        let mut bytes = [0; LONGEST_PREFIX + ULID];
        let (length, mut rest) = (prefix.len() + ULID, number);
        bytes[..prefix.len()].copy_from_slice(prefix.as_bytes());
        for place in bytes[prefix.len()..length].iter_mut().rev() {
            *place = ALPHABET[usize::try_from(rest & 31).expect("five bits fit")];
            rest >>= 5;
        }
        Self { bytes, length }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("the alphabet is ASCII")
    }
}

fn parse_ulid(text: &str) -> Result<u128, InvalidId> {
    if text.len() != ULID || text.as_bytes()[0] > b'7' {
        return Err(InvalidId);
    }
    let mut number = 0_u128;
    for byte in text.bytes() {
        match DIGITS[usize::from(byte)] {
            NO_DIGIT => return Err(InvalidId),
            digit => number = number << 5 | u128::from(digit),
        }
    }
    let in_range = number & ((1 << PARTITION_BITS) - 1) <= 0xff;
    if in_range { Ok(number) } else { Err(InvalidId) }
}

/// Generates identifiers that never repeat and never sort before an earlier one of this process.
#[derive(Debug, Default, Clone)]
pub struct Generator {
    last: u128,
}

impl Generator {
    /// The next identifier's number, with the time `now` (the previous identifier's time, if the
    /// clock went back) and the upper bits of `entropy` as the random part.
    pub fn next(&mut self, now: Timestamp, partition: u8, entropy: u128) -> u128 {
        let fresh = first_at(now) | (entropy & TAIL_MASK);
        let counter = (fresh >> PARTITION_BITS).max((self.last >> PARTITION_BITS) + 1);
        self.last = counter << PARTITION_BITS | u128::from(partition);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identifier_says_its_kind_its_time_and_its_partition() {
        let number =
            Generator::default().next(Timestamp::from_millis(1_700_000_000_123), 255, 42 << 10);
        let id = TaskId::from_u128(number);
        assert_eq!(id.to_string(), "dt_task_01hf7yat3v0000000000001a7z");
        assert_eq!(id.created_at().as_millis(), 1_700_000_000_123);
        assert_eq!(id.partition(), 255);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn another_kind_another_alphabet_or_an_impossible_partition_is_malformed() {
        for text in [
            "",
            "dt_task_",
            "dt_plan_01hf7yat3v0000000000001a7z",
            "dt_task_01HF7YAT3V0000000000001A7Z",
            "dt_task_01hf7yat3v0000000000001a80",
            "dt_task_81hf7yat3v0000000000001a7z",
            "dt_task_01hf7yat3vö000000000001a7z",
            "dt_task_01hf7yat3v000000000000ia7z",
        ] {
            assert_eq!(text.parse::<TaskId>(), Err(InvalidId), "{text}");
        }
    }

    proptest! {
        #[test]
        fn identifiers_of_one_process_ascend_even_if_the_clock_goes_back(
            ticks in prop::collection::vec((0_u64..100, any::<u8>(), any::<u128>()), 1..100),
        ) {
            let mut generator = Generator::default();
            let mut last = 0;
            for (millis, partition, entropy) in ticks {
                let next = generator.next(Timestamp::from_millis(millis), partition, entropy);
                prop_assert!(next > last);
                prop_assert_eq!(partition_of(next), partition);
                prop_assert_eq!(TaskId::from_u128(next).to_string().parse(), Ok(TaskId::from_u128(next)));
                last = next;
            }
        }
    }
}
