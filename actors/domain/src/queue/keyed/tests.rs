use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::Timestamp;
use crate::id::TaskId;
use crate::queue::{Queue, Ready};
use crate::task::{Concurrency, Fairness, Flow, OnConflict};

const AGING: Duration = Duration::from_mins(1);

fn ready(number: u128, flow: impl Into<Option<Flow>>) -> Ready {
    Ready {
        task: TaskId::from_u128(number << 10),
        model: "m".into(),
        priority: 5,
        since: Timestamp::from_millis(u64::try_from(number).expect("small")),
        account: "usr".into(),
        flow: flow.into().map(Into::into),
    }
}

fn fair(key: &str, weight: u8) -> Flow {
    let fairness = Some(Fairness { key: key.into(), weight });
    Flow { concurrency: None, fairness }
}

fn limited(key: &str, limit: u32) -> Flow {
    let on_conflict = OnConflict::Queue;
    let concurrency = Some(Concurrency { key: key.into(), limit, on_conflict });
    Flow { concurrency, fairness: None }
}

fn queue_of(entries: impl IntoIterator<Item = Ready>) -> Queue {
    let mut queue = Queue::new(AGING);
    entries.into_iter().for_each(|entry| queue.push(entry));
    queue
}

fn next(queue: &mut Queue) -> Option<u128> {
    let taken = queue.take_flow(|_| true, |_| true, |_, _| true)?;
    Some(taken.task.as_u128() >> 10)
}

/// The fairness key of the next task.
fn turn(queue: &mut Queue) -> Option<String> {
    let taken = queue.take_flow(|_| true, |_| true, |_, _| true)?;
    taken.flow?.fairness.as_ref().map(|fairness| fairness.key.clone())
}

#[test]
fn a_key_that_comes_late_does_not_wait_behind_the_backlog_of_another() {
    let backlog = (1..=100).map(|number| ready(number, fair("a", 1)));
    let mut queue = queue_of(backlog.chain([ready(101, fair("b", 1)), ready(102, fair("b", 1))]));
    let order: Vec<_> = (0..5).filter_map(|_| next(&mut queue)).collect();
    assert_eq!(order, [1, 101, 2, 102, 3]);
}

#[test]
fn keys_of_another_priority_do_not_take_part_and_tasks_without_keys_keep_their_rank() {
    let urgent = Ready { priority: 9, ..ready(50, fair("b", 1)) };
    let mut queue =
        queue_of([ready(1, fair("a", 1)), ready(2, None), ready(3, fair("a", 1)), urgent]);
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, [50, 1, 2, 3]);
    assert!(queue.is_empty());
}

#[test]
fn a_key_cannot_win_turns_by_being_empty_for_a_moment() {
    let mut queue = queue_of((1..=40).map(|number| ready(number, fair("a", 1))));
    let (mut turns, mut number) = (BTreeMap::new(), 1_000);
    for _ in 0..30 {
        // "b" always has one task, which it submits again as soon as it was taken.
        if turns.get("b").is_none_or(|_| !queue.contains(TaskId::from_u128(number << 10))) {
            number += 1;
            queue.push(ready(number, fair("b", 1)));
        }
        *turns.entry(turn(&mut queue).expect("there are tasks")).or_insert(0) += 1;
    }
    assert_eq!((turns["a"], turns["b"]), (15, 15));
}

#[test]
fn a_key_cannot_save_up_turns_by_coming_late() {
    let mut queue = queue_of((1..=60).map(|number| ready(number, fair("a", 1))));
    (0..20).for_each(|_| drop(turn(&mut queue)));
    (100..120).for_each(|number| queue.push(ready(number, fair("b", 1))));
    let of_b = (0..20).filter_map(|_| turn(&mut queue)).filter(|key| key == "b").count();
    assert_eq!(of_b, 10);
}

