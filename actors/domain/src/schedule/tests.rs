mod clocks;

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn table(cron: &str, zone: &str) -> Timetable {
    let timing = Timing::Cron { cron: cron.into(), zone: zone.into() };
    Timetable::compile(&timing).expect("it is sound")
}

fn next(table: &Timetable, after: &str, count: usize) -> Vec<String> {
    let mut after = at(after);
    let mut found = Vec::new();
    for _ in 0..count {
        after = table.next_after(after).expect("there is one");
        found.push(after.to_string()[..16].to_owned());
    }
    found
}

fn schedule(cron: &str, catch_up: CatchUp, jitter_ms: u64) -> (Schedule, Timetable) {
    let timing = Timing::Cron { cron: cron.into(), zone: "UTC".into() };
    let timetable = Timetable::compile(&timing).expect("it is sound");
    let settings = Settings {
        name: "s".into(),
        timing,
        overlap: Overlap::Allow,
        catch_up,
        jitter_ms,
        enabled: true,
    };
    let id = ScheduleId::from_u128(7 << 10);
    let now = at("2026-03-01T00:00:30.000Z");
    (Schedule::created(id, "usr_1".into(), settings, &timetable, now), timetable)
}

fn starts(schedule: &Schedule, timetable: &Timetable, at: Timestamp) -> Timestamp {
    schedule.starts_at(at, timetable.next_after(at))
}

#[test]
fn a_delay_ends_before_the_next_occurrence_so_that_each_runs() {
    for catch_up in CatchUp::ALL {
        for cron in ["*/10 * * * *", "* * * * *", "0,1,59 */2 * * *"] {
            let (mut schedule, timetable) = schedule(cron, catch_up, MAX_JITTER_MS);
            let begin = schedule.cursor;
            let mut ran = Vec::new();
            for _ in 0..40 {
                let now = schedule.wakes_at().expect("there is always one");
                assert_eq!(
                    schedule.due(&timetable, Timestamp::from_millis(now.as_millis() - 1)),
                    None
                );
                let due = schedule.due(&timetable, now).expect("it is due");
                assert_eq!(due.missed, None, "{cron}, {catch_up}");
                assert!(now < timetable.next_after(due.last).expect("there is always one"));
                ran.extend(due.run);
                schedule = schedule.decided(due.last, &timetable);
            }
            let mut all: Vec<_> = timetable.backwards(begin, schedule.cursor).collect();
            all.reverse();
            assert_eq!(ran, all, "{cron}, {catch_up}");
        }
    }
}

#[test]
fn what_could_start_within_a_minute_of_its_time_is_not_missed() {
    for catch_up in CatchUp::ALL {
        let (schedule, timetable) = schedule("* * * * *", catch_up, 0);
        let due = schedule.due(&timetable, at("2026-03-01T00:02:00Z")).expect("it is due");
        let both = [at("2026-03-01T00:01:00Z"), at("2026-03-01T00:02:00Z")];
        assert_eq!((due.run.as_slice(), due.missed), (&both[..], None), "{catch_up}");
    }
}

#[test]
fn a_change_keeps_a_delayed_occurrence_or_says_why_not() {
    let (schedule, timetable) = schedule("0 * * * *", CatchUp::None, MAX_JITTER_MS);
    let one = at("2026-03-01T01:00:00Z");
    let now = Timestamp::from_millis(one.as_millis() + 1);
    assert!(schedule.wakes_at().expect("there is one") > now, "it is delayed");
    let changed = |change: &dyn Fn(&mut Settings)| {
        let mut settings = schedule.settings.clone();
        change(&mut settings);
        let timetable = Timetable::compile(&settings.timing).expect("it is sound");
        schedule.changed(settings, &timetable, now)
    };
    let renamed = changed(&|settings| settings.name = "other".into());
    assert_eq!((renamed.schedule.next, renamed.dropped), (Some(one), vec![]));
    let hurried = changed(&|settings| settings.jitter_ms = 0);
    assert_eq!((hurried.schedule.wakes_at(), hurried.dropped), (Some(one), vec![]));
    let paused = changed(&|settings| settings.enabled = false);
    assert_eq!((paused.schedule.next, paused.dropped), (None, vec![(one, PAUSED_IN_DELAY)]));
    let half_past = Timing::Cron { cron: "30 * * * *".into(), zone: "UTC".into() };
    let moved = changed(&|settings| settings.timing = half_past.clone());
    let next = Some(at("2026-03-01T01:30:00Z"));
    assert_eq!((moved.schedule.next, moved.dropped), (next, vec![(one, MOVED)]));
    assert_eq!(schedule.left_over(now).collect::<Vec<_>>(), [one]);
    // By other data of the time zone the next occurrence is another one.
    let stale = Schedule { next: Some(now), ..schedule.clone() };
    assert_eq!(stale.planned(&timetable), schedule);
}

