//! The chain of the audit log, and every way to break it.

use super::*;
use crate::chain::Fault;
use crate::id::UserId;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn by() -> By {
    let account = Account::User(UserId::from_u128(1 << 10));
    By { account: Some(account), address: Some([127, 0, 0, 1].into()), ..By::SYSTEM }
}

/// A log of `count` entries and its ends.
fn log(count: u32) -> (Vec<Entry>, Ends) {
    let mut ends = Ends::default();
    let entries = (1..=count).map(|number| {
        let record = Record::new(Action::KeyRevoked, by()).of("key_1").with("name", number);
        let id = AuditId::from_u128(u128::from(number) << 10);
        let entry = Entry::after(ends.whole, id, NOW, record);
        ends.whole = ends.whole.with(&entry);
        entry
    });
    (entries.collect(), ends)
}

fn fault(ends: Ends, entries: &[Entry]) -> Option<(u32, Fault)> {
    ends.verify(entries).err().map(|broken| (broken.number, broken.fault))
}

#[test]
fn the_hashed_text_of_an_entry_is_pinned() {
    let (entries, _) = log(1);
    let expected = concat!(
        r#"{"action":"key.revoked","actor":"usr_00000000000000000000000100","address":"127.0.0.1","#,
        r#""at":"2027-01-15T08:00:00.000Z","details.name":"1","id":"aud_00000000000000000000000100","#,
        r#""number":"1","previous":"0000000000000000000000000000000000000000000000000000000000000000","#,
        r#""target":"key_1"}"#,
    );
    assert_eq!(entries[0].canonical(), expected);
}

#[test]
fn a_whole_log_verifies_and_so_does_one_with_a_trimmed_beginning() {
    let (entries, ends) = log(5);
    assert_eq!(ends.verify(&entries), Ok(()));
    let trimmed = Chain::default().with(&entries[1]);
    assert_eq!(Ends { trimmed, ..ends }.verify(&entries[2..]), Ok(()));
    let all = Ends { trimmed: ends.whole, ..ends };
    assert_eq!(all.verify(&[]), Ok(()));
}

#[test]
fn every_change_breaks_the_log_at_its_place() {
    let (entries, ends) = log(5);
    let broken = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut changed = entries.clone();
        change(&mut changed);
        fault(ends, &changed)
    };
    assert_eq!(broken(&|log| log[2].actor = "usr_2".into()), Some((3, Fault::Changed)));
    assert_eq!(broken(&|log| log[2].address = None), Some((3, Fault::Changed)));
    assert_eq!(broken(&|log| log[2].details.clear()), Some((3, Fault::Changed)));
    assert_eq!(broken(&|log| drop(log.remove(2))), Some((3, Fault::Missing)));
    assert_eq!(broken(&|log| drop(log.remove(0))), Some((1, Fault::Missing)));
    assert_eq!(broken(&|log| drop(log.pop())), Some((5, Fault::Missing)));
    let rewritten = |log: &mut Vec<Entry>| {
        log[2].actor = "usr_2".into();
        log[2].hash = log[2].digest();
    };
    assert_eq!(broken(&rewritten), Some((4, Fault::Unlinked)));
    let last = |log: &mut Vec<Entry>| {
        log[4].actor = "usr_2".into();
        log[4].hash = log[4].digest();
    };
    assert_eq!(broken(&last), Some((5, Fault::WrongEnd)));
}

#[test]
fn identifiers_ascend_with_the_numbers_though_the_clock_went_back() {
    let mut ends = Ends::default();
    let ids = [5_u128, 3, 3, 9].map(|number| {
        let fresh = AuditId::from_u128(number << 10);
        ends.append(fresh, NOW, Record::new(Action::SignedIn, By::SYSTEM)).id.as_u128() >> 10
    });
    assert_eq!((ids, ends.whole.length), ([5, 6, 7, 9], 4));
}

#[test]
fn a_detail_is_cut_and_the_originator_is_named() {
    let record = Record::new(Action::SignInRefused, By::SYSTEM).with("email", "ä".repeat(1_000));
    assert_eq!(record.details["email"].chars().count(), 256);
    let anonymous = By { account: None, ..by() };
    assert_eq!([By::SYSTEM.actor(), anonymous.actor()], ["system", "anonymous"]);
    assert_eq!(by().actor(), "usr_00000000000000000000000100");
}
