//! The limits: accounts of several tiers, queues, models, and two hundred budgets; and a steward, who looks at the
//! budgets and raises what is used up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_disk::Random;
use serde_json::{Value, json};

use super::ledger::{Call, MODELS, Sum};
use super::load;
use super::site::{Asker, Site};

/// The settings of the server, beside those of its place. A file of prices comes besides.
pub(super) const SETTINGS: [(&str, &str); 16] = [
    ("LIMITS_FREE__REQUESTS_PER_MINUTE", "10000000"),
    ("LIMITS_PRO__REQUESTS_PER_MINUTE", "10000000"),
    ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000"),
    ("LIMITS_FREE__CONCURRENT_TASKS", "3"),
    ("LIMITS_PRO__CONCURRENT_TASKS", "6"),
    ("LIMITS_ENTERPRISE__CONCURRENT_TASKS", "12"),
    ("LIMITS__UNFINISHED_TASKS", "300"),
    ("RETENTION__ENDED", "2s"),
    ("RETENTION__HISTORY", "2s"),
    ("EVENTS__KEEP_MAX", "5000"),
    ("WORKER__LEASE", "3s"),
    ("WORKER__HEARTBEAT", "500ms"),
    ("WORKER__SILENT_AFTER", "1500ms"),
    ("WEBHOOKS__ALLOW", "127.0.0.1/32"),
    ("MODELS__DEFAULT", "cheap"),
    ("RUNTIME__SHARDS", "2"),
];
/// The tiers of the accounts, with the tasks of each that run at once.
pub(super) const TIERS: [(&str, usize); 4] =
    [("free", 3), ("pro", 6), ("enterprise", 12), ("enterprise", 12)];
/// How many tasks of an account may be unfinished.
pub(super) const UNFINISHED: usize = 300;
/// How many tasks of the queue `narrow` run at once.
pub(super) const NARROW: usize = 5;
/// How many calls to the dear model run at once.
pub(super) const CALLS: usize = 4;

/// No work of this test reaches it.
const PLENTY: f64 = 1e6;
/// A limit that is used up soon, and as much more each time that it is raised.
const LITTLE: f64 = 0.3;

/// The prices, in the form of the server's table.
pub(super) fn prices() -> Value {
    let price = |ticks: u64| crate::soak::gauges::count(ticks) / 10_000.0;
    MODELS
        .iter()
        .map(|(name, input, output)| {
            let prices = json!({"input_cost_per_token": price(*input), "output_cost_per_token": price(*output)});
            ((*name).to_owned(), prices)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) key: String,
}

/// A budget, and the calls that count for it.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) id: String,
    pub(super) rule: &'static str,
    tags: Vec<String>,
    account: Option<usize>,
    deployed: bool,
    model: Option<&'static str>,
    is_tight: bool,
}

impl Budget {
    fn counts(&self, call: &Call) -> bool {
        let about = &call.about;
        self.tags.iter().all(|tag| about.tags.contains(tag))
            && self.account.is_none_or(|account| account == about.account)
            && (!self.deployed || about.deployed)
            && self.model.is_none_or(|model| model == call.model)
    }

    /// Budget `number` of two hundred.
    fn draft(number: usize) -> Self {
        let rule = ["wait", "reject", "alert"][number % 3];
        let mut budget = Self {
            id: String::new(),
            rule,
            tags: Vec::new(),
            account: None,
            deployed: false,
            model: None,
            is_tight: false,
        };
        let tag = |number: usize| format!("t{}", number % 40);
        match number {
            // Every call counts for these, more than a row of a cost may name.
            0..130 => budget.tags = vec!["all".into()],
            130..170 => {
                budget.tags = vec![tag(number)];
                budget.is_tight = true;
            }
            170..174 => budget.account = Some(number - 170),
            174..177 => budget.model = Some(MODELS[number - 174].0),
            177..180 => budget.deployed = true,
            _ => {
                budget.tags = vec![tag(number), "all".into()];
                budget.model = Some(MODELS[number % 2].0);
                budget.is_tight = true;
            }
        }
        budget
    }
}

/// What was made before the load.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) admin: String,
    pub(super) worker: String,
    pub(super) accounts: Vec<Account>,
    pub(super) plan: String,
    pub(super) template: String,
    pub(super) budgets: Vec<Budget>,
}

