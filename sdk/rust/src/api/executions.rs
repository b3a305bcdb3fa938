//! Executions, and plans and templates in YAML.

use serde::Serialize;
use serde_json::{Value, json};

use super::live::{Follow, Following};
use super::types::{Execution, Template, TemplateRequest};
use super::{Executions, Live, Templates};
use crate::{Call, Error};

impl Executions {
    /// The events of an execution ([`Live::follow`]).
    #[must_use]
    pub fn follow(&self, id: &str) -> Following {
        Follow::new::<Execution>(&self.cb, id).stream()
    }

    /// Sends a signal, whose payload is the output of the step that waits for it.
    ///
    /// # Errors
    /// The payload is no JSON; the server refuses it, or cannot be reached.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        payload: impl Serialize,
    ) -> Result<Live<Execution>, Error> {
        let payload = serde_json::to_value(payload);
        let payload: Value =
            payload.map_err(|error| Error::InvalidArgument(format!("the payload: {error}")))?;
        let call = Call::post(&["plans", "executions", id, "signals", name]);
        self.cb.live(call.json(&json!({"payload": payload})), true).await
    }
}

impl Live<Execution> {
    /// Cancels the execution.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn cancel(&self) -> Result<Self, Error> {
        self.cb.executions().cancel(&self.id).await
    }
}

impl Templates {
    /// Publishes a version of a template. A `serde_json::Value` of a whole definition does, too, through
    /// `serde_json::from_value`.
    ///
    /// # Errors
    /// The server refuses it, and names each fault in the details; or it cannot be reached.
    pub async fn publish(&self, template: impl Into<TemplateRequest>) -> Result<Template, Error> {
        let template: TemplateRequest = template.into();
        self.cb.one(Call::post(&["templates"]).json(&super::json(&template)), false).await
    }

    /// Publishes a version of a template, written in YAML.
    ///
    /// # Errors
    /// As [`Templates::publish`].
    pub async fn publish_yaml(&self, text: impl Into<String>) -> Result<Template, Error> {
        let text: String = text.into();
        let call = Call::post(&["templates"]).raw("application/yaml", text.into_bytes());
        self.cb.one(call, false).await
    }
}
