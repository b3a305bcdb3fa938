//! Plans and templates, compiled: the definitions of executions.
//!
//! Templates are few and are all kept; plans are many, and the latest used are kept. One actor adds templates, so that
//! two versions never cross.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::account::Email;
use callboard_domain::id::{Environment, Mode, PlanId, Slot};
use callboard_domain::plan::Plan;
use callboard_domain::problem::Problems;
use callboard_domain::query::{Page, Templates};
use callboard_domain::template::{
    BUILT_IN_AUTHOR, Caller, Choice, Overrides, Template, TemplateSource, Version, Visibility,
    may_see,
};
use callboard_store::{Error as StoreError, Op};
use tokio::task::JoinError;

use crate::node::Node;
use crate::tables::plans::{self, TemplateRow};
use crate::tables::{Deployed, PLANS, TEMPLATES};
use callboard_domain::execution::program::CompiledPlan;

mod choices;
mod stored;

use crate::messages::templates::Published;
pub(crate) use stored::row_of;

/// The number of compiled plans that each of the two generations holds.
const GENERATION: usize = 500;
/// The size of the plans of a generation, as they were given, in bytes: compiled they take a few
/// times as much.
const GENERATION_BYTES: usize = 16 << 20;
/// The time for which an estimate is good.
const ESTIMATE: Duration = Duration::from_mins(1);
/// The number of rows that are read at a time.
const PAGE: usize = 1_000;

/// The creation of the templates that come with the service: 2026-01-01T00:00:00Z, for every load of
/// them.
const BUILT_IN_AT: Timestamp = Timestamp::from_millis(1_767_225_600_000);

type Versions = BTreeMap<Version, Arc<Published>>;

/// The compiled plan.
#[derive(Default)]
pub(crate) struct Catalog {
    templates: RwLock<HashMap<(Environment, String), Versions>>,
    choices: RwLock<HashMap<(Environment, String), Choice>>,
    /// The visibility of versions that left the catalog: plans that were made of them remain.
    gone: RwLock<HashMap<Edition, Access>>,
    plans: Mutex<Generations>,
    estimates: Mutex<HashMap<Edition, (Timestamp, CostAndTime)>>,
}

/// A version of a template.
type Edition = (Environment, String, Version);

/// The visibility of a template, and the account of its author.
pub(crate) type Access = (Visibility, Option<String>);

/// The cost of a run in USD, and its duration in milliseconds.
pub(crate) type CostAndTime = (f64, u64);

/// A plan that was used lately.
#[derive(Debug)]
pub(crate) struct Known {
    /// The instant of the plan's creation.
    pub(crate) created_at: Timestamp,
    /// The template that the plan was made of.
    pub(crate) deployed: Option<Deployed>,
    pub(crate) compiled: Arc<CompiledPlan>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<(Environment, PlanId), Arc<Known>>,
    old: HashMap<(Environment, PlanId), Arc<Known>>,
    /// The size of the young plans, in bytes.
    size: usize,
}