impl Access {
    /// Makes everything, as an admin.
    pub(super) async fn set_up(site: &Arc<Site>, admin: &str) -> Arc<Self> {
        let asker = Asker::new(site, admin);
        let made = async |path: &str, body: Value| {
            let answer = asker.post(path, &body, "").await;
            assert!(answer.status.is_success(), "{path} {body}: {}", answer.body);
            answer.body["data"].clone()
        };
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut accounts = Vec::new();
        for (number, (tier, _)) in TIERS.iter().enumerate() {
            let key =
                json!({"name": format!("account {number}"), "role": "operator", "plan": tier});
            let key = made("/api/auth/keys", key).await;
            accounts.push(Account { id: text(&key["id"]), key: text(&key["key"]) });
        }
        let worker = made("/api/auth/keys", json!({"name": "worker", "role": "worker"})).await;
        let plan = made("/api/plans", json!({"name": "soak", "steps": load::steps()})).await;
        let template = json!({
            "name": "Soak", "version": "1.0.0", "industry": "custom", "steps": load::steps(),
            "inputSchema": {
                "type": "object", "required": ["about", "docs"],
                "properties": {"about": {"type": "string"}, "docs": {"type": "array"}},
            },
        });
        let template = text(&made("/api/templates", template).await["id"]);
        for (queue, settings) in [
            ("narrow", json!({"concurrent": NARROW})),
            ("paced", json!({"requestsPerMinute": 240})),
            ("paused", json!({"paused": false})),
        ] {
            let answer = asker.ask("PATCH", &format!("/api/queues/{queue}"), &settings, "").await;
            assert!(answer.status.is_success(), "{}", answer.body);
        }
        let mut budgets = Vec::new();
        for number in 0..200 {
            let mut budget = Budget::draft(number);
            let mut matches = json!({"tags": budget.tags});
            if let Some(account) = budget.account {
                matches["account"] = json!(accounts[account].id);
            }
            if budget.deployed {
                matches["templateId"] = json!(template);
            }
            if let Some(model) = budget.model {
                matches["model"] = json!(model);
            }
            let limit = if budget.is_tight { LITTLE } else { PLENTY };
            let body = json!({"match": matches, "limit": limit, "period": "total", "onExceed": budget.rule});
            budget.id = text(&made("/api/budgets", body).await["id"]);
            budgets.push(budget);
        }
        let access = Self {
            admin: admin.to_owned(),
            worker: text(&worker["key"]),
            accounts,
            plan: text(&plan["id"]),
            template,
            budgets,
        };
        Arc::new(access)
    }
}

/// Limits the models, or takes their limits away, so that what waits for them goes on.
pub(super) async fn limit_models(asker: &Asker, is_limited: bool, calls_a_minute: u64) {
    let dear = json!({
        "requestsPerMinute": calls_a_minute, "tokensPerMinute": 200 * calls_a_minute, "concurrent": CALLS,
    });
    let cheap = json!({"requestsPerMinute": 6_000, "inputTokensPerMinute": 500_000, "outputTokensPerMinute": 500_000});
    for (model, limits) in [("dear", dear), ("cheap", cheap)] {
        let limits = if is_limited { limits } else { json!({}) };
        let answer = asker.ask("PUT", &format!("/api/models/{model}/limits"), &limits, "").await;
        assert!(answer.status.is_success(), "{}", answer.body);
    }
}

async fn budgets(asker: &Asker) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for page in 0..2 {
        let page = asker.get(&format!("/api/budgets?limit=100&offset={}", 100 * page)).await;
        let page = page.as_array().cloned().expect("a list").into_iter();
        all.extend(page.map(|budget| (budget["id"].as_str().expect("an id").to_owned(), budget)));
    }
    all
}

fn amount(budget: &Value, name: &str) -> f64 {
    budget[name].as_f64().expect("an amount")
}

async fn raise(asker: &Asker, budget: &str, limit: f64) {
    asker.ask("PATCH", &format!("/api/budgets/{budget}"), &json!({"limit": limit}), "").await;
}

/// Raises what is used up, and sees that no budget that holds tasks back is ever passed.
pub(super) async fn steward(site: Arc<Site>, access: Arc<Access>, seed: u64) {
    let (asker, mut random) = (Asker::new(&site, &access.admin), Random::new(seed));
    while site.is_open() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let amounts = budgets(&asker).await;
        for budget in access.budgets.iter().filter(|budget| budget.is_tight) {
            let it = &amounts[&budget.id];
            let (limit, taken) =
                (amount(it, "limit"), amount(it, "spent") + amount(it, "reserved"));
            if budget.rule != "alert" && taken > limit + 1e-6 {
                site.ledger().fault(format!("a budget is passed: {it}"));
            }
            if taken > limit - LITTLE / 3.0 && random.below(3) == 0 {
                raise(&asker, &budget.id, limit + LITTLE).await;
            }
        }
    }
}

/// Gives every budget plenty.
pub(super) async fn lift(asker: &Asker, access: &Access) {
    for budget in access.budgets.iter().filter(|budget| budget.is_tight) {
        raise(asker, &budget.id, PLENTY).await;
    }
}

/// The budgets whose sum is not what the workers say, and those in which something is reserved.
pub(super) async fn wrong_budgets(asker: &Asker, access: &Access) -> Vec<String> {
    let (seen, mut wrong) = (budgets(asker).await, Vec::new());
    let ledger = asker.site.ledger();
    for budget in &access.budgets {
        let it = &seen[&budget.id];
        let sum = Sum::of(ledger.calls.values().filter(|call| budget.counts(call)));
        if !sum.is(&it["spent"]) {
            wrong.push(format!("spent {} of {it}, and the workers say {sum:?}", it["spent"]));
        }
        if amount(it, "reserved") != 0.0 {
            wrong.push(format!("reserved {} of {it}", it["reserved"]));
        }
    }
    wrong
}

/// The amount that is reserved in all budgets.
pub(super) async fn reserved(asker: &Asker) -> f64 {
    budgets(asker).await.values().map(|budget| amount(budget, "reserved")).sum()
}

/// Sets the limit of the first budget that rejects so that so much fits beside what was spent.
pub(super) async fn leave_room(asker: &Asker, access: &Access, room: f64) {
    let rejects = access.budgets.iter().find(|budget| budget.rule == "reject").expect("one");
    let spent = amount(&budgets(asker).await[&rejects.id], "spent");
    raise(asker, &rejects.id, spent + room).await;
}
