//! Strict JSON: bytes to a value in one pass, or a refusal that names the fault and its place.
//!
//! `serde_json` takes more than the service does: it lets the last of two equal members win and goes 128 levels deep.
//! This visitor refuses both while it builds the value, so the cost is one look at the map that is being filled.

use std::cell::Cell;
use std::fmt;

use callboard_domain::Error;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// The depth to which objects and lists may nest.
pub const MAX_DEPTH: usize = 64;

/// The JSON value that `bytes` hold.
///
/// # Errors
///
/// [`Error::InvalidJson`] for anything but one JSON value: an empty body, a byte-order mark, bytes
/// that are not UTF-8, a member given twice in one object, a lone surrogate, a number too large
/// for a double, text after the value, or more than [`MAX_DEPTH`] levels.
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let text = text_of(bytes).map_err(invalid)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let depth = Cell::new(0);
    let value = Strict { depth: &depth }.deserialize(&mut deserializer).map_err(explain)?;
    deserializer.end().map_err(explain)?;
    Ok(value)
}

/// The text of a document in any format, or its fault.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str, String> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("it begins with a byte-order mark; save it as UTF-8 without one".to_owned());
    }
    if let Some(encoding) = wide(bytes) {
        return Err(format!("it is {encoding}; save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        format!("no UTF-8 at byte {}; save it as UTF-8", error.valid_up_to() + 1)
    })?;
    if text.trim_ascii().is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

/// The encoding of a text in units of several bytes, by its mark or by the zeros of its first character.
#[must_use]
pub fn wide(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..]
        | [0, 0, 0xfe, 0xff, ..]
        | [0, 0, 0, 1..=255, ..]
        | [1..=255, 0, 0, 0, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 1..=255, ..] | [1..=255, 0, ..] => Some("UTF-16"),
        _ => None,
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::InvalidJson(what.into())
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn explain(error: serde_json::Error) -> Error {
    if error.is_eof() {
        let (line, column) = (error.line(), error.column());
        return invalid(format!("it ends too early at line {line} column {column}"));
    }
    invalid(error.to_string())
}

/// Builds a value; `depth` is the number of containers around it.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: &'a Cell<usize>,
}

impl Strict<'_> {
    fn enter<E: de::Error>(self) -> Result<(), E> {
        self.depth.set(self.depth.get() + 1);
        if self.depth.get() > MAX_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    fn leave(self) {
        self.depth.set(self.depth.get() - 1);
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        self.leave();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match object.entry(name) {
                Entry::Vacant(vacant) => {
                    vacant.insert(members.next_value_seed(self)?);
                }
                Entry::Occupied(taken) => {
                    let name: String = taken.key().chars().take(64).collect();
                    return Err(de::Error::custom(format!("{name:?} is given twice")));
                }
            }
        }
        self.leave();
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        match parse(bytes) {
            Err(Error::InvalidJson(what)) => what,
            other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(bytes)),
        }
    }

    #[test]
    fn members_keep_their_order_and_numbers_their_value() {
        let text =
            r#"{"b":1,"a":[-2,18446744073709551615,0.1,1e-7,true,null,"\ud83d\ude00"],"c":{}}"#;
        let value = parse(text.as_bytes()).expect("valid");
        assert_eq!(
            value.to_string(),
            r#"{"b":1,"a":[-2,18446744073709551615,0.1,1e-7,true,null,"😀"],"c":{}}"#
        );
    }

    #[test]
    fn what_the_service_does_not_take_is_refused_by_name_and_place() {
        for (bytes, says) in [
            (&b""[..], "it is empty"),
            (b" \r\n\t ", "it is empty"),
            (b"\xef\xbb\xbf{}", "it begins with a byte-order mark; save it as UTF-8 without one"),
            (b"{\"a\":\"\xff\"}", "no UTF-8 at byte 7; save it as UTF-8"),
            (b"\"\xed\xa0\x80\"", "no UTF-8 at byte 2; save it as UTF-8"),
            (b"{\0}\0", "it is UTF-16; save it as UTF-8"),
            (b"{\"a\":1,\n \"a\":2}", "\"a\" is given twice at line 2 column 4"),
            (
                b"[{\"x\":{\"a\":1,\"b\":2,\"\\u0061\":3}}]",
                "\"a\" is given twice at line 1 column 27",
            ),
            (br#"{"a":"\ud800"}"#, "unexpected end of hex escape at line 1 column 13"),
            (br#"{"a":"\udc00"}"#, "lone leading surrogate in hex escape at line 1 column 12"),
            (br#"{"\ud800x":1}"#, "unexpected end of hex escape at line 1 column 9"),
            (b"{} x", "trailing characters at line 1 column 4"),
            (b"{}{}", "trailing characters at line 1 column 3"),
            (b"{\"a\":1e400}", "number out of range at line 1 column 10"),
            (b"{\"a\":", "it ends too early at line 1 column 5"),
            (b"[1,]", "trailing comma at line 1 column 4"),
            (b"{'a':1}", "key must be a string at line 1 column 2"),
            (b"[01]", "invalid number at line 1 column 3"),
            (b"[NaN]", "expected value at line 1 column 2"),
            (b"[+1]", "expected value at line 1 column 2"),
            (b"// x\n{}", "expected value at line 1 column 1"),
            (
                b"\"\x01\"",
                "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 2",
            ),
        ] {
            assert_eq!(refusal(bytes), says, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn sixty_four_levels_are_taken_and_sixty_five_are_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(64).as_bytes()).is_ok());
        assert_eq!(
            refusal(nested(65).as_bytes()),
            "nested deeper than 64 levels at line 1 column 66"
        );
        assert_eq!(
            refusal("[".repeat(1_000_000).as_bytes()),
            "nested deeper than 64 levels at line 1 column 65"
        );
        let side_by_side = format!("[{}]", vec![nested(63); 3].join(","));
        assert!(parse(side_by_side.as_bytes()).is_ok());
    }

    #[test]
    fn a_large_object_is_read_in_linear_time() {
        let members: Vec<_> = (0..200_000).map(|n| format!("\"{n}\":0")).collect();
        let value = parse(format!("{{{}}}", members.join(",")).as_bytes()).expect("valid");
        assert_eq!(value.as_object().map(Map::len), Some(200_000));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_exactly(value in any_json()) {
            prop_assert_eq!(parse(value.to_string().as_bytes()), Ok(value.clone()));
            let pretty = serde_json::to_vec_pretty(&value).expect("a value can be written");
            prop_assert_eq!(parse(&pretty), Ok(value));
        }

        #[test]
        fn bytes_are_taken_only_if_serde_json_takes_them_as_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Ok(value) = parse(&bytes) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).ok(), Some(value));
            }
        }

        #[test]
        fn text_like_json_is_taken_only_if_serde_json_takes_it_as_the_same(
            text in r#"[\[\]{}:, "\\ud8c0ab019eE.+\-tfn]{0,40}"#,
        ) {
            match (parse(text.as_bytes()), serde_json::from_str::<Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, theirs),
                (Ok(ours), Err(error)) => prop_assert!(false, "{ours} but {error}"),
                (Err(Error::InvalidJson(what)), Ok(_)) => prop_assert!(what.contains("given twice")),
                (Err(error), _) => prop_assert!(matches!(error, Error::InvalidJson(_))),
            }
        }
    }
}