impl Generations {
    fn add(&mut self, id: (Environment, PlanId), plan: Arc<Known>) {
        let size = plan.compiled.size();
        if self.young.len() >= GENERATION || self.size + size > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
        self.size += size;
        self.young.insert(id, plan);
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

impl Catalog {
    /// A plan that was used lately.
    pub(crate) fn plan(&self, environment: Environment, id: PlanId) -> Option<Arc<Known>> {
        let mut plans = self.plans();
        if let Some(plan) = plans.young.get(&(environment, id)) {
            return Some(Arc::clone(plan));
        }
        let plan = plans.old.remove(&(environment, id))?;
        plans.add((environment, id), Arc::clone(&plan));
        Some(plan)
    }

    /// Remembers a plan.
    pub(crate) fn keep_plan(&self, environment: Environment, id: PlanId, plan: Arc<Known>) {
        self.plans().add((environment, id), plan);
    }

    /// Forgets a plan that is removed.
    pub(crate) fn forget_plan(&self, environment: Environment, id: PlanId) {
        let mut plans = self.plans();
        plans.young.remove(&(environment, id));
        plans.old.remove(&(environment, id));
    }

    /// A version of a template, or the latest.
    pub(crate) fn template(
        &self,
        environment: Environment,
        id: &str,
        version: Option<Version>,
    ) -> Option<Arc<Published>> {
        let templates = self.templates();
        let versions = templates.get(&(environment, id.to_owned()))?;
        match version {
            Some(version) => versions.get(&version).cloned(),
            None => latest(versions, &self.choice(environment, id)).cloned(),
        }
    }

    /// The version of a template that was made first.
    pub(crate) fn first(&self, environment: Environment, id: &str) -> Option<Arc<Published>> {
        let templates = self.templates();
        let versions = templates.get(&(environment, id.to_owned()))?;
        versions.values().min_by_key(|published| published.created_at).cloned()
    }

    /// The estimate, if it is younger than a minute: past runs are many to read, and change it little.
    pub(crate) fn estimate(
        &self,
        environment: Environment,
        template: &Template,
        now: Timestamp,
    ) -> Option<CostAndTime> {
        let key = (environment, template.id().to_owned(), template.version());
        let estimates = self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, estimate) = estimates.get(&key)?;
        (now.since(*at) < ESTIMATE).then_some(*estimate)
    }

    /// Remembers an estimate for a while.
    pub(crate) fn keep_estimate(
        &self,
        environment: Environment,
        template: &Template,
        now: Timestamp,
        estimate: CostAndTime,
    ) {
        let key = (environment, template.id().to_owned(), template.version());
        let mut estimates = self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
        estimates.insert(key, (now, estimate));
    }

    /// All versions of a template, the highest first.
    pub(crate) fn versions(&self, environment: Environment, id: &str) -> Vec<Arc<Published>> {
        let templates = self.templates();
        let versions = templates.get(&(environment, id.to_owned()));
        versions.into_iter().flat_map(|versions| versions.values().rev().cloned()).collect()
    }

    /// A page of the templates that `caller` may see, each in its latest version, the newest first.
    pub(crate) fn list(
        &self,
        environment: Environment,
        query: &Templates,
        caller: Caller<'_>,
    ) -> Page<Arc<Published>> {
        let search = query.search.as_ref().map(|search| search.to_lowercase());
        let wanted = |published: &&Arc<Published>| {
            let (template, source) = (&published.template, published.template.source());
            let within = |text: &str| {
                search.as_ref().is_none_or(|search| text.to_lowercase().contains(search))
            };
            published.is_visible(caller)
                && query.industry.is_none_or(|industry| industry == template.industry())
                && query.visibility.is_none_or(|visibility| visibility == template.visibility())
                && query.tags.iter().all(|tag| source.tags.contains(tag))
                && (within(&source.name) || source.description.as_deref().is_some_and(within))
        };
        let templates = self.templates();
        let mut found: Vec<_> = templates
            .iter()
            .filter(|((of, _), _)| *of == environment)
            .filter_map(|((_, id), versions)| latest(versions, &self.choice(environment, id)))
            .filter(wanted)
            .cloned()
            .collect();
        drop(templates);
        found.sort_by(|a, b| {
            let key =
                |published: &Published| (published.created_at, published.template.id().to_owned());
            key(b).cmp(&key(a))
        });
        let total = found.len() as u64;
        let items = found.into_iter().skip(query.window.offset).take(query.window.limit).collect();
        Page { items, total }
    }

    /// True if `caller` may see the plans that were made of a version of a template, as he may the template;
    /// a deleted version keeps its visibility.
    pub(crate) fn may_see(
        &self,
        environment: Environment,
        (id, version): (&str, &str),
        caller: Caller<'_>,
    ) -> bool {
        let Ok(version) = version.parse() else { return caller.role == Role::Admin };
        if let Some(found) = self.template(environment, id, Some(version)) {
            return found.is_visible(caller);
        }
        let gone = self.gone.read().unwrap_or_else(PoisonError::into_inner);
        match gone.get(&(environment, id.to_owned(), version)) {
            Some((visibility, owner)) => may_see(*visibility, owner.as_deref(), caller),
            None => caller.role == Role::Admin,
        }
    }

    /// The versions that `caller` may not see, deleted ones among them.
    pub(crate) fn hidden(
        &self,
        environment: Environment,
        caller: Caller<'_>,
    ) -> Vec<(String, Version)> {
        let templates = self.templates();
        let listed = templates.iter().filter(|((of, _), _)| *of == environment);
        let listed = listed.flat_map(|(_, versions)| versions.values());
        let hidden = listed.filter(|one| !one.is_visible(caller));
        let mut found: Vec<_> =
            hidden.map(|one| (one.template.id().to_owned(), one.template.version())).collect();
        drop(templates);
        let gone = self.gone.read().unwrap_or_else(PoisonError::into_inner);
        let hidden = gone.iter().filter(|((of, _, _), (visibility, owner))| {
            *of == environment && !may_see(*visibility, owner.as_deref(), caller)
        });
        found.extend(hidden.map(|((_, id, version), _)| (id.clone(), *version)));
        found
    }

    /// Remembers who may see a version that is not in the catalog.
    pub(crate) fn put_gone(&self, environment: Environment, row: &TemplateRow, access: Access) {
        let Ok(version) = row.version.parse() else { return };
        let mut gone = self.gone.write().unwrap_or_else(PoisonError::into_inner);
        gone.insert((environment, row.id.clone(), version), access);
    }

    pub(crate) fn put(&self, environment: Environment, published: Arc<Published>) {
        let id = published.template.id().to_owned();
        let version = published.template.version();
        let mut gone = self.gone.write().unwrap_or_else(PoisonError::into_inner);
        gone.remove(&(environment, id.clone(), version));
        drop(gone);
        let mut templates = self.templates.write().unwrap_or_else(PoisonError::into_inner);
        templates.entry((environment, id)).or_default().insert(version, published);
    }

    pub(crate) fn remove(&self, environment: Environment, id: &str, version: Version) {
        let key = (environment, id.to_owned());
        let mut templates = self.templates.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(versions) = templates.get_mut(&key) {
            if let Some(removed) = versions.remove(&version) {
                let access = (removed.template.visibility(), removed.owner.clone());
                self.put_gone(environment, &row_of(&removed), access);
            }
            if versions.is_empty() {
                templates.remove(&key);
            }
        }
        drop(templates);
        let mut estimates = self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
        estimates.remove(&(environment, key.1, version));
    }

    fn plans(&self) -> MutexGuard<'_, Generations> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn templates(&self) -> RwLockReadGuard<'_, HashMap<(Environment, String), Versions>> {
        self.templates.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The latest of the versions.
fn latest<'v>(versions: &'v Versions, choice: &Choice) -> Option<&'v Arc<Published>> {
    let known: Vec<_> = versions.keys().copied().collect();
    versions.get(&choice.latest(&known)?)
}

impl Node {
    /// Opens the environments of a new project; returns the rows to be committed with it.
    pub(crate) async fn open_project(&self, slot: Slot) -> Result<Vec<Op>, StoreError> {
        let environments = slot.environments();
        self.put_built_in(&environments);
        let marks = self.observers.events.begin(&environments, &*self.kernel.ports.entropy).await?;
        self.kernel.environments.put(slot);
        Ok(marks)
    }

