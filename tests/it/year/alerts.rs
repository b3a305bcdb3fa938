//! The alert rules over the figures of the year: promtool evaluates them minute by minute.
//!
//! A state of the year is a scrape at its end, and minutes for which it lasts. Its gauges have the values of the
//! scrape for all of them; its counters rise to those values in equal steps, from the scrape before, or from 0 after
//! a restart. The days between two states are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::metrics::{Sample, Scrape};

/// A state of the year.
struct State {
    name: String,
    minutes: usize,
    /// The values by series; `None` if the server did not answer.
    values: Option<BTreeMap<String, f64>>,
    /// The alerts that fire at its end.
    firing: Vec<&'static str>,
}

#[derive(Default)]
pub(super) struct Alerts {
    states: Vec<State>,
    /// The alerts whose state cannot be made on this machine.
    left_out: Vec<&'static str>,
    /// True while the data lies on a disk of the year; that of this machine may be full already.
    pub(super) has_disk: bool,
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RULES: &str = "config/monitoring/alerts.yml";

/// The labels that Prometheus adds.
const TARGET: &str = "instance=\"callboard.example.com:443\",job=\"callboard\"";

/// `name{label="value",…}`, as Prometheus stores it.
fn series(sample: &Sample) -> String {
    let labels = sample.labels.iter().fold(String::new(), |mut text, (name, value)| {
        write!(text, "{name}=\"{value}\",").expect("a string takes every write");
        text
    });
    format!("{}{{{labels}{TARGET}}}", sample.name)
}

fn is_counter(series: &str) -> bool {
    let name = series.split('{').next().unwrap_or_default();
    ["_total", "_bucket", "_count", "_sum"].iter().any(|end| name.ends_with(end))
        && name != "svc_hitl_pending_count"
}

/// The samples of one series in one state, in promtool's notation.
fn samples(series: &str, minutes: usize, before: Option<f64>, now: Option<f64>) -> String {
    let more = minutes - 1;
    match (before, now) {
        (Some(_), None) => format!("stale _x{more}"),
        (None, None) => format!("_x{minutes}"),
        (before, Some(now)) if is_counter(series) => {
            let from = before.filter(|before| *before <= now).unwrap_or(0.0);
            #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
            let step = (now - from) / more as f64;
            format!("{from}+{step}x{more}")
        }
        (_, Some(now)) => format!("{now}+0x{more}"),
    }
}

impl Alerts {
    /// What a state was seen to be, for how long it lasted, and the alerts that fire because of it.
    pub(super) fn saw(
        &mut self,
        name: &str,
        minutes: usize,
        scrape: Option<&Scrape>,
        firing: &[&'static str],
    ) {
        let values = scrape.map(|scrape| {
            let is_ours = |it: &&Sample| self.has_disk || !it.name.starts_with("svc_disk_");
            let numbers = scrape.0.iter().filter(|it| it.value.is_finite()).filter(is_ours);
            numbers.map(|sample| (series(sample), sample.value)).collect()
        });
        self.states.push(State { name: name.into(), minutes, values, firing: firing.to_vec() });
    }

    /// An alert that no state of the year makes here, and why.
    pub(super) fn leave_out(&mut self, alert: &'static str, reason: &str) {
        eprintln!("{alert} is not tried: {reason}");
        self.left_out.push(alert);
    }

    /// The file for promtool: each alert fires in the states that name it alone, and once.
    fn test(&self, names: &[String]) -> String {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for values in self.states.iter().filter_map(|state| state.values.as_ref()) {
            all.extend(values.keys().map(String::as_str));
        }
        let mut text = format!(
            "rule_files: [{ROOT}/{RULES}]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n"
        );
        let mut add = |series: &str, values: &[String]| {
            let series = series.replace('\'', "''");
            writeln!(text, "      - series: '{series}'\n        values: '{}'", values.join(" "))
                .expect("a string takes every write");
        };
        let up =
            |state: &State| format!("{}+0x{}", u8::from(state.values.is_some()), state.minutes - 1);
        add(&format!("up{{{TARGET}}}"), &self.states.iter().map(up).collect::<Vec<_>>());
        for name in all {
            let mut before = None;
            let chunk = |state: &State| {
                let now = state.values.as_ref().and_then(|values| values.get(name)).copied();
                samples(name, state.minutes, std::mem::replace(&mut before, now), now)
            };
            add(name, &self.states.iter().map(chunk).collect::<Vec<_>>());
        }
        text.push_str("    promql_expr_test:\n");
        let mut expect = |expression: &str, at: usize, names: &mut dyn Iterator<Item = &str>| {
            let found: Vec<_> = names
                .map(|name| format!("{{labels: '{{alertname=\"{name}\"}}', value: 1}}"))
                .collect();
            writeln!(
                text,
                "      - expr: '{expression}'\n        eval_time: {at}m\n        exp_samples: [{}]",
                found.join(", ")
            )
            .expect("a string takes every write");
        };
        let firing = "group by (alertname) (ALERTS{alertstate=\"firing\"})";
        let mut end = 0;
        for state in &self.states {
            end += state.minutes;
            // The name of the state is in the expression, so a failure names it.
            let expression = format!("{firing} # {}", state.name.replace('\'', "''"));
            expect(&expression, end - 1, &mut state.firing.iter().copied());
        }
        let began = format!(
            "{firing} unless group by (alertname) (ALERTS{{alertstate=\"firing\"}} offset 1m)"
        );
        let often = format!("sum_over_time(({began})[{end}m:1m])");
        let all = names.iter().map(String::as_str);
        expect(&often, end - 1, &mut all.filter(|name| !self.left_out.contains(name)));
        text
    }

    /// Has promtool evaluate the rules, and fails unless each alert fires once, where it should, and ends.
    pub(super) fn each_fired_once_and_ended(&self, directory: &Path) {
        let installed = Command::new(Path::new(ROOT).join("tests/prometheus/install")).output();
        let installed = installed.expect("bash starts");
        assert!(installed.status.success(), "{installed:?}");
        let promtool = String::from_utf8(installed.stdout).expect("a path");
        let file = directory.join("alerts-of-the-year.yml");
        std::fs::write(&file, self.test(&names())).expect("it is written");
        let told = Command::new(promtool.trim()).args(["test", "rules"]).arg(&file).output();
        let told = told.expect("promtool starts");
        let says = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(told.status.success(), "{}{}", says(&told.stdout), says(&told.stderr));
    }
}

/// The names of all alerts.
pub(super) fn names() -> Vec<String> {
    let bytes = std::fs::read(Path::new(ROOT).join(RULES)).expect("the rules");
    let rules = callboard_protocol::document::yaml::parse(&bytes).expect("YAML");
    let groups = rules["groups"].as_array().expect("groups");
    let all = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules"));
    all.map(|rule: &Value| rule["alert"].as_str().expect("an alert").to_owned()).collect()
}
