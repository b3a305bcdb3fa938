//! The report: figures, baselines, ratios and verdicts, and the place of the measurement.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::meter::{Summary, median};
use super::place::Place;

/// The target of a ratio, or of a figure that has no baseline.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One line of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    target: &'static str,
    work: String,
    unit: &'static str,
    figure: f64,
    baseline: Option<f64>,
    /// Figure ÷ baseline, the median of the rounds.
    ratio: Option<f64>,
    /// The ratio of each round.
    ratios: Vec<f64>,
    /// The target of the ratio, else of the figure; none where the row is only reported, or has no
    /// baseline to compare with.
    bound: Option<Bound>,
    met: Option<bool>,
    /// The name of the baseline beside the latencies.
    #[serde(skip)]
    beside: String,
    ours: Option<Summary>,
    least: Option<Summary>,
}

/// Measurements, one a round, and the figure of them that counts.
type Rounds<'r> = (&'r [Summary], fn(&Summary) -> f64);

impl Row {
    /// A row without a figure yet.
    pub(super) fn of(target: &'static str, work: impl Into<String>, unit: &'static str) -> Self {
        Self {
            target,
            work: work.into(),
            unit,
            figure: f64::NAN,
            baseline: None,
            ratio: None,
            ratios: Vec::new(),
            bound: None,
            met: None,
            beside: "its baseline".into(),
            ours: None,
            least: None,
        }
    }

    /// Adds a figure beside its baseline, which may not have been measured.
    pub(super) fn beside(
        mut self,
        (ours, figure): Rounds<'_>,
        (least, baseline): Rounds<'_>,
    ) -> Self {
        self.figure = median(ours.iter().map(figure));
        self.ours = Some(Summary::median(ours));
        // Without a baseline, a bound cannot be judged.
        self.ratio = Some(f64::NAN);
        if !least.is_empty() {
            let rounds = ours.iter().zip(least);
            self.ratios = rounds.map(|(ours, least)| figure(ours) / baseline(least)).collect();
            self.ratio = Some(median(self.ratios.iter().copied()));
            self.baseline = Some(median(least.iter().map(baseline)));
            self.least = Some(Summary::median(least));
        }
        self
    }

    /// Adds a figure without a baseline.
    pub(super) fn figure(mut self, figure: f64) -> Self {
        self.figure = figure;
        self
    }

    /// Adds latencies.
    pub(super) fn latencies(mut self, summary: Summary) -> Self {
        self.ours = Some(summary);
        self
    }

    /// Gives the baseline another name.
    pub(super) fn against(mut self, name: impl Into<String>) -> Self {
        self.beside = name.into();
        self
    }

    /// Adds a target.
    pub(super) fn bound(mut self, bound: Bound) -> Self {
        let judged = self.ratio.unwrap_or(self.figure);
        if judged.is_nan() {
            self.ratio = None;
            return self;
        }
        self.bound = Some(bound);
        self.met = Some(bound.is_met_by(judged));
        self
    }

    /// Removes the bound, and adds `place` behind the work's name.
    pub(super) fn unjudged(mut self, place: &str) -> Self {
        self.work.push_str(place);
        (self.bound, self.met) = (None, None);
        self
    }

    fn verdict(&self) -> String {
        let judged = self.ratio.unwrap_or(self.figure);
        match (self.met, self.bound) {
            (Some(true), _) => "met".into(),
            (Some(false), Some(Bound::AtLeast(bound) | Bound::AtMost(bound))) => {
                let percent = 100.0 * (judged - bound).abs() / bound;
                format!(
                    "missed by {} %",
                    if percent < 1.0 { number(percent) } else { format!("{percent:.0}") }
                )
            }
            _ => "–".into(),
        }
    }

    /// The ratio, and the spread of the rounds' ratios.
    fn ratios(&self) -> String {
        let least = self.ratios.iter().copied().min_by(f64::total_cmp);
        let most = self.ratios.iter().copied().max_by(f64::total_cmp);
        match (self.ratio, least, most) {
            (Some(ratio), Some(least), Some(most)) if self.ratios.len() > 1 => {
                format!("{} ({} to {})", number(ratio), number(least), number(most))
            }
            (Some(ratio), ..) => number(ratio),
            (None, ..) => "–".into(),
        }
    }

    fn wanted(&self) -> String {
        let unit = if self.ratio.is_some() { "" } else { self.unit };
        match self.bound {
            Some(Bound::AtLeast(bound)) => format!("≥ {bound} {unit}").trim_end().to_owned(),
            Some(Bound::AtMost(bound)) => format!("≤ {bound} {unit}").trim_end().to_owned(),
            None => "–".into(),
        }
    }
}