    fn put_built_in(&self, environments: &[Environment]) {
        let of_default = Slot::DEFAULT.environment(Mode::Live);
        for template in &self.settings.built_in {
            let version = Some(template.version());
            let known = self.state.catalog.template(of_default, template.id(), version);
            // All projects have one copy.
            let published = known.filter(|known| known.author == BUILT_IN_AUTHOR);
            let published = published.unwrap_or_else(|| {
                let (author, created_at) = (BUILT_IN_AUTHOR.to_owned(), BUILT_IN_AT);
                let template = template.clone();
                Arc::new(Published { template, author, owner: None, created_at })
            });
            for &environment in environments {
                self.state.catalog.put(environment, Arc::clone(&published));
            }
        }
    }

    /// Reads all templates, those that come with the service among them.
    pub(crate) async fn load_templates(
        &self,
        environments: &[Environment],
    ) -> Result<(), StoreError> {
        self.put_built_in(environments);
        for &environment in environments {
            self.load_choices(environment).await?;
            let (mut after, mut found) = (None, Vec::new());
            loop {
                let store = self.store();
                let page =
                    TEMPLATES.scan(store, environment.number(), after.as_ref(), PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (_, row) in page {
                    if row.removed_at.is_some() && self.drop_if_unused(environment, &row).await? {
                        continue;
                    }
                    let source = plans::template_source(store, environment, &row).await?;
                    let access = self.access(&row, &source);
                    if row.removed_at.is_some() {
                        self.state.catalog.put_gone(environment, &row, access);
                        continue;
                    }
                    match Template::restored(source) {
                        Ok(template) => found.push((row, template)),
                        Err(problems) => {
                            tracing::warn!(
                                template = row.id, version = row.version, %problems,
                                "a template cannot be read by this version and is left out"
                            );
                            self.state.catalog.put_gone(environment, &row, access);
                        }
                    }
                }
            }
            // An older program wrote down each version's author, and no accounts.
            found.sort_by_key(|(row, _)| row.created_at);
            for (row, template) in found {
                let first = self.state.catalog.first(environment, template.id());
                let (author, owner) = if let Some(first) = first {
                    (first.author.clone(), first.owner.clone())
                } else {
                    let owner = row.account.clone().or_else(|| self.account_of_author(&row));
                    (row.author, owner)
                };
                let created_at = row.created_at;
                let published = Published { template, author, owner, created_at };
                self.state.catalog.put(environment, Arc::new(published));
            }
        }
        Ok(())
    }

    /// The visibility of a stored version.
    fn access(&self, row: &TemplateRow, source: &TemplateSource) -> Access {
        let visibility = source.visibility.as_deref().and_then(Visibility::parse);
        let account = row.account.clone().or_else(|| self.account_of_author(row));
        (visibility.unwrap_or(Visibility::Private), account)
    }

    /// The account of an author who is known by name only: the user who had this e-mail by then. A
    /// key's name identifies no account, as any number of keys may have it.
    fn account_of_author(&self, row: &TemplateRow) -> Option<String> {
        let email = Email::parse(&row.author).ok()?;
        let user = self.state.accounts.user_by_email(&email)?;
        (user.created_at <= row.created_at).then(|| user.id.to_string())
    }

    /// A plan, compiled; `None` if there is none of this identifier.
    pub(crate) async fn plan(
        &self,
        environment: Environment,
        id: PlanId,
    ) -> Result<Option<Arc<Known>>, StoreError> {
        if let Some(plan) = self.state.catalog.plan(environment, id) {
            return Ok(Some(plan));
        }
        let store = self.store();
        let Some(row) = PLANS.get(store, environment.number(), id.as_u128()).await? else {
            return Ok(None);
        };
        let corrupt = |reason: String| StoreError::Corrupt { path: format!("plan {id}"), reason };
        let compiled = if let Some(deployed) = row.deployed.clone() {
            self.deployed(environment, &row.account, deployed).await?
        } else {
            let source = plans::plan_source(store, environment, id).await?;
            let source = source.ok_or_else(|| corrupt("its steps are missing".into()))?;
            let is_brief = source.is_brief();
            let compile = move || Plan::restored(source).map(|plan| CompiledPlan::new(plan, None));
            if is_brief {
                Ok(compile())
            } else {
                self.kernel.compute.run(environment, &row.account, compile).await
            }
        };
        let compiled = compiled.map_err(|_| StoreError::Stopped)?;
        let compiled = compiled.map_err(|problems| corrupt(problems.to_string()))?;
        let (created_at, deployed) = (row.created_at, row.deployed);
        let known = Arc::new(Known { created_at, deployed, compiled: Arc::new(compiled) });
        self.state.catalog.keep_plan(environment, id, Arc::clone(&known));
        Ok(Some(known))
    }

    /// The plan that a deploy made; its template may have been deleted since.
    async fn deployed(
        &self,
        environment: Environment,
        account: &str,
        deployed: Deployed,
    ) -> Result<Result<Result<CompiledPlan, Problems>, JoinError>, StoreError> {
        let Deployed { template: id, version, models, queues, hitl } = deployed;
        let found = version.parse().ok();
        let found =
            found.and_then(|found| self.state.catalog.template(environment, &id, Some(found)));
        let template = match found {
            Some(found) => found.template.clone(),
            None => self.stored_template(environment, &id, &version).await?.ok_or_else(|| {
                let path = format!("template {id} {version}");
                StoreError::Corrupt { path, reason: "it is missing".into() }
            })?,
        };
        let overrides = Overrides { models, queues, hitl };
        let is_brief = template.source().is_brief();
        let compile = move || {
            template.redeploy(&overrides).map(|made| CompiledPlan::of_template(&template, made))
        };
        if is_brief {
            return Ok(Ok(compile()));
        }
        Ok(self.kernel.compute.run(environment, account, compile).await)
    }
}
