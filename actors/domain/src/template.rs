//! Templates: versioned plans with an input schema (docs/reference/templates.md).
//!
//! ```text
//! TemplateSource ──check──▶ Template ──deploy(overrides)──▶ Plan and its hitl ──▶ an execution
//! ```
//!
//! Deliberately absent: YAML and the wire's shape, and the storage of versions.

mod check;
mod choice;
mod source;
mod version;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::access::Role;
use crate::error::{Error, Rule};
use crate::function::reserved;
use crate::plan::{HitlSource, Plan, PlanSource, StepSource, check_length, unknown_step};
use crate::problem::{Problem, Problems};
use crate::schema::Schema;
use crate::task::MAX_TARGET;

pub use choice::Choice;
pub use source::{Defaults, Industry, TemplateSource, Visibility};
pub use version::{Version, slug};

/// The author of the built-in templates; neither an e-mail nor `key:<name>`, so no caller has it.
pub const BUILT_IN_AUTHOR: &str = "system";

/// A template that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    source: TemplateSource,
    id: String,
    version: Version,
    industry: Industry,
    visibility: Visibility,
    input_schema: Schema,
    output_schema: Option<Schema>,
}

/// The changes of a deployment to the template.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    /// Models by step id.
    pub models: BTreeMap<String, String>,
    /// Queues by step id.
    pub queues: BTreeMap<String, String>,
    /// Replaces the template's settings, field by field.
    pub hitl: Option<HitlSource>,
}

/// The result of a deployment. The template's schema checks the input, not the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// The plan, with the template's defaults and the overrides in its steps.
    pub plan: Plan,
    /// The review settings.
    pub hitl: Option<HitlSource>,
}

/// The caller of a request for a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The caller's account, as its identifier's text.
    pub account: &'a str,
    /// The caller's role.
    pub role: Role,
}

impl Template {
    /// Checks and compiles a template; `env_allow` lists the environment variables that it may use.
    ///
    /// # Errors
    /// Every fault, in the order of the document; or the one that its schemas cost too much to compile
    /// ([`crate::cost`]).
    pub fn compile(source: TemplateSource, env_allow: &[String]) -> Result<Self, Problems> {
        check::check(source, env_allow)
    }

    /// The faults of a template that are seen without compiling its conditions and schemas.
    #[must_use]
    pub fn outer_faults(source: &TemplateSource, env_allow: &[String]) -> Vec<Problem> {
        check::outer_faults(source, env_allow)
    }

    /// A template that passed every check when it was stored, uncompiled.
    ///
    /// # Errors
    /// The version, the industry or the visibility is none that this version knows.
    pub fn restored(source: TemplateSource) -> Result<Self, Problems> {
        check::restored(source)
    }

    /// The template as given.
    #[must_use]
    pub const fn source(&self) -> &TemplateSource {
        &self.source
    }

    /// The identifier: `<slug of the name>-v<major version>`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The industry.
    #[must_use]
    pub const fn industry(&self) -> Industry {
        self.industry
    }

    /// The visibility.
    #[must_use]
    pub const fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// The schema of the input.
    #[must_use]
    pub const fn input_schema(&self) -> &Schema {
        &self.input_schema
    }

