use proptest::prelude::*;

use super::history::{Broken, Fault};
use super::*;
use crate::retry;
use crate::task::{Channels, Gate, Origin};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const HALF: Timestamp = Timestamp::from_millis(1_030_000);
const END: Timestamp = Timestamp::from_millis(1_060_000);
const POLICY: Policy = Policy { escalate_after: 0.5, rejects: false, four_eyes: false };
const TASK: TaskId = TaskId::from_u128(1 << 10);
const RETRY: TaskId = TaskId::from_u128(2 << 10);
const ANN: UserId = UserId::from_u128(3 << 10);
const ADMIN: UserId = UserId::from_u128(4 << 10);

fn spec(notify: Channels) -> Arc<task::Spec> {
    Arc::new(task::Spec {
        id: TASK,
        account: "usr_1".into(),
        model: "m".into(),
        queue: "default".into(),
        priority: 5,
        timeout_ms: 60_000,
        tags: vec![],
        max_tokens: None,
        temperature: None,
        sampling: None,
        callback_url: None,
        labels: None,
        gate: Some(Gate { timeout_ms: 60_000, threshold: Some(0.85), notify, ..Gate::ALWAYS }),
        retry: retry::Policy::default(),
        origin: Origin::default(),
        checked: false,
        routing: None,
        flow: None,
        start_at: None,
    })
}

fn opened(policy: Policy, asked: Assignee) -> Step<Approval> {
    let held = HeldOutput {
        why: HoldReason::BelowThreshold,
        confidence: Some(0.71),
        method: None,
        model: "m",
        output: "the output",
        salt: None,
        way: ReviewWay::default(),
    };
    Approval::opened(spec(Channels { email: true, dashboard: false }), &held, policy, asked, NOW)
}

const fn asked(reviewer: UserId) -> Assignee {
    Assignee { reviewer: Some(reviewer), by_mail: true }
}

const fn mail(to: UserId, cause: MailCause) -> Effect {
    Effect::Notify(to, cause)
}

fn user(name: &str) -> Decider {
    Decider { account: name.into(), reviewer: None, bulk: None }
}

fn approved(name: &str) -> Event {
    Event::Approved { by: user(name), edit: None, comment: None }
}

fn rejected(name: &str, retry: Option<TaskId>) -> Event {
    Event::Rejected { by: user(name), reason: Digest::of("no"), retry }
}

const fn passed(admin: UserId) -> Event {
    Event::TimePassed { asked: asked(admin) }
}

fn actions(step: &Step<Approval>) -> Vec<Action> {
    step.facts.iter().map(|entry| entry.action).collect()
}

impl Approval {
    fn at(&self, event: Event, now: Timestamp) -> Step<Self> {
        self.transition(event, now).expect("the event applies")
    }

    fn refused(&self, event: Event, now: Timestamp) -> Refusal {
        self.transition(event, now).expect_err("the event is refused")
    }
}

#[test]
fn it_opens_with_a_reviewer_who_is_written_to() {
    let step = opened(POLICY, asked(ANN));
    assert_eq!(actions(&step), [Action::Pending, Action::Assigned]);
    assert_eq!(step.next.state, State::Assigned);
    let expected =
        [Effect::WakeAt(HALF), Effect::Assign(Some(ANN)), mail(ANN, MailCause::Assigned)];
    assert_eq!(step.effects, expected);
    assert_eq!(step.next.outstanding(), expected[..2]);
}

#[test]
fn a_requested_review_waits_for_a_month_and_the_clock_never_rejects() {
    let held = HeldOutput {
        why: HoldReason::Requested,
        confidence: Some(0.71),
        method: None,
        model: "m",
        output: "the output",
        salt: None,
        way: ReviewWay { field: Some("category".into()), blind: true },
    };
    let spec = spec(Channels { email: true, dashboard: false });
    let hurried = Policy { rejects: true, ..POLICY };
    let step = Approval::opened(spec, &held, hurried, asked(ANN), NOW);
    let end = NOW.after(REQUESTED_TIME);
    assert_eq!(actions(&step), [Action::Pending, Action::Assigned]);
    assert_eq!(step.effects, [Effect::WakeAt(end), Effect::Assign(Some(ANN))]);
    assert!(step.next.is_unawaited() && step.next.is_hidden());
    assert!(Record::from(&step.next).sampled);
    let escalated = step.next.at(passed(ADMIN), end).next;
    assert!(!escalated.rejects_at(end));
    assert_eq!(escalated.at(passed(ADMIN), end).next.state, State::Expired);
    let decided = escalated.at(approved("usr_a"), end).next;
    assert!(!decided.is_hidden());
    let row = serde_json::to_value(&decided.opening).expect("it is JSON");
    assert_eq!(row["asked"], serde_json::json!({"field": "category", "blind": true}));
    assert_eq!(serde_json::from_value::<ReviewRequest>(row).expect("it is read"), decided.opening);
}

