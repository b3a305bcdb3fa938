//! The template endpoints (docs/reference/templates.md).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::query::Templates;
use callboard_domain::template;
use callboard_runtime::Owner;
use callboard_runtime::catalog::{Author, Choosing, PublishOutcome, Published};
use callboard_wire::executions::{DryRunBody, ExecutionBody};
use callboard_wire::templates::{
    self, ChangeTemplate, DeletedBody, DeployTemplate, GetTemplate, ListTemplates, SetLatest,
    TemplateBody,
};

use super::executions::started;
use callboard_domain::template::TemplateSource;

use super::extract::{Asker, JsonOrYaml, OptionalBody, TemplateId};
use super::idempotency::IdempotencyKey;
use super::names::Known;
use super::trace::Trace;
use super::{Answer, App, Body, Id, Query, Reply};

/// Make a template, or a version of one.
#[utoipa::path(
    post, path = "/api/templates", tag = "templates",
    responses(
        (status = 201, description = "the version is durable", body = TemplateBody),
        (status = 200, description = "the same version was there before", body = TemplateBody),
        (status = 409, description = "this version exists with other content"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    JsonOrYaml(definition, _): JsonOrYaml<TemplateSource>,
) -> Answer {
    let environment = caller.environment;
    let source =
        move |app: &App, value| templates::source(value, app.handle.env_allow(environment));
    let read = app.read(Some((caller.account, caller.environment)), definition, source).await?;
    let known = Known::among(&app, caller.environment, read.unfit()).await?;
    let source = read.finish(|unfit| known.has(unfit))?;
    let published = app.handle.publish(caller.environment, author(&caller), source).await?;
    match published {
        PublishOutcome::Added(published) => {
            let record = Record::new(Action::TemplatePublished, by).of(published.template.id());
            app.record(record.with("version", published.template.version())).await;
            let estimate = app
                .handle
                .estimate(caller.environment, &caller.account.to_string(), &published)
                .await?;
            let standing = app.handle.standing(caller.environment, &published);
            Ok(Reply::created(&TemplateBody::whole(&published, standing, estimate)))
        }
        PublishOutcome::Known(published) => whole(&app, &caller, &published).await,
    }
}

/// A template, whole, in its latest version or another.
#[utoipa::path(
    get, path = "/api/templates/{id}", tag = "templates",
    responses((status = 200, body = TemplateBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(TemplateId(id)): Id<TemplateId>,
    Query(get): Query<GetTemplate>,
) -> Answer {
    let account = caller.account.to_string();
    let asking = asking(&caller, &account);
    let found = app.handle.template(caller.environment, asking, &id, get.version.as_deref())?;
    whole(&app, &caller, &found).await
}

/// Delete a template, or one version of it. Plans and executions that were made of it stay.
#[utoipa::path(
    delete, path = "/api/templates/{id}", tag = "templates",
    responses(
        (status = 200, description = "it is neither listed nor deployed any more", body = DeletedBody),
        (status = 409, description = "an execution of it has not ended"),
    ),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(TemplateId(id)): Id<TemplateId>,
    Query(GetTemplate { version }): Query<GetTemplate>,
) -> Answer {
    let (handle, author) = (&app.handle, author(&caller));
    let removed = handle.remove_template(caller.environment, author, &id, version.as_deref());
    let body = DeletedBody::new(&id, &removed.await?);
    let record = Record::new(Action::TemplateDeleted, by).of(&id);
    app.record(record.with("versions", body.versions.join(", "))).await;
    Ok(Reply::ok(&body))
}

/// Retire a version of a template: no deploy, execute or fork takes it any more, and its runs go on. Or restore it.
#[utoipa::path(
    patch, path = "/api/templates/{id}", tag = "templates",
    responses(
        (status = 200, description = "deploys follow the choice, also after a restart", body = TemplateBody),
        (status = 404, description = "no such template, or no such version"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(TemplateId(id)): Id<TemplateId>,
    Body(ChangeTemplate { version, retired }): Body<ChangeTemplate>,
) -> Answer {
    let (choosing, action) = if retired {
        (Choosing::Retire(version), Action::TemplateRetired)
    } else {
        (Choosing::Restore(version), Action::TemplateRestored)
    };
    chosen(&app, &caller, (&id, choosing), Record::new(action, by)).await
}

/// Set the latest version of a template: deploys without a version take it, whatever is published later.
#[utoipa::path(
    put, path = "/api/templates/{id}/latest", tag = "templates",
    responses(
        (status = 200, description = "deploys take the version, also after a restart", body = TemplateBody),
        (status = 404, description = "no such template, or no such version"),
        (status = 409, description = "the version is retired"),
    ),
)]
pub(super) async fn set_latest(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(TemplateId(id)): Id<TemplateId>,
    Body(SetLatest { version }): Body<SetLatest>,
) -> Answer {
    let record = Record::new(Action::TemplateLatestSet, by);
    chosen(&app, &caller, (&id, Choosing::Latest(version)), record).await
}

