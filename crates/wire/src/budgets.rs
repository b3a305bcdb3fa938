//! Budgets of many tasks, and usage, on the wire.

use std::borrow::Cow;
use std::time::Duration;

use callboard_domain::budget::Money;
use callboard_domain::id::BudgetId;
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::spending::{
    Budget, BudgetChange, Ledger, MAX_ALERTS, MAX_LIMIT, MAX_ZONE, Match, OnExceed, Period,
    check_zone,
};
use callboard_domain::{Rule, Timestamp};
use callboard_runtime::read::usage::{Asked, GroupBy, Sum, Usages};
use callboard_runtime::tables::BudgetEvent;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused, shape};
use super::tasks::name;
use crate::request;

/// The default period of usage, back from now.
const USUAL_TIME: Duration = Duration::from_hours(30 * 24);

request! {
    /// The budgets to list; the newest first.
    #[derive(Debug)]
    pub struct ListBudgets as "ListBudgets" {
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// The tasks of a budget: those that match every given member.
    #[derive(Debug, Clone, Default)]
    pub struct BudgetMatch as "BudgetMatch" {
        /// All of these tags.
        tags: Vec<String> = or_default("tags", rule::list(0..=MAX_TAGS, tag())),
        /// The id of the user or key that submits.
        account: Option<String> = optional("account", rule::text(rule::characters(1..=64))),
        /// The id of the template that the execution was deployed from.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=128))),
        /// The model.
        model: Option<String> = optional("model", name()),
    }
}

request! {
    /// A budget to be created.
    #[derive(Debug, Clone)]
    pub struct CreateBudget as "CreateBudget" {
        /// The tasks that it is for; an empty object is for all.
        matches: BudgetMatch = required("match", rule::object::<BudgetMatch>()),
        /// The limit of a period, in USD.
        limit: f64 = required("limit", limit()),
        /// day, week (from Monday), month, or total, which never resets.
        period: Period = required("period", rule::one_of(&Period::ALL, Period::as_str)),
        /// The IANA name of the zone whose midnights count; by default UTC.
        timezone: Option<String> = optional("timezone", zone()),
        /// The shares of the limit at which `budget.alert` is sent: above 0 and below 1; by default 0.5 and 0.8.
        alert_at: Option<Vec<f64>> = optional("alertAt", shares()),
        /// wait (by default), reject or alert.
        on_exceed: Option<OnExceed> =
            optional("onExceed", rule::one_of(&OnExceed::ALL, OnExceed::as_str)),
    }
}

request! {
    /// A change of a budget; a member that is left out stays as it is.
    #[derive(Debug, Clone)]
    pub struct ChangeBudget as "ChangeBudget" {
        /// The limit of a period, in USD.
        limit: Option<f64> = optional("limit", limit()),
        /// The shares of the limit at which `budget.alert` is sent.
        alert_at: Option<Vec<f64>> = optional("alertAt", shares()),
        /// wait, reject or alert.
        on_exceed: Option<OnExceed> =
            optional("onExceed", rule::one_of(&OnExceed::ALL, OnExceed::as_str)),
    }
}

request! {
    /// The period of a usage report, and its grouping.
    #[derive(Debug, Clone)]
    pub struct AskUsage as "AskUsage" {
        /// tag, account, template, model, day (of the result) or tagKey.
        group_by: GroupBy = required("groupBy", rule::one_of(&GroupBy::ALL, GroupBy::as_str)),
        /// The IANA name of the zone whose days count; by default UTC.
        timezone: Option<String> = optional("timezone", zone()),
        /// Only with `groupBy=tagKey`, and required there: `customer` groups by the rest of the tags
        /// `customer:…`.
        tag_key: Option<String> = optional("tagKey", tag()),
        /// The earliest result of the counted tasks; by default 30 days before `to`.
        from: Option<Timestamp> = optional("from", rule::instant()),
        /// The instant before which the results of the counted tasks came; by default now.
        to: Option<Timestamp> = optional("to", rule::instant()),
    }
    check is_a_time
}

fn tag() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_TAG))
}

