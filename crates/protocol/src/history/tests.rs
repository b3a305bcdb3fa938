use callboard_domain::Timestamp;
use callboard_domain::approval::Chain;
use callboard_domain::digest::Digest;
use callboard_domain::id::{ExecutionId, TaskId, UserId};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const TASK: TaskId = TaskId::from_u128(1 << 10);

fn number() -> impl Strategy<Value = u128> {
    // The first 48 bits are milliseconds, the last ten a partition of at most 255.
    (any::<u128>(), any::<u8>())
        .prop_map(|(tail, part)| (tail & ((1 << 127) - 1)) & !0x3ff | u128::from(part))
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis)
}

fn maybe<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(strategy)
}

fn details() -> impl Strategy<Value = Details> {
    let text = || maybe(".{0,12}");
    let hash = || maybe(".{0,4}".prop_map(|text: String| Digest::of(&text)));
    let share = || maybe(0.0..=1.0_f64);
    let user = || maybe(number().prop_map(UserId::from_u128));
    let first = (
        maybe(proptest::sample::select(HoldReason::ALL.as_slice())),
        share(),
        share(),
        maybe(number().prop_map(ExecutionId::from_u128)),
        (text(), maybe(any::<u16>())),
    );
    let second = (hash(), hash(), hash(), text(), user());
    let third = (user(), text(), maybe(any::<u64>()), maybe(instant()));
    let fourth = (maybe(number().prop_map(TaskId::from_u128)), maybe(any::<u32>()));
    (first, second, third, fourth).prop_map(|(first, second, third, (retry, bulk))| {
        let (why, confidence, threshold, execution, (step, step_item)) = first;
        let (shown, edit, comment, reviewer, from) = second;
        let (to, reason, after_ms, until) = third;
        Details {
            why,
            confidence,
            threshold,
            execution,
            step,
            item: step_item,
            shown,
            edit,
            comment,
            reviewer,
            bulk,
            from,
            to,
            reason,
            after_ms,
            until,
            retry,
        }
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let action = proptest::sample::select(Action::ALL.as_slice());
    (1..=u32::MAX, action, instant(), ".{0,12}", details()).prop_map(
        |(number, action, at, actor, details)| {
            let previous = Digest::of("the one before");
            let hash = Digest::ZERO;
            let version = if number % 2 == 0 { Version::Salted } else { Version::Plain };
            let entry = Entry { version, number, action, at, actor, details, previous, hash };
            Entry { hash: entry.digest(TASK), ..entry }
        },
    )
}

fn read(json: Value) -> Result<Entry, Misread> {
    serde_json::from_value::<EntryBody>(json).expect("an entry's members").entry()
}

proptest! {
    #[test]
    fn nothing_of_an_entry_is_lost_on_the_wire(
        entry in entry(),
        comment in maybe(".{0,12}"),
        edit in maybe(".{0,12}"),
        salt in proptest::option::of(any::<u128>()),
    ) {
        let salt = salt.map(Salt::of);
        let texts = Texts { comment: comment.as_deref(), edit: edit.as_deref(), salt };
        let sent = serde_json::to_string(&EntryBody::of(&entry, texts)).expect("JSON");
        let got: EntryBody = serde_json::from_str(&sent).expect("the same shape");
        prop_assert_eq!(got.entry(), Ok(entry.clone()));
        prop_assert_eq!(got.texts(), Ok(texts));
        prop_assert_eq!(got.entry().expect("an entry").digest(TASK), entry.hash);
    }

    #[test]
    fn a_changed_member_is_refused_or_changes_the_hash(entry in entry(), which in any::<usize>()) {
        let texts = Texts { comment: Some("said"), edit: Some("written"), salt: None };
        let mut json = serde_json::to_value(EntryBody::of(&entry, texts)).expect("JSON");
        // A verifier compares each text that no hash of the entry covers with the text's own hash.
        let covered: Vec<String> = json
            .as_object()
            .expect("an object")
            .keys()
            .filter(|name| !["comment", "reason", "modifiedOutput", "hash"].contains(&name.as_str()))
            .cloned()
            .collect();
        let name = &covered[which % covered.len()];
        if name == "details" {
            json[name]["stepId"] = "another".into();
            json[name]["reason"] = "another".into();
        } else {
            json[name] = match &json[name] {
                Value::Number(_) if name == "number" => 0.into(),
                Value::Number(_) if name == "version" => 1.into(),
                Value::Number(_) => 2.into(),
                Value::Bool(flag) => (!flag).into(),
                Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                    "another".into()
                }
            };
        }
        let seen = read(json);
        let unnoticed = seen.as_ref().is_ok_and(|seen| seen.digest(TASK) == entry.hash);
        prop_assert!(!unnoticed, "{name}: {seen:?}");
    }
}

#[test]
fn entries_are_shown_as_the_specification_shows_them() {
    let details = Details {
        why: Some(HoldReason::BelowThreshold),
        confidence: Some(0.71),
        threshold: Some(0.85),
        step: Some("analyze".into()),
        shown: Some(Digest::of("the output")),
        until: Some(Timestamp::from_millis(60_000)),
        ..Details::default()
    };
    let pending = sealed(1, Action::Pending, details, Digest::ZERO);
    let shown = serde_json::to_value(EntryBody::of(&pending, Texts::default())).expect("JSON");
    assert_eq!(
        shown,
        json!({
            "number": 1, "action": "pending", "timestamp": "1970-01-01T00:00:00.000Z",
            "actor": "system", "confidence": 0.71,
            "details": {"threshold": 0.85, "why": "below_threshold", "stepId": "analyze",
                        "timeoutAt": "1970-01-01T00:01:00.000Z"},
            "outputHash": Digest::of("the output").to_string(),
            "previousHash": Digest::ZERO.to_string(), "hash": pending.hash.to_string(),
        })
    );

    let to = UserId::from_u128(3 << 10);
    let assigned = Details { to: Some(to), ..Details::default() };
    let assigned = sealed(2, Action::Assigned, assigned, pending.hash);
    let shown = serde_json::to_value(EntryBody::of(&assigned, Texts::default())).expect("JSON");
    assert_eq!(shown["assignedTo"], to.to_string());
    assert_eq!(shown["to"], Value::Null);
    assert_eq!(shown["details"], json!({"assignmentMethod": "least_loaded"}));

    let no = Details { comment: Some(Digest::of("wrong")), ..Details::default() };
    let no = sealed(3, Action::Rejected, no, assigned.hash);
    let texts = Texts { comment: Some("wrong"), edit: None, salt: None };
    let shown = serde_json::to_value(EntryBody::of(&no, texts)).expect("JSON");
    assert_eq!((&shown["reason"], &shown["comment"]), (&json!("wrong"), &Value::Null));

    let chain = Chain { length: 3, head: no.hash };
    assert_eq!(chain.verify(TASK, &[pending, assigned, no]), Ok(()));
}

#[test]
fn an_entry_that_contradicts_itself_is_refused() {
    let edit = Details { edit: Some(Digest::of("better")), ..Details::default() };
    let approved = sealed(1, Action::Approved, edit, Digest::ZERO);
    let texts = Texts { comment: None, edit: Some("better"), salt: None };
    let shown = serde_json::to_value(EntryBody::of(&approved, texts)).expect("JSON");
    let with = |name: &str, value: Value| {
        let mut shown = shown.clone();
        shown[name] = value;
        read(shown)
    };
    assert_eq!(read(shown.clone()), Ok(approved));
    assert_eq!(with("wasModified", false.into()), Err(Misread::Contradiction));
    assert_eq!(with("assignedTo", TASK.to_string().into()), Err(Misread::Malformed("to")));
    assert_eq!(
        with("claimedUntil", "2026-01-01T00:00:00.000Z".into()),
        Err(Misread::Contradiction)
    );
    // The same instant in other words is another text than the one that was hashed.
    assert_eq!(with("timestamp", "1970-01-01T00:00:00Z".into()), Err(Misread::Contradiction));
    assert_eq!(with("action", "forgotten".into()), Err(Misread::Malformed("action")));
    assert_eq!(with("hash", "0".into()), Err(Misread::Malformed("hash")));
    // A newer server may send more members.
    assert!(with("colour", "red".into()).is_ok());
}

fn sealed(number: u32, action: Action, details: Details, previous: Digest) -> Entry {
    let (at, actor) = (Timestamp::from_millis(0), "system".to_owned());
    let version = Version::Plain;
    let entry = Entry { version, number, action, at, actor, details, previous, hash: Digest::ZERO };
    Entry { hash: entry.digest(TASK), ..entry }
}