/// Let the latest version of a template be the highest again that is not retired.
#[utoipa::path(
    delete, path = "/api/templates/{id}/latest", tag = "templates",
    responses(
        (status = 200, description = "the version that is the latest now", body = TemplateBody),
        (status = 404, description = "no such template"),
    ),
)]
pub(super) async fn follow_highest(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(TemplateId(id)): Id<TemplateId>,
) -> Answer {
    let record = Record::new(Action::TemplateLatestSet, by);
    chosen(&app, &caller, (&id, Choosing::Highest), record).await
}

async fn chosen(
    app: &App,
    caller: &Caller,
    (id, choosing): (&str, Choosing),
    record: Record,
) -> Answer {
    let (environment, author) = (caller.environment, author(caller));
    let published = app.handle.choose_version(environment, author, id, choosing).await?;
    app.record(record.of(id).with("version", published.template.version())).await;
    whole(app, caller, &published).await
}

/// All versions of a template, the highest first.
#[utoipa::path(
    get, path = "/api/templates/{id}/versions", tag = "templates",
    responses((status = 200, body = [TemplateBody])),
)]
pub(super) async fn versions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(TemplateId(id)): Id<TemplateId>,
) -> Answer {
    let account = caller.account.to_string();
    let asking = asking(&caller, &account);
    let versions = app.handle.template_versions(caller.environment, asking, &id)?;
    Ok(Reply::ok(&summaries(&app, &caller, &versions).await?))
}

/// Templates, each in its latest version, the newest first.
#[utoipa::path(
    get, path = "/api/templates", tag = "templates",
    responses((status = 200, body = [TemplateBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListTemplates>,
) -> Answer {
    let account = caller.account.to_string();
    let templates = Templates::from(list);
    let page = app.handle.templates(caller.environment, &templates, asking(&caller, &account));
    let items = summaries(&app, &caller, &page.items).await?;
    Ok(Reply::page(&items, page.total, templates.window))
}

/// Make a plan of a template and start it, or, with `options.dryRun`, make a dry run.
#[utoipa::path(
    post, path = "/api/templates/{id}/deploy", tag = "templates",
    responses(
        (status = 201, description = "plan and execution are durable", body = ExecutionBody),
        (status = 200, description = "what it would do", body = DryRunBody),
        (status = 409, description = "the version is retired, or what the idempotency key made was removed or erased"),
    ),
)]
pub(super) async fn deploy(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(TemplateId(id)): Id<TemplateId>,
    trace: Trace,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(deploy): OptionalBody<DeployTemplate>,
) -> Answer {
    let account = caller.account.to_string();
    let asking = asking(&caller, &account);
    let (is_dry, deploy) = (deploy.is_dry(), deploy.into_deploy());
    app.check_callback(&caller, "callbackUrl", deploy.start.named.callback_url.as_deref())?;
    if is_dry {
        let run = app.handle.dry_deploy(caller.environment, asking, &id, deploy).await?;
        return Ok(Reply::ok(&DryRunBody::of_template(&id, &run)));
    }
    let owner = Owner::of(&caller, trace.0);
    started(&app.handle.deploy(&owner, asking, &id, deploy, key.as_deref()).await?)
}

fn author(caller: &Caller) -> Author {
    Author { account: caller.account.to_string(), name: caller.author(), role: caller.role }
}

pub(super) const fn asking<'a>(caller: &Caller, account: &'a str) -> template::Caller<'a> {
    template::Caller { account, role: caller.role }
}

async fn whole(app: &App, caller: &Caller, published: &Published) -> Answer {
    let estimate =
        app.handle.estimate(caller.environment, &caller.account.to_string(), published).await?;
    let standing = app.handle.standing(caller.environment, published);
    Ok(Reply::ok(&TemplateBody::whole(published, standing, estimate)))
}

async fn summaries<'a>(
    app: &App,
    caller: &Caller,
    published: &'a [Arc<Published>],
) -> Result<Vec<TemplateBody<'a>>, callboard_domain::Error> {
    let (account, mut items) = (caller.account.to_string(), Vec::with_capacity(published.len()));
    for one in published {
        let estimate = app.handle.estimate(caller.environment, &account, one).await?;
        let standing = app.handle.standing(caller.environment, one);
        items.push(TemplateBody::summary(one, standing, estimate));
    }
    Ok(items)
}