fn limit() -> impl Parse<f64> {
    rule::number(0.0..=MAX_LIMIT)
}

fn zone() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_ZONE)).then(|zone| check_zone(&zone).map(|()| zone))
}

fn shares() -> impl Parse<Vec<f64>> {
    let is_share = |share: &f64| *share > 0.0 && *share < 1.0;
    let share = rule::number(0.0..=1.0).only(is_share, Rule::Range, "must be above 0 and below 1");
    rule::list(0..=MAX_ALERTS, share).map(|mut shares: Vec<f64>| {
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        shares
    })
}

fn is_a_time(asked: AskUsage, fields: &mut Fields<'_>) -> Result<AskUsage, Refused> {
    let by_key = asked.group_by == GroupBy::TagKey;
    if by_key != asked.tag_key.is_some() {
        let rule = if by_key { Rule::Required } else { Rule::Unknown };
        return Err(fields.refuse(
            "tagKey",
            rule,
            "must be given with groupBy=tagKey, and only there",
        ));
    }
    in_order(asked.from, asked.to, fields)?;
    Ok(asked)
}

/// Refuses a period that ends before it begins.
pub(super) fn in_order(
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    fields: &mut Fields<'_>,
) -> Result<(), Refused> {
    match (from, to) {
        (Some(from), Some(to)) if from >= to => {
            Err(fields.refuse("from", Rule::Range, "must be before to"))
        }
        _ => Ok(()),
    }
}

/// The question of a period, with defaults filled in.
pub(super) fn in_period(from: Option<Timestamp>, to: Option<Timestamp>, now: Timestamp) -> Asked {
    let to = to.unwrap_or(now);
    let usual = to.as_millis().saturating_sub(millis(USUAL_TIME));
    Asked {
        group_by: GroupBy::Model,
        zone: "UTC".to_owned(),
        tag_key: String::new(),
        from: from.unwrap_or(Timestamp::from_millis(usual)),
        to,
    }
}

impl AskUsage {
    /// The question, with defaults filled in.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Asked {
        let asked = in_period(self.from, self.to, now);
        Asked {
            group_by: self.group_by,
            zone: self.timezone.unwrap_or(asked.zone),
            tag_key: self.tag_key.unwrap_or_default(),
            ..asked
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl CreateBudget {
    /// The budget with this identifier.
    #[must_use]
    pub fn budget(self, id: BudgetId) -> Budget {
        let BudgetMatch { tags, account, template_id, model } = self.matches;
        Budget {
            id,
            matches: Match { tags, account, template: template_id, model },
            limit: Money::from_usd(self.limit),
            period: self.period,
            timezone: self.timezone.unwrap_or_else(|| "UTC".to_owned()),
            alert_at: self.alert_at.unwrap_or_else(|| vec![0.5, 0.8]),
            on_exceed: self.on_exceed.unwrap_or(OnExceed::Wait),
        }
    }
}

impl From<ChangeBudget> for BudgetChange {
    fn from(change: ChangeBudget) -> Self {
        let ChangeBudget { limit, alert_at, on_exceed } = change;
        Self { limit: limit.map(Money::from_usd), alert_at, on_exceed }
    }
}

/// The tasks that a budget is for.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetMatchBody<'a> {
    /// All of these tags.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The account that submits.
    account: Option<&'a str>,
    /// The template.
    template_id: Option<&'a str>,
    /// The model.
    model: Option<&'a str>,
}

/// A budget of many tasks.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetBody<'a> {
    /// `bdg_…`
    #[schema(value_type = String)]
    id: Text<BudgetId>,
    /// The tasks that it is for.
    #[serde(rename = "match")]
    matches: BudgetMatchBody<'a>,
    /// The limit of a period, in USD.
    limit: f64,
    /// day, week, month or total.
    period: &'static str,
    /// The zone whose midnights count.
    timezone: &'a str,
    /// The shares of the limit at which `budget.alert` is sent.
    alert_at: &'a [f64],
    /// wait, reject or alert.
    on_exceed: &'static str,
    /// The costs in the period, in USD.
    spent: f64,
    /// The highest costs of tasks that have not ended, in USD; not in events.
    reserved: Option<f64>,
    /// The beginning of the period.
    period_start: Option<Iso>,
    /// The end of the period.
    period_end: Option<Iso>,
    /// The share that was passed, in `budget.alert`.
    share: Option<f64>,
    /// The time of creation.
    created_at: Iso,
}