#[test]
fn what_is_no_timetable_is_refused() {
    let compile = |cron: &str, zone: &str| {
        Timetable::compile(&Timing::Cron { cron: cron.into(), zone: zone.into() }).err()
    };
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "x",
        "*/0 * * * *",
        &"1,".repeat(200),
        ", * * * *",
        "* , * * *",
        "* * , * *",
        "* * * , *",
        "* * * * ,",
        ",,,, ,,,, ,,,, ,,,, ,,,,",
        "1,,2 * * * *",
        ",1 * * * *",
        "1, * * * *",
        "0 0 * * MON,",
    ] {
        assert!(matches!(compile(cron, "UTC"), Some(TimetableError::Cron(_))), "{cron:?}");
    }
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 2 +MON", "0 0 8 * +MON#1"] {
        assert_eq!(compile(cron, "UTC"), Some(TimetableError::Never), "{cron}");
    }
    for zone in ["", "Mars/Olympus", "../etc/passwd", "UTC\0", &"a".repeat(100)] {
        assert_eq!(compile("* * * * *", zone), Some(TimetableError::Zone), "{zone:?}");
    }
    assert_eq!(compile("30 9 * * MON-FRI", "America/New_York"), None);
    assert_eq!(compile("@daily", "Asia/Kolkata"), None);
    for cron in ["0 0 29 2 *", "0 0 29 2 +MON", "0 0 L 2 *", "0 0 * 2 MON#5", "0 0 LW * *"] {
        assert_eq!(compile(cron, "UTC"), None, "{cron}");
    }
}

#[test]
fn after_a_downtime_the_policy_says_what_runs() {
    let now = at("2026-03-01T05:00:20.000Z");
    for (catch_up, expected) in [
        (CatchUp::None, vec!["05:00"]),
        (CatchUp::Last, vec!["05:00"]),
        (CatchUp::All, vec!["01:00", "02:00", "03:00", "04:00", "05:00"]),
    ] {
        let (schedule, timetable) = schedule("0 * * * *", catch_up, 0);
        let due = schedule.due(&timetable, now).expect("it is due");
        let run: Vec<_> = due.run.iter().map(|at| at.to_string()[11..16].to_owned()).collect();
        assert_eq!(run, expected, "{catch_up}");
        assert_eq!(due.missed.is_none(), catch_up == CatchUp::All);
    }
    let late = at("2026-03-01T05:10:00.000Z");
    let (schedule, timetable) = schedule("0 * * * *", CatchUp::None, 0);
    let due = schedule.due(&timetable, late).expect("it is due");
    let five = at("2026-03-01T05:00:00Z");
    assert_eq!(due, Due { run: vec![], missed: Some(five), last: five });
}

#[test]
fn a_long_downtime_is_made_up_for_a_hundred_times_and_looked_at_quickly() {
    let (schedule, timetable) = schedule("* * * * *", CatchUp::All, 0);
    let now = at("2036-03-01T00:00:30.000Z");
    let due = schedule.due(&timetable, now).expect("it is due");
    assert_eq!((due.run.len(), due.last), (100, at("2036-03-01T00:00:00Z")));
    let after = schedule.decided(due.last, &timetable);
    assert_eq!(after.next, Some(at("2036-03-01T00:01:00Z")));
}

#[test]
fn the_overlap_policy_follows_the_table() {
    use Decision::{CancelAndStart, Queue, Skip, Start};
    for (overlap, idle, busy, full) in [
        (Overlap::Skip, Start, Skip, Skip),
        (Overlap::Queue, Start, Queue, Skip),
        (Overlap::CancelRunning, Start, CancelAndStart, CancelAndStart),
        (Overlap::Allow, Start, Start, Start),
    ] {
        let found = [(0, 0), (1, 0), (1, MAX_QUEUED)].map(|(r, q)| overlap.decide(r, q));
        assert_eq!(found, [idle, busy, full], "{overlap}");
    }
    assert_eq!(Overlap::Allow.decide(MAX_RUNNING, 0), Skip);
}