    /// The schema of the last step's output.
    #[must_use]
    pub const fn output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref()
    }

    /// The ids of the steps that are always held: `requiresApproval`, or listed in `requiredFor`; in
    /// the order of the steps.
    #[must_use]
    pub fn hitl_steps(&self) -> Vec<&str> {
        let hitl = self.source.hitl.as_ref();
        let held = |step: &&StepSource| {
            step.requires_approval || hitl.is_some_and(|hitl| hitl.requires(&step.id))
        };
        self.source.steps.iter().filter(held).map(|step| step.id.as_str()).collect()
    }

    /// The cost in USD that `metadata.estimates` declares.
    #[must_use]
    pub fn declared_cost(&self) -> Option<f64> {
        self.source.estimate("cost").and_then(Value::as_f64)
    }

    /// The duration in milliseconds that `metadata.estimates` declares.
    #[must_use]
    pub fn declared_duration_ms(&self) -> Option<u64> {
        let declared = self.source.estimate("durationMs")?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be at least 0; a cast saturates"
        )]
        let rounded = |millis: f64| millis.round() as u64;
        declared.as_u64().or_else(|| declared.as_f64().map(rounded))
    }

    /// The template as a version that an admin adds to another account's: it keeps the visibility of
    /// the version before it.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if it asks for another one.
    pub fn by_another(mut self, visibility: Visibility) -> Result<Self, Error> {
        if self.source.visibility.is_some() && self.visibility != visibility {
            let message = format!(
                "only the author of template {} may change its visibility, which is {visibility}: \
                 leave visibility out",
                self.id
            );
            return Err(Error::Forbidden(message));
        }
        self.source.visibility = Some(visibility.to_string());
        self.visibility = visibility;
        Ok(self)
    }

    /// True if adding one template over the other would change nothing.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        let without = |template: &Self| TemplateSource {
            visibility: None,
            version: String::new(),
            ..template.source.clone()
        };
        (self.version, self.visibility) == (other.version, other.visibility)
            && without(self) == without(other)
    }

    /// Deploys the template with overrides.
    ///
    /// # Errors
    /// An override names a step that does not exist (rule `step`), or has a value that is not valid
    /// for a step.
    pub fn deploy(
        &self,
        overrides: &Overrides,
        env_allow: &[String],
    ) -> Result<Deployment, Problems> {
        let (plan, hitl) = self.plan(overrides)?;
        Ok(Deployment { plan: Plan::of_template(plan, env_allow)?, hitl })
    }

    /// The plan of an earlier deploy, which passed the checks of its time.
    ///
    /// # Errors
    /// Those of [`Plan::restored`].
    pub fn redeploy(&self, overrides: &Overrides) -> Result<Deployment, Problems> {
        let (plan, hitl) = self.plan(overrides)?;
        Ok(Deployment { plan: Plan::restored(plan)?, hitl })
    }

    fn plan(&self, overrides: &Overrides) -> Result<(PlanSource, Option<HitlSource>), Problems> {
        let mut steps = self.source.steps_with_defaults();
        let mut problems = Vec::new();
        let maps = [("modelOverrides", &overrides.models), ("queueOverrides", &overrides.queues)];
        for (map, targets) in maps {
            for (id, target) in targets {
                let field = format!("{map}.{id}");
                problems.extend(unknown_step(&steps, field.clone(), id));
                check_length(&mut problems, &field, target, 1, MAX_TARGET);
            }
        }
        for (id, model) in &overrides.models {
            let field = format!("modelOverrides.{id}");
            let calls = |step: &&StepSource| step.id == *id && step.call.is_some();
            if steps.iter().any(|step| calls(&step)) {
                let says = "names a step that calls a function, which has no model";
                problems.push(Problem::rule(Rule::Unknown, field, says));
            } else if let Some(says) = reserved(model) {
                problems.push(Problem::rule(Rule::Reserved, field, says));
            }
        }
        problems.extend(overrides.hitl.iter().flat_map(|hitl| hitl.faults(&steps)));
        Problems::none_of(problems)?;
        for step in &mut steps {
            if let Some(model) = overrides.models.get(&step.id) {
                step.model = Some(model.clone());
                step.routing.models.clear();
            }
            let queue = overrides.queues.get(&step.id).cloned();
            step.queue = queue.or(step.queue.take());
        }
        let plan = PlanSource {
            name: self.source.name.clone(),
            description: self.source.description.clone(),
            steps,
            title: self.source.title.clone(),
            tags: self.source.tags.clone(),
        };
        let hitl = HitlSource::for_run(self.source.hitl.as_ref(), overrides.hitl.as_ref());
        Ok((plan, hitl))
    }
}

/// True if the caller may see a template of this account; any other template does not exist for the
/// caller (404). A private template is visible to its author and admins, others to every user.
///
/// The author is an account, not a name: a second key may have the name of the first. `None` is for
/// built-in templates and for those whose account is not known any more.
#[must_use]
pub fn may_see(visibility: Visibility, owner: Option<&str>, caller: Caller<'_>) -> bool {
    match visibility {
        Visibility::Private => caller.role == Role::Admin || owner == Some(caller.account),
        Visibility::Organization | Visibility::Public => true,
    }
}

/// Passes if the caller may do this, such as `add a version to it`, with the template with this id,
/// author and account: only the author's account and admins may, and no caller with a built-in template.
///
/// # Errors
/// [`Error::Forbidden`].
pub fn may_change(
    id: &str,
    author: &str,
    owner: Option<&str>,
    caller: Caller<'_>,
    what: &str,
) -> Result<(), Error> {
    if author == BUILT_IN_AUTHOR {
        return Err(Error::Forbidden(format!(
            "template {id} is built in and read-only: publish a copy under another name"
        )));
    }
    if caller.role == Role::Admin || owner == Some(caller.account) {
        return Ok(());
    }
    Err(Error::Forbidden(format!("only the author of template {id} and admins may {what}")))
}

#[cfg(test)]
mod tests;