impl<'a> BudgetBody<'a> {
    /// A budget as it stands.
    #[must_use]
    pub fn of(ledger: &'a Ledger) -> Self {
        let Ledger { budget, since, until, spent, reserved } = ledger;
        Self {
            reserved: Some(reserved.as_usd()),
            period_end: until.map(Iso),
            ..Self::basic(budget, *since, *spent)
        }
    }

    /// A budget as an event knows it.
    #[must_use]
    pub fn in_event(event: &'a BudgetEvent) -> Self {
        Self { share: event.share, ..Self::basic(&event.budget, event.since, event.spent) }
    }

    fn basic(budget: &'a Budget, since: Timestamp, spent: Money) -> Self {
        let Budget { id, matches, limit, period, timezone, alert_at, on_exceed } = budget;
        let Match { tags, account, template, model } = matches;
        Self {
            id: Text(*id),
            matches: BudgetMatchBody {
                tags,
                account: account.as_deref(),
                template_id: template.as_deref(),
                model: model.as_deref(),
            },
            limit: limit.as_usd(),
            period: period.as_str(),
            timezone,
            alert_at,
            on_exceed: on_exceed.as_str(),
            spent: spent.as_usd(),
            reserved: None,
            period_start: (*period != Period::Total).then_some(Iso(since)),
            period_end: None,
            share: None,
            created_at: Iso(id.created_at()),
        }
    }
}

/// The usage of some tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageSumBody<'a> {
    /// The tag, account, template, model, day, or the rest of a tag behind its key; left out for tasks that have none, and of the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    key: Option<Cow<'a, str>>,
    /// Tasks with a result.
    tasks: u64,
    /// Input tokens.
    input: u64,
    /// Output tokens.
    output: u64,
    /// USD.
    total_cost: f64,
    /// True if a model had no price, which counts as 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
}

/// The usage of tasks, in groups.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageGroupsBody<'a> {
    /// tag, account, template, model, day or tagKey.
    group_by: &'static str,
    /// The earliest result of the counted tasks.
    from: Iso,
    /// The instant before which the results of the counted tasks came.
    to: Iso,
    /// The groups, the highest cost first; at most 1,000.
    groups: Vec<UsageSumBody<'a>>,
    /// True if groups are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// All tasks, each once.
    total: UsageSumBody<'a>,
}

impl<'a> UsageSumBody<'a> {
    /// The sum of a group, or of all.
    pub(super) fn of(key: Option<&'a str>, sum: &Sum) -> Self {
        let key = key.map(Cow::Borrowed);
        let Sum { tasks, input, output, cost, price_unknown } = *sum;
        Self { key, tasks, input, output, total_cost: cost.as_usd(), price_unknown }
    }
}

impl<'a> UsageGroupsBody<'a> {
    /// The groups of a time.
    #[must_use]
    pub fn of(asked: &Asked, usages: &'a Usages) -> Self {
        let groups = usages.groups.iter();
        Self {
            group_by: asked.group_by.as_str(),
            from: Iso(asked.from),
            to: Iso(asked.to),
            groups: groups.map(|(key, sum)| UsageSumBody::of(key.as_deref(), sum)).collect(),
            truncated: usages.truncated,
            total: UsageSumBody::of(None, &usages.total),
        }
    }
}
