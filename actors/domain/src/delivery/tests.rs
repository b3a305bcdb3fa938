//! Sent, tried again, given up, dropped.

use proptest::prelude::*;

use super::*;
use crate::approval::{Mail, MailCause};
use crate::id::{DeliveryId, TaskId, UserId};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const MIDDLE: Jitter = Jitter(u16::MAX / 2 + 1);

fn fresh() -> Delivery {
    let mail = Mail {
        id: DeliveryId::from_u128(1 << 10),
        task: TaskId::from_u128(2 << 10),
        to: UserId::from_u128(3 << 10),
        cause: MailCause::Assigned,
    };
    Delivery::created(Notification::Mail(mail), NOW).next
}

fn webhook() -> Delivery {
    let webhook = Webhook {
        id: DeliveryId::from_u128(1 << 10),
        task: TaskId::from_u128(2 << 10),
        event: EventName::TaskCompleted,
        url: "https://example.com/hook".into(),
    };
    Delivery::created(Notification::Webhook(webhook), NOW).next
}

/// The waits that `[webhooks] retry_seconds` is shipped with.
const SHIPPED: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

fn waits_of(notification: &Notification) -> Arc<[Duration]> {
    match notification {
        Notification::Mail(_) | Notification::KeyEnd(_) => MAIL_WAITS.into(),
        Notification::Webhook(_) | Notification::ExecutionWebhook(_) => {
            SHIPPED.iter().map(|seconds| Duration::from_secs(*seconds)).collect()
        }
    }
}

fn failing(delivery: &Delivery, failure: Failure) -> Event {
    Event::Failed { failure, waits: waits_of(&delivery.notification), jitter: MIDDLE }
}

fn no(permanent: bool) -> Failure {
    Failure { permanent, message: "no".into(), ..Failure::default() }
}

/// Attempts and failures until it is over: the waits between, in seconds, and the last state.
fn failed_out(mut delivery: Delivery, mut now: Timestamp) -> (Vec<u64>, Delivery, Timestamp) {
    let mut waits = Vec::new();
    loop {
        let step = delivery.at(Event::TimePassed, now).next;
        let step = step.at(failing(&step, no(false)), now);
        delivery = step.next;
        let State::Pending { next_attempt_at } = delivery.state else {
            assert_eq!(step.facts, [Fact::Failed]);
            return (waits, delivery, now);
        };
        assert_eq!((step.effects, step.facts), (vec![Effect::WakeAt(next_attempt_at)], vec![]));
        assert_eq!(delivery.transition(Event::TimePassed, now), Err(Refusal::NotDue));
        waits.push(next_attempt_at.since(now).as_secs());
        now = next_attempt_at;
    }
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
    let step = under_way.next.at(Event::Sent { status: None }, NOW);
    assert_eq!(step.facts, [Fact::Delivered]);
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
    let (waits, delivery, now) = failed_out(fresh(), NOW);
    assert_eq!(waits, [10, 60, 300, 1_800, 7_200, 21_600, 43_200]);
    assert_eq!((delivery.state, delivery.attempts), (State::Dead { at: now }, 8));
    assert_eq!(delivery.last_error.as_deref(), Some("no"));
}

#[test]
fn a_webhook_is_tried_once_more_than_its_schedule_is_long() {
    let (waits, delivery, now) = failed_out(webhook(), NOW);
    assert_eq!(waits, SHIPPED);
    assert_eq!((delivery.state, delivery.attempts), (State::Dead { at: now }, 10));
}

#[test]
fn a_refusal_for_good_ends_it() {
    let gone = Failure { status: Some(410), ..no(true) };
    let under_way = webhook().at(Event::TimePassed, NOW).next;
    let step = under_way.at(failing(&under_way, gone), NOW);
    assert_eq!((step.next.state, step.facts), (State::Dead { at: NOW }, vec![Fact::Failed]));
    assert_eq!(step.next.last_status, Some(410));
}

#[test]
fn a_receiver_that_asks_for_time_gets_it_up_to_a_day() {
    let wait = |asked: u64| {
        let retry_after = Some(Duration::from_secs(asked));
        let failure = Failure { status: Some(503), retry_after, ..no(false) };
        let under_way = webhook().at(Event::TimePassed, NOW).next;
        let next = under_way.at(failing(&under_way, failure), NOW).next;
        assert_eq!(next.last_status, Some(503));
        let State::Pending { next_attempt_at } = next.state else { panic!("{next:?}") };
        next_attempt_at.since(NOW).as_secs()
    };
    assert_eq!((wait(0), wait(4)), (5, 5), "never sooner than the schedule");
    assert_eq!((wait(6), wait(3_600)), (6, 3_600));
    assert_eq!(wait(10_000_000), 86_400);
}

