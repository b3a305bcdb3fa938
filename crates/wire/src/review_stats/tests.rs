use callboard_domain::Timestamp;
use callboard_domain::approval::{GateOutcome, Record};
use callboard_domain::calibration::Counts;
use serde_json::{json, to_value};

use super::*;
use crate::read::query::parse;

#[test]
fn statistics_have_the_members_of_the_specification() {
    let summary = Summary {
        pending: 3,
        approved_today: 2,
        rejected_today: 1,
        avg_wait_ms: 4_000,
        avg_confidence: 0.75,
        escalation_rate: 0.25,
        decided: 5,
        created: 8,
        top_reviewers: vec![Reviewer { id: "usr_a".into(), approvals: 4, rejections: 1 }],
    };
    let expected = json!({
        "pending": 3, "approvedToday": 2, "rejectedToday": 1, "avgWaitTimeMs": 4000,
        "avgConfidence": 0.75, "escalationRate": 0.25,
        "topReviewers": [{"id": "usr_a", "approvals": 4, "rejections": 1}],
        "decided": 5, "created": 8, "windowDays": 30,
    });
    assert_eq!(to_value(StatisticsBody::from(&summary)).unwrap(), expected);
}

fn record(confidence: Option<f64>, fate: GateOutcome) -> Record {
    Record {
        template: Some("t-v1".into()),
        step: Some("s".into()),
        confidence,
        method: None,
        model: None,
        sampled: false,
        since: Timestamp::default(),
        escalated: false,
        fate,
    }
}

#[test]
fn a_calibration_tells_deciles_and_thresholds() {
    let (by, at) = ("usr_a".to_owned(), Timestamp::default());
    let mut counts = Counts::default();
    for record in [
        record(Some(1.0), GateOutcome::Passed),
        record(Some(0.35), GateOutcome::Rejected { by: by.clone(), at }),
        record(None, GateOutcome::Approved { by, at, edited: true }),
        record(None, GateOutcome::Cancelled),
    ] {
        counts.replace(None, &record);
    }
    let asked: Query = parse::<Calibrate>("templateId=t-v1&threshold=0.8").unwrap().into();
    let found = to_value(CalibrationBody::of(&asked, &counts.view(&asked))).unwrap();
    assert_eq!((&found["templateId"], found.get("stepId")), (&json!("t-v1"), None));
    assert_eq!(found["deciles"].as_array().unwrap().len(), 10);
    let decile = json!({
        "from": 0.9, "to": 1.0, "approved": 0, "edited": 0, "rejected": 0, "unreviewed": 1,
        "undecided": 0, "sampled": 0,
    });
    assert_eq!(found["deciles"][9], decile);
    assert_eq!(found["deciles"][3]["from"], 0.3);
    let unknown = json!({
        "approved": 0, "edited": 1, "rejected": 0, "unreviewed": 1, "undecided": 1, "sampled": 0,
    });
    assert_eq!(found["noConfidence"], unknown);
    let threshold = json!({
        "threshold": 0.8, "reviews": 1, "reviewsSaved": 0, "rejectionsKnown": 1,
        "rejectionsMissed": 0, "missedShare": {"low": 0.0, "high": 0.5}, "unreviewed": 1,
        "unreviewedUnknown": 1,
    });
    assert_eq!(found["thresholds"], json!([threshold]));
}

#[test]
fn an_expected_share_is_told_where_there_is_one() {
    let share = |expected| to_value(ShareBody { low: 0.0, expected, high: 0.5 }).unwrap();
    assert_eq!(share(Some(0.25)), json!({"low": 0.0, "expected": 0.25, "high": 0.5}));
    assert_eq!(share(None), json!({"low": 0.0, "high": 0.5}));
}

#[test]
fn thresholds_are_multiples_of_a_hundredth_and_twenty_are_tried_by_default() {
    let asked = |query: &str| parse::<Calibrate>(query).map(Query::from);
    let usual = asked("stepId=s").unwrap();
    assert_eq!((usual.thresholds.len(), usual.step.as_deref()), (20, Some("s")));
    let one = asked("threshold=0.80").unwrap().thresholds;
    assert_eq!(one, [Threshold::hundredths(80).unwrap()]);
    for (query, rule) in [
        ("threshold=0.805", Rule::Format),
        ("threshold=1.01", Rule::Range),
        ("threshold=-0.01", Rule::Range),
        ("threshold=high", Rule::Type),
        ("templateId=", Rule::Length),
        ("window=7", Rule::Unknown),
    ] {
        let Err(Error::Invalid(fault)) = asked(query) else { panic!("{query} is taken") };
        assert_eq!(fault.rule, rule, "{query}");
    }
}
