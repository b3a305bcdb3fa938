use jiff::Timestamp;
use serde_json::json;

use super::*;

const TASKS: [Column; 8] = [
    ("ID", "id"),
    ("STATUS", "status"),
    ("MODEL", "model"),
    ("QUEUE", "queue"),
    ("PRIORITY", "priority"),
    ("COST", "usage.totalCost"),
    ("PLAN", "planId"),
    ("CREATED", "createdAt"),
];

fn now() -> Timestamp {
    "2026-11-24T12:00:00Z".parse().unwrap()
}

fn tasks() -> [Value; 3] {
    let id = |letter: &str| format!("dt_task_01m7ydfg8h1fvf4c29awjks5{letter}");
    [
        json!({"id": id("49"), "status": "completed", "model": "smollm2-135m", "queue": "default",
            "priority": 5, "usage": {"totalCost": 0.123_456}, "createdAt": "2026-11-24T11:57:00Z"}),
        json!({"id": id("4a"), "status": "running", "queue": "nightly-reports-of-all-regions",
            "model": "a-model-with-a-long-name/and-a-vendor:latest", "priority": 10,
            "planId": "dt_plan_01m7ydhr2c7n0k4q8w3e5rtv6p", "createdAt": "2026-11-23T10:00:00Z"}),
        json!({"id": id("4b"), "status": "failed", "model": "模型-一二三四五", "queue": "default",
            "priority": 1, "usage": {"totalCost": 0.000_1}, "createdAt": "2026-11-24T11:59:58Z"}),
    ]
}

fn at(width: usize) -> (String, Vec<&'static str>) {
    let screen = Screen::Terminal { width, height: 24, colour: false, now: now() };
    laid_out(&TASKS, &tasks(), &screen)
}

#[test]
fn a_table_fits_terminals_of_80_100_and_120_columns() {
    for width in [40, 80, 100, 120] {
        let (text, hidden) = at(width);
        for line in text.lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
        insta::assert_snapshot!(format!("table_{width}"), format!("{text}left out: {hidden:?}"));
    }
}

#[test]
fn a_state_has_a_colour_beside_its_word() {
    let screen = Screen::Terminal { width: 80, height: 24, colour: true, now: now() };
    let (text, _) = laid_out(&[("ID", "id"), ("STATUS", "status")], &tasks(), &screen);
    for part in ["\u{1b}[1mID", "\u{1b}[32mcompleted\u{1b}[0m", "\u{1b}[31mfailed\u{1b}[0m"] {
        assert!(text.contains(part), "{part:?}: {text:?}");
    }
}

#[test]
fn a_table_in_a_pipe_is_whole_and_exact() {
    let (text, hidden) = laid_out(&TASKS, &tasks(), &Screen::Plain);
    assert_eq!(hidden, Vec::<&str>::new());
    for part in ["2026-11-24T11:57:00Z", "0.123456", "a-model-with-a-long-name/and-a-vendor:latest"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn columns_are_aligned_and_those_without_a_value_are_left_out() {
    let rows = [
        json!({"id": "a", "tags": ["x", "y"], "usage": {"total": 7}}),
        json!({"id": "längst", "tags": []}),
    ];
    let columns = [("ID", "id"), ("WORKER", "workerId"), ("TAGS", "tags"), ("T", "usage.total")];
    assert_eq!(table(&columns, &rows), "ID      TAGS  T\na       x,y   7\nlängst\n");
}

#[test]
fn a_first_column_that_is_too_wide_is_clipped_in_the_end() {
    let screen = Screen::Terminal { width: 20, height: 24, colour: false, now: now() };
    let rows = [json!({"name": "m".repeat(50), "n": 3})];
    let (text, hidden) = laid_out(&[("MODEL", "name"), ("N", "n")], &rows, &screen);
    assert!(text.lines().all(|line| line.width() <= 20), "{text}");
    assert_eq!(hidden, ["N"]);
}

#[test]
fn an_item_shows_its_texts_line_by_line_without_control_characters() {
    let item = json!({"id": "a", "status": "completed", "output": "one\ntwo\u{7}"});
    let fields = [("id", "id"), ("status", "status"), ("error", "error.message")];
    assert_eq!(
        details(&item, &fields, &[("output", "output")]),
        "id      a\nstatus  completed\noutput:\n  one\n  two\\u{7}\n"
    );
}

#[test]
fn an_item_on_a_terminal_shows_the_age_beside_the_instant() {
    let screen = Screen::Terminal { width: 80, height: 24, colour: true, now: now() };
    let item = json!({"status": "failed", "createdAt": "2026-11-24T11:57:00Z", "cost": 0.000_1});
    let fields = [("status", "status"), ("created", "createdAt"), ("cost", "cost")];
    assert_eq!(
        details_for(&item, &fields, &[], &screen),
        "status   \u{1b}[31mfailed\u{1b}[0m\ncreated  2026-11-24T11:57:00Z (3 min ago)\ncost     0.0001\n"
    );
}