#[test]
fn a_receiver_that_asks_for_time_at_the_last_attempt_gets_none() {
    let asks = Failure { retry_after: Some(Duration::from_mins(1)), ..no(false) };
    let last = Delivery { attempts: 9, ..webhook() }.at(Event::TimePassed, NOW).next;
    let step = last.at(failing(&last, asks), NOW);
    assert_eq!(step.next.state, State::Dead { at: NOW });
}

#[test]
fn what_need_not_be_told_is_dropped_with_the_reason() {
    let not_needed = Event::NotNeeded { message: "decided".into() };
    let step = fresh().at(Event::TimePassed, NOW).next.at(not_needed, NOW);
    assert_eq!((step.next.state, step.facts), (State::Dropped { at: NOW }, vec![]));
    assert_eq!(
        (step.effects, step.next.last_error.as_deref()),
        (vec![Effect::ForgetWake], Some("decided"))
    );
}

#[test]
fn a_redelivery_is_the_same_delivery_with_the_whole_schedule_before_it() {
    let (_, dead, now) = failed_out(webhook(), NOW);
    let step = dead.at(Event::Redelivered, now);
    assert_eq!(step.next.state, State::Pending { next_attempt_at: now });
    assert_eq!((step.facts, step.effects), (vec![Fact::Revived], vec![Effect::Begin]));
    assert_eq!((&step.next.notification, step.next.attempts), (&dead.notification, 10));
    let (waits, dead, _) = failed_out(step.next, now);
    assert_eq!((waits.as_slice(), dead.attempts), (&SHIPPED[..], 20));

    let under_way = webhook().at(Event::TimePassed, NOW).next;
    let delivered = under_way.at(Event::Sent { status: Some(204) }, NOW).next;
    assert_eq!((delivered.status(), delivered.last_status), (Status::Delivered, Some(204)));
    let again = delivered.at(Event::Redelivered, now).next.at(Event::TimePassed, now);
    assert_eq!((again.next.attempts, again.effects), (2, vec![Effect::Send]));
}

#[test]
fn a_redelivery_between_attempts_is_due_at_once_and_one_under_way_is_refused() {
    let under_way = webhook().at(Event::TimePassed, NOW).next;
    assert_eq!(under_way.transition(Event::Redelivered, NOW), Err(Refusal::UnderWay));
    let waiting = under_way.at(failing(&under_way, no(false)), NOW).next;
    let step = waiting.at(Event::Redelivered, NOW);
    assert_eq!(step.next.state, State::Pending { next_attempt_at: NOW });
    assert_eq!((step.facts, step.effects), (vec![], vec![Effect::ForgetWake, Effect::Begin]));
}

#[test]
fn a_receivers_words_are_clipped_to_what_a_row_can_hold() {
    let failure = Failure { message: "\u{7}".repeat(100_000), ..Failure::default() };
    let step = fresh().at(failing(&fresh(), failure), NOW);
    assert!(serde_json::to_string(&step.next).expect("JSON").len() < 3_000);
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    prop_oneof![Just(fresh()), Just(webhook())]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::TimePassed),
        1 => Just(Event::Sent { status: Some(200) }),
        1 => Just(Event::NotNeeded { message: "over".into() }),
        1 => Just(Event::Redelivered),
        4 => (prop::bool::weighted(0.1), any::<u16>()).prop_map(|(permanent, jitter)| {
            let (failure, waits) = (no(permanent), MAIL_WAITS.into());
            Event::Failed { failure, waits, jitter: Jitter(jitter) }
        }),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws_of_a_machine(
        first in deliveries(),
        history in prop::collection::vec((events(), 0_u64..60_000_000), 0..60),
    ) {
        let (mut delivery, mut now) = (first, NOW);
        for (event, wait) in history {
            now = now.after(Duration::from_millis(wait));
            let before = delivery.clone();
            if let Ok(step) = delivery.transition(event.clone(), now) {
                let revived = event == Event::Redelivered;
                prop_assert!(!before.is_finished() || revived, "finished is final");
                prop_assert_eq!(&before.transition(event, now), &Ok(step.clone()), "replay agrees");
                delivery = step.next;
            }
            prop_assert_eq!(&before.notification, &delivery.notification);
            prop_assert!((before.attempts..=before.attempts + 1).contains(&delivery.attempts));
            prop_assert_eq!(delivery.is_finished(), delivery.outstanding().is_empty());
            let row = serde_json::to_string(&delivery).expect("it is written");
            prop_assert_eq!(&serde_json::from_str::<Delivery>(&row).expect("and read"), &delivery);
        }
    }

    #[test]
    fn a_wait_stays_within_a_fifth_of_its_middle(failures in 0_u32..7, jitter: u16) {
        for fresh in [fresh(), webhook()] {
            let waits = waits_of(&fresh.notification);
            let delivery = Delivery { attempts: failures + 1, ..fresh };
            let wait = delivery.wait(&waits, None, Jitter(jitter)).expect("attempts remain");
            let middle = waits[usize::try_from(failures).expect("small")];
            prop_assert!(wait >= middle * 4 / 5 && wait <= middle * 6 / 5);
        }
    }
}