#[test]
fn an_answer_that_says_the_same_as_a_hidden_output_is_the_output() {
    let whole = ReviewWay { field: None, blind: true };
    let output = r#"{"category":"order","urgent":false}"#;
    assert_eq!(whole.shown(output), "");
    let answered = |way: &ReviewWay, answer: &str| way.answered(output, answer.into());
    assert_eq!(answered(&whole, r#"{"urgent": false, "category": "order"}"#), output);
    assert_eq!(answered(&whole, "{}"), "{}");
    assert_eq!(whole.answered("order", " order\n".into()), "order");
    let field = ReviewWay { field: Some("category".into()), blind: true };
    assert_eq!(field.shown(output), r#"{"urgent":false}"#);
    for same in
        ["order", "\"order\"", r#"{"category":"order"}"#, r#"{"category":"order","urgent":true}"#]
    {
        assert_eq!(answered(&field, same), output);
    }
    let other = r#"{"category":"question","urgent":false}"#;
    assert_eq!(answered(&field, "question"), other);
    assert_eq!(answered(&field, r#"{"category":"question"}"#), other);
    assert_eq!(field.shown("no object"), "");
    assert_eq!(field.answered("no object", "mine".into()), "mine");
}

#[test]
fn where_nobody_can_be_told_the_history_says_so() {
    let nobody = opened(POLICY, Assignee::default());
    assert_eq!(nobody.next.state, State::Pending);
    assert_eq!(actions(&nobody), [Action::Pending, Action::NotificationSkipped]);
    let no_server = opened(POLICY, Assignee { reviewer: Some(ANN), by_mail: false });
    let expected = [Action::Pending, Action::Assigned, Action::NotificationSkipped];
    assert_eq!(actions(&no_server), expected);
}

#[test]
fn the_first_decision_counts_and_every_other_hears_of_it() {
    let open = opened(POLICY, asked(ANN)).next;
    let step = open.at(approved("usr_a"), HALF);
    assert_eq!(step.next.state, State::Approved);
    assert_eq!(step.effects, [Effect::ForgetWake, Effect::Assign(None)]);
    let first = Refusal::AlreadyDecided { by: "usr_a".into(), at: HALF };
    for late in [approved("usr_b"), rejected("usr_b", Some(RETRY)), passed(ADMIN)] {
        assert_eq!(step.next.refused(late, END), first);
    }
    assert_eq!(step.next.waited(END), Duration::from_secs(30));
}

#[test]
fn a_rejection_may_ask_for_another_try() {
    let open = opened(POLICY, asked(ANN)).next;
    assert_eq!(actions(&open.at(rejected("usr_a", None), NOW)), [Action::Rejected]);
    let step = open.at(rejected("usr_a", Some(RETRY)), NOW);
    assert_eq!(actions(&step), [Action::Rejected, Action::Retried]);
    assert_eq!(step.facts[1].details.retry, Some(RETRY));
}

#[test]
fn what_was_cancelled_cannot_be_decided() {
    let step = opened(POLICY, asked(ANN)).next.at(Event::TaskEnded { by: "usr_9".into() }, NOW);
    assert_eq!((step.next.state, actions(&step)), (State::Cancelled, vec![Action::Cancelled]));
    assert_eq!(step.next.refused(approved("usr_a"), NOW), Refusal::Cancelled);
}

#[test]
fn it_goes_to_an_admin_then_expires_and_can_still_be_decided() {
    let open = opened(POLICY, asked(ANN)).next;
    assert_eq!(open.refused(passed(ADMIN), Timestamp::from_millis(1_029_999)), Refusal::NotDue);
    let escalated = open.at(passed(ADMIN), HALF);
    assert_eq!(actions(&escalated), [Action::Escalated]);
    let details = &escalated.facts[0].details;
    let escalation = (details.from, details.to, details.after_ms);
    assert_eq!(escalation, (Some(ANN), Some(ADMIN), Some(30_000)));
    let expected =
        [Effect::Assign(Some(ADMIN)), Effect::WakeAt(END), mail(ADMIN, MailCause::Escalated)];
    assert_eq!(escalated.effects, expected);
    assert_eq!(escalated.next.refused(passed(ADMIN), HALF), Refusal::NotDue);
    let expired = escalated.next.at(passed(ADMIN), END);
    assert_eq!(actions(&expired), [Action::Expired, Action::Escalated]);
    assert_eq!(
        (expired.next.state, expired.next.state.due_at(&expired.next.opening)),
        (State::Expired, None)
    );
    assert_eq!(expired.next.refused(passed(ADMIN), Timestamp::MAX), Refusal::NotDue);
    assert_eq!(expired.next.at(approved("usr_a"), END).next.state, State::Approved);
}

#[test]
fn after_a_long_sleep_each_timer_fires_once_in_its_order() {
    let late = END.after(Duration::from_hours(1));
    let first = opened(POLICY, asked(ANN)).next.at(passed(ADMIN), late);
    assert_eq!(
        (actions(&first), first.next.state.due_at(&first.next.opening)),
        (vec![Action::Escalated], Some(END))
    );
    let second = first.next.at(passed(ADMIN), late);
    assert_eq!(actions(&second), [Action::Expired, Action::Escalated]);
    assert_eq!(second.next.escalated_at, Some(late));
}

#[test]
fn a_time_out_rejects_where_that_is_the_policy() {
    let policy = Policy { rejects: true, ..POLICY };
    let escalated = opened(policy, asked(ANN)).next.at(passed(ADMIN), HALF).next;
    let step = escalated.at(passed(ADMIN), END);
    assert_eq!(actions(&step), [Action::Expired, Action::Rejected]);
    assert_eq!(step.facts[1].actor, SYSTEM);
    assert_eq!(step.facts[1].details.comment, Some(Digest::of(TIMED_OUT)));
    assert_eq!(step.effects, [Effect::ForgetWake, Effect::Assign(None)]);
}

#[test]
fn a_claim_warns_for_five_minutes_and_bars_nobody() {
    let claim = |name| Event::Claimed { by: user(name) };
    let claimed = opened(POLICY, asked(ANN)).next.at(claim("usr_a"), NOW);
    let until = NOW.after(CLAIM);
    assert_eq!(actions(&claimed), [Action::Claimed]);
    let by = || Refusal::ClaimedBy { by: "usr_a".into(), until };
    assert_eq!(claimed.next.refused(claim("usr_b"), NOW), by());
    assert_eq!(claimed.next.refused(Event::Released { by: user("usr_b") }, NOW), by());
    assert!(claimed.next.at(claim("usr_a"), HALF).facts.is_empty(), "renewing is no news");
    assert_eq!(
        claimed.next.at(claim("usr_b"), until).next.claimed(until).map(|c| &*c.by),
        Some("usr_b")
    );
    assert_eq!(claimed.next.at(approved("usr_b"), NOW).next.state, State::Approved);
    let released = claimed.next.at(Event::Released { by: user("usr_a") }, NOW);
    assert_eq!(actions(&released), [Action::Released]);
    let released = released.next;
    assert_eq!(released.refused(Event::Released { by: user("usr_a") }, NOW), Refusal::NotClaimed);
}

#[test]
fn a_keys_claim_to_speak_for_somebody_is_recorded_beside_the_key() {
    let by =
        Decider { account: "key_1".into(), reviewer: Some("ann@example.com".into()), bulk: None };
    let event = Event::Approved { by, edit: Some(Digest::of("better")), comment: None };
    let step = opened(POLICY, asked(ANN)).next.at(event, NOW);
    let entry = &step.facts[0];
    assert_eq!(
        (&*entry.actor, entry.details.reviewer.as_deref()),
        ("key_1", Some("ann@example.com"))
    );
    assert_eq!(entry.details.edit, Some(Digest::of("better")));
    let refusal = step.next.refused(approved("usr_b"), NOW);
    assert_eq!(refusal, Refusal::AlreadyDecided { by: "ann@example.com".into(), at: NOW });
}

/// A history of some length, and how it ends.
fn history() -> (Vec<Entry>, Chain) {
    let first = opened(POLICY, asked(ANN));
    let second = first.next.at(passed(ADMIN), HALF);
    let third = second.next.at(rejected("usr_a", Some(RETRY)), END);
    ([first.facts, second.facts, third.facts].concat(), third.next.chain)
}

#[test]
fn the_chain_names_the_first_entry_that_was_tampered_with() {
    let (whole, chain) = history();
    assert_eq!((whole.len(), chain.verify(TASK, &whole)), (5, Ok(())));
    let broken = |number, fault| Err(Broken { number, fault });
    let tampered = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = whole.clone();
        change(&mut entries);
        chain.verify(TASK, &entries)
    };
    assert_eq!(tampered(&|entries| entries[2].actor = "usr_z".into()), broken(3, Fault::Changed));
    assert_eq!(tampered(&|entries| entries[3].details.reviewer = None), broken(4, Fault::Changed));
    assert_eq!(tampered(&|entries| drop(entries.remove(1))), broken(2, Fault::Missing));
    assert_eq!(tampered(&|entries| drop(entries.pop())), broken(5, Fault::Missing));
    assert_eq!(tampered(&|entries| entries.clear()), broken(1, Fault::Missing));
    let rehashed = tampered(&|entries| {
        entries[1].at = END;
        entries[1].hash = entries[1].digest(TASK);
    });
    assert_eq!(rehashed, broken(3, Fault::Unlinked));
    let last = tampered(&|entries| {
        entries[4].at = NOW;
        entries[4].hash = entries[4].digest(TASK);
    });
    assert_eq!(last, broken(5, Fault::WrongEnd));
    assert_eq!(chain.verify(RETRY, &whole), broken(1, Fault::Changed), "of another task");
}

#[test]
fn the_hashed_text_is_sorted_compact_json_of_texts() {
    let entry = &history().0[0];
    let expected = format!(
        concat!(
            r#"{{"action":"pending","actor":"system","confidence":"0.71","number":"1","#,
            r#""outputHash":"{}","previous":"{}","taskId":"{}","threshold":"0.85","#,
            r#""timestamp":"1970-01-01T00:16:40.000Z","until":"1970-01-01T00:17:40.000Z","#,
            r#""why":"below_threshold"}}"#
        ),
        Digest::of("the output"),
        Digest::ZERO,
        TASK
    );
    assert_eq!(entry.canonical(TASK), expected);
    assert_eq!(entry.hash, Digest::of(&expected));
}

fn events() -> impl Strategy<Value = Event> {
    let name = || prop_oneof![Just("usr_a"), Just("usr_b")];
    prop_oneof![
        name().prop_map(|name| Event::Claimed { by: user(name) }),
        name().prop_map(|name| Event::Released { by: user(name) }),
        name().prop_map(approved),
        (name(), any::<bool>()).prop_map(|(name, again)| rejected(name, again.then_some(RETRY))),
        Just(Event::TaskEnded { by: SYSTEM.into() }),
        Just(passed(ADMIN)),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws_of_a_machine_and_a_whole_chain(
        history in prop::collection::vec((events(), 0_u64..40_000), 0..30),
        rejects: bool,
        somebody: bool,
    ) {
        let asked = if somebody { asked(ANN) } else { Assignee::default() };
        let first = opened(Policy { rejects, ..POLICY }, asked);
        let (mut approval, mut entries) = (first.next, first.facts);
        let (mut now, mut decisions) = (NOW, 0);
        for (event, wait) in history {
            now = now.after(Duration::from_millis(wait));
            let before = approval.clone();
            if let Ok(step) = approval.transition(event.clone(), now) {
                prop_assert!(!before.is_finished(), "finished is final");
                prop_assert_eq!(&before.transition(event, now), &Ok(step.clone()), "replay agrees");
                prop_assert_eq!(step.next.version, before.version + 1);
                decisions += u32::from(step.next.decision.is_some());
                entries.extend(step.facts);
                approval = step.next;
            }
            prop_assert!(!approval.is_finished() || approval.outstanding().is_empty());
        }
        prop_assert!(decisions <= 1);
        prop_assert_eq!(approval.chain.verify(TASK, &entries), Ok(()));
        let count = |action| entries.iter().filter(|entry| entry.action == action).count();
        prop_assert!(count(Action::Escalated) <= 2 && count(Action::Expired) <= 1);
        prop_assert_eq!(u32::try_from(count(Action::Approved) + count(Action::Rejected)), Ok(decisions));
        for entry in &entries {
            let row = serde_json::to_string(entry).expect("an entry is written");
            prop_assert_eq!(&serde_json::from_str::<Entry>(&row).expect("and read"), entry);
        }
    }
}

#[test]
fn with_four_eyes_another_person_than_the_submitter_approves() {
    let spec = spec(Channels::default());
    // Two keys of usr_1, and one that nobody answers for.
    let person = |account: &str| match account {
        "key_a" | "key_b" => "usr_1".to_owned(),
        other => other.to_owned(),
    };
    let check = |account: &str, submitter: &str, reviewer: Option<&str>| {
        let spec = task::Spec { account: submitter.into(), ..(*spec).clone() };
        let by =
            Decider { account: account.into(), reviewer: reviewer.map(str::to_owned), bulk: None };
        check_four_eyes(&spec, &by, person).is_ok()
    };
    for (account, submitter, reviewer, expected) in [
        ("usr_1", "usr_1", None, false),
        ("usr_2", "usr_1", None, true),
        ("key_a", "usr_1", None, false),
        ("usr_1", "key_a", None, false),
        ("key_b", "key_a", None, false),
        ("key_c", "key_a", None, true),
        ("key_c", "key_c", None, false),
        // In the submitter's name is as by the submitter.
        ("usr_2", "usr_1", Some("usr_1"), false),
        ("usr_2", "key_a", Some("usr_1"), false),
        ("usr_2", "usr_1", Some("usr_3"), true),
        ("key_c", "usr_1", Some("ada"), true),
    ] {
        let found = check(account, submitter, reviewer);
        assert_eq!(found, expected, "{account} for {reviewer:?}, submitted by {submitter}");
    }
}

#[test]
fn more_time_keeps_the_share_after_which_an_admin_is_asked_and_brings_an_expired_one_back() {
    let extended = || Event::Extended { by: user("usr_2"), timeout_ms: 100_000, reason: None };
    let begun = opened(POLICY, asked(ANN)).next;
    let step = begun.at(extended(), NOW.after(Duration::from_secs(20)));
    let until = NOW.after(Duration::from_mins(2));
    assert_eq!((step.next.opening.expires_at, step.next.state), (until, State::Assigned));
    assert_eq!(step.effects, [Effect::WakeAt(NOW.after(Duration::from_secs(70)))]);
    assert_eq!(actions(&step), [Action::Extended]);
    assert_eq!(step.facts[0].details.until, Some(until));

    let expired = begun.at(passed(ADMIN), HALF).next.at(passed(ADMIN), END).next;
    assert_eq!(expired.state, State::Expired);
    let monday = END.after(Duration::from_hours(60));
    let step = expired.at(extended(), monday);
    assert_eq!((step.next.state, step.next.extensions), (State::Escalated, 1));
    let until = monday.after(Duration::from_secs(100));
    assert_eq!(step.effects, [Effect::WakeAt(until)]);
    assert_eq!(step.next.refused(passed(ADMIN), monday), Refusal::NotDue);
    assert_eq!(step.next.at(passed(ADMIN), until).next.state, State::Expired);

    let mut often = step.next;
    while often.extensions < MAX_EXTENSIONS {
        often = often.at(extended(), monday).next;
    }
    assert_eq!(often.refused(extended(), monday), Refusal::ExtendedTooOften);
    let decided = often.at(approved("usr_2"), monday).next;
    assert!(matches!(decided.refused(extended(), monday), Refusal::AlreadyDecided { .. }));
}

#[test]
fn an_output_is_given_on_in_any_open_state_and_its_times_stay() {
    let given = |asked| Event::Assigned { by: user("usr_2"), asked };
    let pending = opened(POLICY, Assignee::default()).next;
    let step = pending.at(given(asked(ANN)), NOW);
    assert_eq!((step.next.state, step.next.assignee), (State::Assigned, Some(ANN)));
    assert_eq!(step.effects[0], Effect::Assign(Some(ANN)));
    assert_eq!((actions(&step), step.facts[0].actor.as_str()), (vec![Action::Assigned], "usr_2"));
    let escalated = opened(POLICY, asked(ANN)).next.at(passed(ADMIN), HALF).next;
    let step = escalated.at(given(asked(ANN)), HALF);
    assert_eq!((step.next.state, step.next.assignee), (State::Escalated, Some(ANN)));
    assert_eq!(step.facts[0].details.from, escalated.assignee);
    assert_eq!(step.next.opening, escalated.opening);
    let mut full = pending;
    full.chain.length = MAX_RECORDED;
    assert_eq!(full.refused(given(asked(ANN)), NOW), Refusal::AssignedTooOften);
}

fn reopened(name: &str, corrects: bool) -> Event {
    Event::Reopened { by: user(name), asked: asked(ANN), corrects }
}

#[test]
fn a_decision_that_is_taken_back_is_gone_and_the_output_waits_as_long_as_before() {
    let decided = opened(POLICY, asked(ADMIN)).next.at(approved("usr_2"), HALF).next;
    let step = decided.at(reopened("usr_3", false), END);
    let Approval { state, assignee, decision, corrects, reopened: times, opening, .. } = &step.next;
    assert_eq!((*state, *assignee, decision, corrects), (State::Assigned, Some(ANN), &None, &None));
    assert_eq!((*times, opening.since), (1, NOW));
    assert_eq!(actions(&step), [Action::Reopened, Action::Assigned]);
    assert_eq!((step.facts[0].actor.as_str(), &step.facts[0].details.reason), ("usr_3", &None));
    let (asks, ends) = (END.after(Duration::from_secs(30)), END.after(Duration::from_mins(1)));
    assert_eq!((opening.escalates_at, opening.expires_at), (asks, ends));
    // Nobody is written to: whoever took it back has it before them.
    assert_eq!(step.effects, [Effect::WakeAt(asks), Effect::Assign(Some(ANN))]);
    assert_eq!(step.next.outstanding(), step.effects);
    assert!(Record::from(&step.next).is_open() && !step.next.is_unawaited());
    let again = step.next.at(rejected("usr_3", None), ends).next;
    assert_eq!(again.effective().map(|it| it.by.name()), Some("usr_3"));
    assert!(matches!(Record::from(&again).fate, GateOutcome::Rejected { .. }));
}

#[test]
fn a_correction_stands_beside_the_first_decision_and_counts_once_it_is_made() {
    let hurried = Policy { rejects: true, ..POLICY };
    let first = opened(hurried, asked(ADMIN)).next.at(approved("usr_2"), HALF).next;
    let step = first.at(reopened("usr_2", true), END);
    let waits = &step.next;
    assert_eq!(step.facts[0].details.reason.as_deref(), Some(CORRECTION));
    assert_eq!(waits.opening.expires_at, END.after(REQUESTED_TIME));
    assert!(waits.is_unawaited() && !waits.opening.rejects);
    // Until then the first decision counts.
    assert_eq!(Record::from(waits).fate, Record::from(&first).fate);
    assert_eq!((waits.counting(), &waits.decision), (first.decision.as_ref(), &None));
    let second = waits.at(rejected("usr_3", None), END).next;
    assert_eq!(second.state, State::Rejected);
    assert_eq!(second.counting().map(|it| it.by.name()), Some("usr_3"));
    assert_eq!(second.effective(), first.decision.as_ref());
    assert!(matches!(Record::from(&second).fate, GateOutcome::Rejected { .. }));
    // A third opinion leaves the decision that others have gone by as it is.
    let third = second.at(reopened("usr_3", true), END).next.at(approved("usr_3"), END).next;
    assert_eq!((third.effective(), third.reopened), (first.decision.as_ref(), 2));
    assert_eq!(third.corrects.as_ref().map(|it| it.round), Some(0));
    // One that ends without a decision leaves the first one.
    let ended = waits.at(Event::TaskEnded { by: SYSTEM.into() }, END).next;
    assert_eq!((ended.state, ended.counting()), (State::Cancelled, first.decision.as_ref()));
}

#[test]
fn only_a_decision_can_be_taken_back_and_not_for_ever() {
    let waits = opened(POLICY, asked(ANN)).next;
    assert_eq!(waits.refused(reopened("usr_2", false), NOW), Refusal::Undecided);
    let ended = waits.at(Event::TaskEnded { by: SYSTEM.into() }, NOW).next;
    assert_eq!(ended.refused(reopened("usr_2", true), NOW), Refusal::Cancelled);
    let mut often = waits.at(approved("usr_2"), NOW).next;
    for _ in 0..MAX_REOPENED {
        often = often.at(reopened("usr_2", false), NOW).next.at(approved("usr_2"), NOW).next;
    }
    assert_eq!(often.refused(reopened("usr_2", false), NOW), Refusal::ReopenedTooOften);
}
