//! The declaration of a route: a method, a path, the needed permission, and its handler.
//!
//! One layer guards all routes, because each layer costs a boxed future for every request.
//! Deliberately absent: the routes themselves, which stand in [`super`] on one screen.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use callboard_domain::access::Action;

use super::auth::{self, Guard};
use super::describe::{Inputs, Operation};
use super::{App, pages};

/// The permission that a route needs before its handler is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A caller with the permission for this action.
    Allowed(Action),
    /// A caller with the permission for this action; a request for a socket may come without
    /// credentials, and send them in its first frame.
    AllowedLater(Action),
    /// A signed-in user of any role, on the own account.
    Own(Own),
    /// A caller who may read the metrics; nothing, as for a public route, if they are public.
    Metrics,
    /// No credential: a given one is ignored. The request is counted for its address.
    Public,
    /// No credential, and the request is not counted.
    Health,
}

impl Access {
    /// The access under `[metrics] public`.
    pub(super) const fn with_metrics(self, metrics_are_public: bool) -> Self {
        match self {
            Self::Metrics if metrics_are_public => Self::Public,
            Self::Metrics => Self::Allowed(Action::MetricsRead),
            Self::Allowed(_)
            | Self::AllowedLater(_)
            | Self::Own(_)
            | Self::Public
            | Self::Health => self,
        }
    }
}

/// The condition under which a caller may act on the own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// The password need not be changed.
    PasswordIsOwn,
    /// No condition.
    Always,
}

/// The needed permission of each route.
pub(super) type AccessTable = HashMap<&'static str, Vec<(Method, Access)>>;

/// Routes as they are written down.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Arc<App>>,
    access: AccessTable,
    described: Vec<Route>,
}

/// A route, for the OpenAPI document.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) describe: fn(&mut Operation),
}

macro_rules! methods {
    ($($name:ident = $method:ident;)*) => {$(
        /// A route of this method.
        pub(super) fn $name<H, T>(self, path: &'static str, access: Access, handler: H) -> Self
        where
            H: Handler<T, Arc<App>>,
            T: Inputs + 'static,
        {
            self.on(Method::$method, MethodFilter::$method, path, access, handler)
        }
    )*};
}

impl Routes {
    methods! {
        get = GET;
        post = POST;
        patch = PATCH;
        put = PUT;
        delete = DELETE;
    }

    fn on<H, T>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: Inputs + 'static,
    {
        self.described.push(Route { method: method.clone(), path, access, describe: T::describe });
        self.access.entry(path).or_default().push((method, access));
        self.router = self.router.route(path, on(filter, handler));
        self
    }

    /// All routes, as the OpenAPI document describes them.
    pub(super) fn described(self) -> Vec<Route> {
        self.described
    }

    /// All routes, behind the guard.
    pub(super) fn guarded(self, app: Arc<App>) -> Router {
        let guard = Arc::new(Guard { app: Arc::clone(&app), access: self.access });
        self.router
            .fallback(pages::fallback)
            .layer(from_fn_with_state(guard, auth::guard))
            .with_state(app)
    }
}
