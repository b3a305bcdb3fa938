//! The comparison of two batches.

use callboard_domain::batch::MAX_ROWS;
use callboard_domain::batch::compare::{Agreement, Figures, MAX_FIELDS, Outcome};
use callboard_domain::budget::Money;
use callboard_domain::id::TemplateBatchId;
use callboard_runtime::read::batches::compare::{Compare, ComparedPair, Comparison};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::rows::{BatchRowBody, page_size, step};
use crate::common::Text;
use crate::read::rule;
use crate::request;

/// The pairs of a page if no number is given.
const PAGE: usize = 20;
/// The most pairs of two batches.
const MAX_PAIRS: u32 = 2 * MAX_ROWS;

request! {
    /// The comparison of two batches.
    #[derive(Debug)]
    pub struct CompareBatches as "CompareBatches" {
        /// The step whose outputs are compared; by default the last one of each batch.
        step: Option<String> = optional("step", step()),
        /// The members of the outputs that are compared, separated by commas; by default all.
        fields: Option<Vec<String>> =
            optional("fields", rule::commas(1..=MAX_FIELDS, rule::text(rule::characters(1..=200)))),
        /// The outcomes of the items, separated by commas; by default differs.
        outcome: Option<Vec<Outcome>> = optional("outcome",
            rule::commas(1..=Outcome::ALL.len(), rule::one_of(&Outcome::ALL, Outcome::as_str))),
        /// The most items of the page; by default 20.
        limit: Option<usize> = optional("limit", page_size()),
        /// The `nextCursor` of the page before.
        cursor: Option<u32> = optional("cursor", rule::whole(1..=MAX_PAIRS)),
    }
}

impl CompareBatches {
    /// The step, as it was asked for.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        self.step.as_deref()
    }

    /// The comparison for the runtime.
    #[must_use]
    pub fn order(&self) -> Compare {
        Compare {
            step: self.step.clone(),
            fields: self.fields.clone().unwrap_or_default(),
            outcomes: self.outcome.clone().unwrap_or_else(|| vec![Outcome::Differs]),
            after: self.cursor.map(|pair| pair.saturating_sub(1)),
            limit: self.limit.unwrap_or(PAGE),
        }
    }
}

/// Two batches side by side; rows with the same key are compared.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BatchComparison)]
pub struct ComparisonBody<'a> {
    /// The first batch.
    #[schema(value_type = String)]
    a: Text<TemplateBatchId>,
    /// The second batch.
    #[schema(value_type = String)]
    b: Text<TemplateBatchId>,
    /// The step that was asked for; left out for the last one of each batch.
    step: Option<&'a str>,
    /// False while rows are still being read: the figures are those of the first `compared` rows.
    is_complete: bool,
    /// The number of rows that were looked at so far.
    compared: u32,
    /// The rows by batch.
    rows: ComparedRowsBody,
    /// Rows of both batches with equal outputs.
    equal: u32,
    /// Rows of both batches whose outputs differ.
    differs: u32,
    /// Rows of both batches of which one waits, runs, is held, or has an output that is no longer kept.
    unfinished: u32,
    /// Rows of both batches that ended without an output.
    failed: ComparedFailuresBody,
    /// The members of the outputs, in the order of their first appearance.
    by_field: Vec<ComparedFieldBody<'a>>,
    /// The cost of each batch, in USD.
    cost: ComparedCostBody,
    /// The agreement of the outputs with the reviewers' decisions.
    agreement: ComparedAgreementBody,
    /// Rows with the outcomes that were asked for, in the order of the first batch.
    items: Vec<ComparedItemBody<'a>>,
    /// The `cursor` of the next page; left out on the last one.
    next_cursor: Option<u32>,
}

/// The number of keys by batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedRowsBody {
    /// Keys of both.
    both: u32,
    /// Keys of the first alone.
    only_a: u32,
    /// Keys of the second alone.
    only_b: u32,
}

/// The number of rows of both batches that ended without an output.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedFailuresBody {
    /// In the first.
    a: u32,
    /// In the second.
    b: u32,
    /// Rows that have ended in both, and so in at least one.
    either: u32,
}

/// A member of the outputs.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedFieldBody<'a> {
    /// The name.
    field: &'a str,
    /// Compared rows in which it is equal, or absent on both sides.
    equal: u32,
    /// Compared rows in which it differs.
    differs: u32,
}

/// The cost of two batches, in USD.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedCostBody {
    /// Of the first.
    a: f64,
    /// Of the second.
    b: f64,
}

/// The agreement of two batches with the decisions.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedAgreementBody {
    /// Of the first.
    a: AgreementBody,
    /// Of the second.
    b: AgreementBody,
}

/// The agreement of outputs with the reviewers' decisions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchAgreement)]
pub struct AgreementBody {
    /// Outputs that a decision tells right or wrong.
    decided: u32,
    /// Those that are right.
    agrees: u32,
}

impl From<Agreement> for AgreementBody {
    fn from(Agreement { decided, agrees }: Agreement) -> Self {
        Self { decided, agrees }
    }
}

/// A key of one or both batches.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparedItemBody<'a> {
    /// The key.
    key: &'a str,
    /// equal, differs, unfinished, failed, onlyA or onlyB.
    outcome: &'static str,
    /// The members that differ.
    fields: &'a [String],
    /// The row of the first batch.
    a: Option<BatchRowBody<'a>>,
    /// The row of the second batch.
    b: Option<BatchRowBody<'a>>,
}

impl<'a> From<&'a ComparedPair> for ComparedItemBody<'a> {
    fn from(pair: &'a ComparedPair) -> Self {
        let [a, b] = pair.rows.each_ref();
        let row = a.as_ref().or(b.as_ref());
        let shown = |row: &'a Option<_>| {
            row.as_ref().map(|(row, step)| BatchRowBody::with_output_of(row, Some(*step)))
        };
        Self {
            key: row.map_or("", |(row, _)| row.row.key.as_str()),
            outcome: pair.outcome.as_str(),
            fields: &pair.fields,
            a: shown(a),
            b: shown(b),
        }
    }
}

impl<'a> ComparisonBody<'a> {
    /// A comparison of this step.
    #[must_use]
    pub fn of(comparison: &'a Comparison, step: Option<&'a str>) -> Self {
        let Figures { both, only_a, only_b, equal, differs, unfinished, failed, fields, agreement } =
            &comparison.figures;
        let compared = equal + differs;
        let by_field = fields.iter().map(|(field, differs)| ComparedFieldBody {
            field,
            equal: compared.saturating_sub(*differs),
            differs: *differs,
        });
        let [a, b] = &comparison.batches;
        let cost = |view: &callboard_runtime::read::batches::BatchView| view.batch.spent.cost;
        Self {
            a: Text(a.batch.id),
            b: Text(b.batch.id),
            step,
            is_complete: comparison.is_complete,
            compared: comparison.compared,
            rows: ComparedRowsBody { both: *both, only_a: *only_a, only_b: *only_b },
            equal: *equal,
            differs: *differs,
            unfinished: *unfinished,
            failed: ComparedFailuresBody { a: failed[0], b: failed[1], either: failed[2] },
            by_field: by_field.collect(),
            cost: ComparedCostBody { a: Money::as_usd(cost(a)), b: Money::as_usd(cost(b)) },
            agreement: ComparedAgreementBody { a: agreement[0].into(), b: agreement[1].into() },
            items: comparison.pairs.iter().map(ComparedItemBody::from).collect(),
            next_cursor: comparison.next.map(|pair| pair + 1),
        }
    }
}