#[test]
fn a_task_waits_while_its_key_is_used_up_and_others_go() {
    let mut queue =
        queue_of([ready(1, limited("k", 1)), ready(2, limited("k", 2)), ready(3, None)]);
    let running = RefCell::new(BTreeMap::from([("k".to_owned(), 1_u32)]));
    let take = |queue: &mut Queue| {
        let has_room =
            |key: &str, limit| running.borrow().get(key).copied().unwrap_or_default() < limit;
        let taken = queue.take_flow(|_| true, |_| true, has_room)?;
        Some(taken.task.as_u128() >> 10)
    };
    assert_eq!(take(&mut queue), Some(2), "its own limit has room");
    running.borrow_mut().insert("k".into(), 2);
    assert_eq!(take(&mut queue), Some(3));
    assert_eq!(take(&mut queue), None);
    running.borrow_mut().clear();
    assert_eq!(take(&mut queue), Some(1));
    assert!(queue.is_empty());
}

#[test]
fn a_removed_task_is_not_taken_and_leaves_nothing_behind() {
    let mut queue = queue_of([ready(1, fair("a", 1)), ready(2, fair("b", 3))]);
    assert!(queue.oldest().is_some());
    assert!(queue.remove(TaskId::from_u128(1 << 10)));
    assert!(!queue.remove(TaskId::from_u128(1 << 10)));
    assert_eq!(next(&mut queue), Some(2));
    assert_eq!(queue.len(), 0);
    assert_eq!(next(&mut queue), None);
}

proptest! {
    #[test]
    fn keys_with_a_backlog_get_turns_in_proportion_to_their_weights(
        weights in prop::collection::vec(1_u8..=100, 2..6),
        takes in 1_usize..400,
    ) {
        let mut queue = Queue::new(AGING);
        let mut number = 0;
        for (key, weight) in weights.iter().enumerate() {
            for _ in 0..takes {
                number += 1;
                queue.push(ready(number, fair(&key.to_string(), *weight)));
            }
        }
        let mut turns = vec![0_i64; weights.len()];
        for _ in 0..takes {
            let key: usize = turn(&mut queue).expect("a task").parse().expect("a number");
            turns[key] += 1;
            // After each lease no key is ahead of another by more than a turn of each.
            for (a, wa) in weights.iter().map(|w| i64::from(*w)).enumerate() {
                for (b, wb) in weights.iter().map(|w| i64::from(*w)).enumerate() {
                    prop_assert!(turns[a] * wb - turns[b] * wa <= wa + wb, "{turns:?} of {weights:?}");
                }
            }
        }
    }

    #[test]
    fn every_task_is_taken_once_and_each_key_in_the_order_of_ranks(
        entries in prop::collection::vec((0_usize..4, 1_u8..=10, 1_u8..=5), 0..80),
    ) {
        let keys = [None, Some("a"), Some("b"), Some("c")];
        let entries: Vec<_> = (1..)
            .zip(&entries)
            .map(|(number, (key, priority, weight))| {
                let flow = keys[*key].map(|key| fair(key, *weight));
                Ready { priority: *priority, ..ready(number, flow) }
            })
            .collect();
        let mut queue = queue_of(entries.clone());
        let taken: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        let mut all = taken.clone();
        all.sort_unstable();
        prop_assert_eq!(all, (1..=entries.len() as u128).collect::<Vec<_>>());
        let place = |entry: &Ready| {
            taken.iter().position(|task| *task == entry.task.as_u128() >> 10).expect("taken")
        };
        for a in &entries {
            for b in &entries {
                let fairness = |ready: &Ready| ready.flow.as_ref().map(|flow| flow.fairness.clone());
                let key = |ready: &Ready| fairness(ready).flatten().map(|it| it.key);
                if a.priority == b.priority && key(a) == key(b) && a.task < b.task {
                    prop_assert!(place(a) < place(b), "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn no_task_starves_while_others_keep_coming(
        weights in prop::collection::vec(1_u8..=20, 1..5),
        older in 1_u128..20,
    ) {
        let mut queue = Queue::new(AGING);
        (1..=older).for_each(|number| queue.push(ready(number, fair("old", 1))));
        queue.push(ready(older + 1, None));
        let (mut number, mut takes) = (older + 1, 0_u128);
        let per_round: u128 = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>() + 1;
        loop {
            for (key, weight) in weights.iter().enumerate() {
                number += 1;
                queue.push(ready(number, fair(&key.to_string(), *weight)));
            }
            takes += 1;
            if next(&mut queue) == Some(older + 1) {
                break;
            }
            prop_assert!(takes <= (older + 2) * (per_round + 1), "{takes} leases");
        }
    }
}
