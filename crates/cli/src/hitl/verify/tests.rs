use callboard_domain::Timestamp;
use callboard_domain::approval::Details;
use callboard_domain::approval::history::Version;
use callboard_domain::id::UserId;
use callboard_domain::task::HoldReason;
use callboard_protocol::history::Texts;

use super::*;

const TASK: TaskId = TaskId::from_u128(1 << 10);

/// A history from an honest server.
struct History {
    entries: Vec<(Entry, Texts<'static>)>,
}

impl History {
    /// An output that was held, assigned, and approved with another text.
    fn approved() -> Self {
        let shown = Some(Digest::of("the output"));
        let pending = Details {
            why: Some(HoldReason::BelowThreshold),
            confidence: Some(0.71),
            threshold: Some(0.85),
            shown,
            until: Some(Timestamp::from_millis(60_000)),
            ..Details::default()
        };
        let to = Some(UserId::from_u128(3 << 10));
        let approved = Details {
            shown,
            edit: Some(Digest::of("better")),
            comment: Some(Digest::of("nearly")),
            reviewer: Some("usr_ann".into()),
            ..Details::default()
        };
        let said = Texts { comment: Some("nearly"), edit: Some("better"), salt: None };
        let mut history = Self { entries: Vec::new() };
        history.add(Action::Pending, pending, Texts::default());
        history.add(Action::Assigned, Details { to, ..Details::default() }, Texts::default());
        history.add(Action::Approved, approved, said);
        history
    }

    fn add(&mut self, action: Action, details: Details, texts: Texts<'static>) {
        let (at, actor) = (Timestamp::from_millis(7), "usr_ann".to_owned());
        let number = u32::try_from(self.entries.len() + 1).unwrap();
        let (previous, hash) = (self.head(), Digest::ZERO);
        let entry =
            Entry { version: Version::Plain, number, action, at, actor, details, previous, hash };
        self.entries.push((Entry { hash: entry.digest(TASK), ..entry }, texts));
    }

    fn head(&self) -> Digest {
        self.entries.last().map_or(Digest::ZERO, |(entry, _)| entry.hash)
    }

    /// The hashes anew, as a writer of the database would make them.
    fn resealed(mut self) -> Self {
        for (action, details, texts) in std::mem::take(&mut self.entries)
            .into_iter()
            .map(|(entry, texts)| (entry.action, entry.details, texts))
        {
            self.add(action, details, texts);
        }
        self
    }

    fn item(&self) -> Value {
        let decision = json!({"status": "approved", "at": "1970-01-01T00:00:00.007Z",
                              "by": "usr_ann", "wasModified": true, "comment": "nearly",
                              "modifiedOutput": "better"});
        json!({
            "taskId": TASK.to_string(), "status": "approved", "output": "the output",
            "decision": decision,
            "history": {"length": self.entries.len(), "hash": self.head().to_string()},
        })
    }