impl Bound {
    fn is_met_by(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

/// All measured rows.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// The targets that were missed.
    #[must_use]
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.rows.iter().filter(|row| row.met == Some(false));
        missed.map(|row| format!("{} {}: {}", row.target, row.work, row.verdict())).collect()
    }

    /// The report for people, in Markdown. `directory` is on the disk that was measured.
    #[must_use]
    pub(super) fn table(&self, directory: &Path) -> String {
        format!("{}\n\n{}", Place::here(directory).line(), self.tables())
    }

    fn tables(&self) -> String {
        let mut text = String::from(
            "| # | work | figure | baseline | ratio | target | verdict |\n|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let optional = |figure: Option<f64>| figure.map_or_else(|| "–".into(), number);
            let _ = writeln!(
                text,
                "| {} | {} | {} {} | {} | {} | {} | {} |",
                row.target,
                row.work,
                number(row.figure),
                row.unit,
                optional(row.baseline),
                row.ratios(),
                row.wanted(),
                row.verdict(),
            );
        }
        text += "\n| # | latency in ms | p50 | p90 | p99 | p99.9 | a second |\n|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            let both = [(&row.work, row.ours), (&row.beside, row.least)];
            for (what, summary) in both.into_iter().filter_map(|(what, s)| Some((what, s?))) {
                let Summary { rate, p50, p90, p99, p999 } = summary;
                let _ = writeln!(
                    text,
                    "| {} | {what} | {p50:.2} | {p90:.2} | {p99:.2} | {p999:.2} | {} |",
                    row.target,
                    number(rate),
                );
            }
        }
        text
    }

    /// The report for programs: one object.
    #[must_use]
    pub(super) fn json(&self, directory: &Path) -> String {
        let place = Place::here(directory);
        json!({"machine": place, "date": place.date, "commit": place.commit, "rows": self.rows})
            .to_string()
    }
}

/// A figure, rounded.
fn number(figure: f64) -> String {
    match figure {
        figure if figure.abs() >= 1000.0 => format!("{figure:.0}"),
        figure if figure.abs() >= 10.0 => format!("{figure:.1}"),
        figure if figure.abs() >= 0.1 || figure == 0.0 => format!("{figure:.2}"),
        figure => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rate: f64) -> Summary {
        Summary { rate, p50: 1.0, p90: 2.0, p99: 3.0, p999: 4.0 }
    }

    fn rate(summary: &Summary) -> f64 {
        summary.rate
    }

    #[test]
    fn the_median_of_the_rounds_ratios_is_judged() {
        let ours = [summary(50.0), summary(80.0), summary(90.0)];
        let least = [summary(100.0); 3];
        let row = Row::of("T1", "work", "requests/s").beside((&ours, rate), (&least, rate));
        let row = row.bound(Bound::AtLeast(1.0));
        let mut report = Report::default();
        report
            .extend(vec![row, Row::of("T9", "start", "ms").figure(5.0).bound(Bound::AtMost(9.0))]);
        assert_eq!(report.missed(), ["T1 work: missed by 20 %"]);
        let lines: Vec<_> = report.tables().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[2],
            "| T1 | work | 80.0 requests/s | 100.0 | 0.80 (0.50 to 0.90) | ≥ 1 | missed by 20 % |"
        );
        assert_eq!(lines[3], "| T9 | start | 5.00 ms | – | – | ≤ 9 ms | met |");
        assert_eq!(lines[7], "| T1 | work | 1.00 | 2.00 | 3.00 | 4.00 | 80.0 |");
        assert_eq!(lines[8], "| T1 | its baseline | 1.00 | 2.00 | 3.00 | 4.00 | 100.0 |");
    }

    #[test]
    fn what_is_missed_by_little_is_not_missed_by_nothing() {
        let row = Row::of("T1", "work", "").figure(0.597).bound(Bound::AtLeast(0.6));
        assert_eq!(row.verdict(), "missed by 0.50 %");
    }

    #[test]
    fn without_a_baseline_there_is_no_verdict() {
        let row = Row::of("T1", "work", "requests/s").beside((&[summary(50.0)], rate), (&[], rate));
        let row = row.bound(Bound::AtLeast(0.6));
        assert_eq!((row.verdict().as_str(), row.wanted().as_str()), ("–", "–"));
        let mut report = Report::default();
        report.extend(vec![row]);
        assert!(report.missed().is_empty());
        let json: serde_json::Value =
            serde_json::from_str(&report.json(Path::new("/"))).expect("JSON");
        assert_eq!(json["rows"][0]["met"], serde_json::Value::Null);
        assert_eq!(json["rows"][0]["ours"]["p999"], 4.0);
    }
}