#[test]
fn one_instant_happens_once_and_a_paused_schedule_has_no_next() {
    let when = at("2026-03-01T12:00:00Z");
    let timetable = Timetable::At(when);
    let (daily, _) = schedule("0 0 * * *", CatchUp::Last, 0);
    let settings = Settings { timing: Timing::At(when), ..daily.settings.clone() };
    let once = Schedule::created(
        daily.id,
        "usr_1".into(),
        settings.clone(),
        &timetable,
        at("2026-03-01T00:00:00Z"),
    );
    let due = once.due(&timetable, when).expect("it is due");
    assert_eq!(due.run, [when]);
    let after = once.decided(due.last, &timetable);
    assert_eq!((after.next, after.due(&timetable, Timestamp::MAX)), (None, None));
    let paused = Settings { enabled: false, ..settings };
    let paused = once.changed(paused, &timetable, at("2026-03-01T01:00:00Z"));
    assert_eq!((paused.schedule.next, paused.dropped), (None, vec![]));
}

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
    "America/Santiago",
    "Asia/Beirut",
    "Pacific/Apia",
];
const CRONS: [&str; 11] = [
    "* * * * *",
    "*/7 1-3 * * *",
    "30 2 * * *",
    "0 0 1 * *",
    "15,45 * * * SUN",
    "0 3 L * *",
    "59 23 31 12 *",
    "0 */5 * * MON#2",
    "0,30 2,3 * * *",
    "*/30 2 * 3,10 SUN#L",
    "0 * 29 2 *",
];

proptest! {
    /// Forwards and backwards agree, instants ascend, and none is passed over.
    #[test]
    fn instants_are_the_same_in_both_directions(
        zone in prop::sample::select(&ZONES[..]),
        cron in prop::sample::select(&CRONS[..]),
        start in 1_300_000_000_000_u64..1_800_000_000_000,
        count in 1_usize..60,
    ) {
        let table = table(cron, zone);
        let start = Timestamp::from_millis(start);
        let mut forwards = Vec::new();
        let mut after = start;
        for _ in 0..count {
            let found = table.next_after(after).expect("there is always one");
            prop_assert!(found > after);
            forwards.push(found);
            after = found;
        }
        let mut backwards: Vec<_> = table.backwards(start, after).collect();
        backwards.reverse();
        prop_assert_eq!(backwards, forwards);
    }

    /// Under any clock, no occurrence runs twice, with `all` none is left out in fewer than a
    /// hundred, and none runs before its time.
    #[test]
    fn no_jump_of_the_clock_repeats_an_occurrence(
        jumps in prop::collection::vec(-90_i64..200, 1..60),
        catch_up in prop::sample::select(CatchUp::ALL.to_vec()),
        jitter_ms in prop::sample::select(vec![0_u64, 30_000, 600_000]),
        pause in any::<bool>(),
    ) {
        let (mut schedule, timetable) = schedule("*/10 * * * *", catch_up, jitter_ms);
        let mut now = schedule.cursor;
        let (begin, mut ran) = (now, Vec::<Timestamp>::new());
        for (turn, jump) in jumps.iter().enumerate() {
            let step = Duration::from_secs(60 * jump.unsigned_abs());
            now = if *jump < 0 {
                Timestamp::from_millis(now.as_millis() - u64::try_from(step.as_millis()).unwrap())
            } else {
                now.after(step)
            };
            if pause && turn == 20 {
                let settings = schedule.settings.clone();
                schedule = schedule.changed(settings, &timetable, now).schedule;
            }
            if let Some(due) = schedule.due(&timetable, now) {
                prop_assert!(due.run.iter().all(|at| starts(&schedule, &timetable, *at) <= now));
                prop_assert!(due.run.iter().all(|at| *at > schedule.cursor && *at <= due.last));
                ran.extend(&due.run);
                schedule = schedule.decided(due.last, &timetable);
            }
        }
        let mut sorted = ran.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(&sorted, &ran, "in order, and once");
        if catch_up == CatchUp::All && !pause {
            let mut all: Vec<_> = timetable.backwards(begin, schedule.cursor).collect();
            all.reverse();
            prop_assert_eq!(ran, all);
        }
    }
}

#[test]
fn the_fullest_row_fits_what_the_store_takes() {
    let (mut schedule, _) = schedule("* * * * *", CatchUp::Last, MAX_JITTER_MS);
    schedule.settings.name = "\u{1}".repeat(MAX_NAME);
    schedule.following = Some(Timestamp::MAX);
    schedule.settings.timing = Timing::Cron { cron: "1".repeat(MAX_CRON), zone: "a".repeat(64) };
    for number in 0..100 {
        let work = Started::task(schedule.id, Timestamp::from_millis(number));
        schedule.running.add(Timestamp::MAX, work);
        schedule.queued.extend((number < 50).then_some(Timestamp::MAX));
    }
    let json = serde_json::to_string(&schedule).expect("it is written");
    assert!(json.len() < 3_900, "{} bytes", json.len());
}
