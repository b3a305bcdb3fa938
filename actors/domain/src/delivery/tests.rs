//! Sent, tried again, given up, dropped.

use proptest::prelude::*;

use super::*;
use crate::approval::MailCause;
use crate::id::UserId;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const MIDDLE: Jitter = Jitter(u16::MAX / 2 + 1);

fn fresh() -> Delivery {
    let mail = Mail {
        id: DeliveryId::from_u128(1 << 10),
        task: TaskId::from_u128(2 << 10),
        to: UserId::from_u128(3 << 10),
        cause: MailCause::Assigned,
    };
    Delivery::created(Cargo::Mail(mail), NOW).next
}

fn failed(permanent: bool) -> Event {
    Event::Failed { permanent, message: "no".into(), jitter: MIDDLE }
}

impl Delivery {
    fn at(&self, event: Event, now: Timestamp) -> Step<Self> {
        self.transition(event, now).expect("the event applies")
    }
}

#[test]
fn it_is_sent_at_once_and_then_over() {
    let under_way = fresh().at(Event::TimePassed, NOW);
    assert_eq!((under_way.next.attempts, &*under_way.effects), (1, &[Effect::Send][..]));
    let step = under_way.next.at(Event::Sent, NOW);
    assert_eq!(step.next.state, State::Delivered { at: NOW });
    assert_eq!(step.effects, [Effect::ForgetWake]);
    assert_eq!(step.next.outstanding(), []);
    assert_eq!(step.next.transition(Event::TimePassed, NOW), Err(Refusal::Finished));
}

#[test]
fn one_that_was_under_way_in_a_crash_is_due_again() {
    let under_way = fresh().at(Event::TimePassed, NOW).next;
    assert_eq!(under_way.outstanding(), [Effect::WakeAt(NOW)]);
    assert_eq!(under_way.at(Event::TimePassed, NOW).effects, [Effect::Send]);
}

#[test]
fn a_mail_is_tried_eight_times_in_about_twenty_hours() {
    let (mut delivery, mut now) = (fresh(), NOW);
    let mut waits = Vec::new();
    loop {
        let step = delivery.at(Event::TimePassed, now).next.at(failed(false), now);
        delivery = step.next;
        let State::Pending { next_attempt_at } = delivery.state else { break };
        assert_eq!(step.effects, [Effect::WakeAt(next_attempt_at)]);
        assert_eq!(delivery.transition(Event::TimePassed, now), Err(Refusal::NotDue));
        waits.push(next_attempt_at.since(now).as_secs());
        now = next_attempt_at;
    }
    assert_eq!(waits, [10, 60, 300, 1_800, 7_200, 21_600, 43_200]);
    assert_eq!((delivery.state, delivery.attempts), (State::Dead { at: now }, 8));
    assert_eq!(delivery.last_error.as_deref(), Some("no"));
}

#[test]
fn a_refusal_for_good_ends_it() {
    let step = fresh().at(Event::TimePassed, NOW).next.at(failed(true), NOW);
    assert_eq!(step.next.state, State::Dead { at: NOW });
}

#[test]
fn what_need_not_be_told_is_dropped() {
    let step = fresh().at(Event::TimePassed, NOW).next.at(Event::NotNeeded, NOW);
    assert_eq!(step.next.state, State::Dropped { at: NOW });
    assert_eq!(step.effects, [Effect::ForgetWake]);
}

#[test]
fn a_servers_words_are_clipped_to_what_a_row_can_hold() {
    let message = "\u{7}".repeat(100_000);
    let step = fresh().at(Event::Failed { permanent: false, message, jitter: MIDDLE }, NOW);
    assert!(serde_json::to_string(&step.next).expect("JSON").len() < 3_000);
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::TimePassed),
        1 => Just(Event::Sent),
        1 => Just(Event::NotNeeded),
        4 => (prop::bool::weighted(0.1), any::<u16>()).prop_map(|(permanent, jitter)| {
            Event::Failed { permanent, message: "no".into(), jitter: Jitter(jitter) }
        }),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws_of_a_machine(
        history in prop::collection::vec((events(), 0_u64..60_000_000), 0..60),
    ) {
        let (mut delivery, mut now) = (fresh(), NOW);
        for (event, wait) in history {
            now = now.after(Duration::from_millis(wait));
            let before = delivery.clone();
            if let Ok(step) = delivery.transition(event.clone(), now) {
                prop_assert!(!before.is_finished(), "finished is final");
                prop_assert_eq!(&before.transition(event, now), &Ok(step.clone()), "replay agrees");
                delivery = step.next;
            }
            prop_assert!(delivery.attempts <= before.attempts + 1);
            prop_assert_eq!(delivery.is_finished(), delivery.outstanding().is_empty());
            let row = serde_json::to_string(&delivery).expect("it is written");
            prop_assert_eq!(&serde_json::from_str::<Delivery>(&row).expect("and read"), &delivery);
        }
    }

    #[test]
    fn a_wait_stays_within_a_fifth_of_its_middle(failures in 0_u32..7, jitter: u16) {
        let delivery = Delivery { attempts: failures + 1, ..fresh() };
        let wait = delivery.wait(Jitter(jitter)).expect("attempts remain");
        let middle = MAIL_WAITS[usize::try_from(failures).expect("small")];
        prop_assert!(wait >= middle * 4 / 5 && wait <= middle * 6 / 5);
    }
}