    fn json(&self) -> Vec<Value> {
        self.entries
            .iter()
            .map(|(entry, texts)| serde_json::to_value(EntryBody::of(entry, *texts)).unwrap())
            .collect()
    }
}

/// The result after the entries and the item were tampered with.
fn found(tamper: impl FnOnce(&mut Vec<Value>, &mut Value)) -> Option<(u32, String)> {
    let honest = History::approved();
    let (mut entries, mut item) = (honest.json(), honest.item());
    tamper(&mut entries, &mut item);
    let broken = check(&TASK.to_string(), &item, &entries).err();
    broken.map(|Broken { number, why }| (number, why))
}

#[track_caller]
fn assert_found((number, why): (u32, &str), tamper: impl FnOnce(&mut Vec<Value>, &mut Value)) {
    let broken = found(tamper).expect("it is found");
    assert_eq!(broken.0, number, "{broken:?}");
    assert!(broken.1.contains(why), "{broken:?}");
}

#[test]
fn an_honest_history_is_ok() {
    assert_eq!(found(|_, _| {}), None);
    let honest = History::approved();
    let finding = Finding::of(&TASK.to_string(), &honest.item(), &honest.json().into());
    assert_eq!(
        finding.json(),
        json!({"taskId": TASK.to_string(), "ok": true, "entries": 3, "result": "ok",
               "hash": honest.head().to_string()})
    );
}

#[test]
fn the_first_entry_that_was_changed_dropped_or_added_is_named() {
    assert_found((1, "was changed"), |entries, _| entries[0]["confidence"] = 0.99.into());
    assert_found((3, "was changed"), |entries, _| entries[2]["actor"] = "usr_bob".into());
    assert_found((2, "is missing"), |entries, _| drop(entries.remove(1)));
    assert_found((3, "is missing"), |entries, _| drop(entries.pop()));
    assert_found((1, "is missing"), |entries, _| entries.clear());
    assert_found((4, "is missing"), |entries, _| entries.push(entries[2].clone()));
    assert_found((2, "was changed"), |entries, _| entries[1]["assignedTo"] = Value::Null);
    assert_found((2, "contradicts itself"), |entries, _| {
        entries[1]["details"]["assignmentMethod"] = "chosen".into();
    });
    assert_found((2, "cannot be read"), |entries, _| entries[1]["hash"] = "0".into());
    assert_found((2, "cannot be read"), |entries, _| entries[1] = "nothing".into());
    assert_found((2, "does not contain the hash"), |entries, _| {
        entries[1]["previousHash"] = Digest::ZERO.to_string().into();
    });
}

#[test]
fn of_several_faults_the_first_is_told() {
    assert_found((1, "was changed"), |entries, _| {
        entries[0]["actor"] = "usr_bob".into();
        entries[2]["hash"] = "0".into();
    });
    assert_found((1, "another output"), |entries, item| {
        item["output"] = "the outcome".into();
        entries.pop();
    });
}

#[test]
fn a_text_that_is_not_the_one_that_was_hashed_is_found() {
    assert_found((1, "another output"), |_, item| item["output"] = "the outcome".into());
    assert_found((3, "another comment"), |entries, _| entries[2]["comment"] = "no".into());
    assert_found((3, "not the text"), |entries, _| entries[2]["comment"] = Value::Null);
    assert_found((3, "another edit"), |entries, _| entries[2]["modifiedOutput"] = "worse".into());
    let mut history = History::approved();
    history.entries[0].1 = Texts { comment: Some("smuggled in"), edit: None, salt: None };
    let broken = check(&TASK.to_string(), &history.item(), &history.json()).unwrap_err();
    assert_eq!((broken.number, broken.why.contains("no hash")), (1, true), "{broken:?}");
}

#[test]
fn an_item_that_does_not_match_its_history_is_found() {
    assert_found((3, "not the last"), |_, item| item["history"]["length"] = 2.into());
    assert_found((0, "how long"), |_, item| item["history"] = Value::Null);
    assert_found((0, "another one"), |_, item| item["taskId"] = "dt_task_1".into());
    assert_found((3, "another decision"), |_, item| item["decision"]["by"] = "usr_bob".into());
    assert_found((3, "another decision"), |_, item| item["decision"] = Value::Null);
    assert_found((3, "another decision"), |_, item| item["status"] = "rejected".into());
    let (mut entries, mut item) = (History::approved().json(), History::approved().item());
    entries.truncate(2);
    item["history"] = json!({"length": 2, "hash": entries[1]["hash"]});
    let broken = check(&TASK.to_string(), &item, &entries).unwrap_err();
    assert!(broken.why.contains("knows nothing"), "{broken:?}");
    item["decision"] = Value::Null;
    assert!(check(&TASK.to_string(), &item, &entries).is_err(), "it says approved");
    item["status"] = "assigned".into();
    assert_eq!(check(&TASK.to_string(), &item, &entries), Ok(()));
}

#[test]
fn a_history_that_was_written_anew_as_a_whole_ends_with_another_hash() {
    let mut forged = History::approved();
    forged.entries[0].0.details.confidence = Some(0.99);
    let forged = forged.resealed();
    let item = History::approved().item();
    let broken = check(&TASK.to_string(), &item, &forged.json()).unwrap_err();
    assert_eq!((broken.number, broken.why.as_str()), (3, "is not the last entry on record"));
}

#[test]
fn the_history_of_a_removed_item_is_checked_without_its_texts() {
    let mut entries = History::approved().json();
    for entry in &mut entries {
        for text in ["comment", "reason", "modifiedOutput"] {
            entry.as_object_mut().unwrap().remove(text);
        }
    }
    let task = TASK.to_string();
    let finding = Finding::of_removed(&task, &entries.clone().into());
    assert_eq!((finding.entries, finding.broken.as_ref()), (3, None));
    assert_eq!(finding.json()["result"], "ok, item removed");
    let mut shorter = entries.clone();
    shorter.remove(1);
    assert!(Finding::of_removed(&task, &shorter.into()).broken.is_some());
    entries[0]["actor"] = "usr_bob".into();
    assert!(Finding::of_removed(&task, &entries.into()).broken.is_some());
}
