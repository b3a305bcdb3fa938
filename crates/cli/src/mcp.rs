//! The Model Context Protocol: `callboard mcp` serves it over standard input and output, the server over HTTP.
//!
//! ```text
//! assistant ── JSON-RPC, stdio ──▶ callboard mcp: Bridge ── HTTP, the caller's credentials ──▶ server
//! assistant ── JSON-RPC, HTTP ──▶ server: Bridge ── within the process, the caller's credentials ──▶ its API
//! ```
//!
//! The bridge is a client of the API, so an assistant may do what its credentials may.

use std::sync::Arc;

use callboard_client::{Call, Client};
use clap::Args;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};

use super::access::Access;
use super::failure::Failure;

mod follow;
mod resources;
mod tools;

use follow::Follow;
use tools::Called;

/// The text that an assistant reads first.
const INSTRUCTIONS: &str = "Callboard runs durable work on language models. submit_task runs one prompt; \
    deploy_template runs a template of several steps, and each template that is a tool of its own runs likewise. \
    Work goes on if you stop waiting: read_task and read_execution show it later. Some outputs are held for a \
    reviewer; you can list these, and only people decide them.";

/// Options of the server for assistants.
#[derive(Debug, Args)]
pub struct Mcp {
    #[command(flatten)]
    access: Access,
    /// Template that is a tool of its own, beside those with the tag mcp; may be repeated.
    #[arg(long = "expose", value_name = "TEMPLATE")]
    exposed: Vec<String>,
}

/// Serves until the assistant closes standard input.
pub(super) async fn run(Mcp { access, exposed }: Mcp) -> Result<(), Failure> {
    let client = access.client()?;
    // A template that does not exist, and missing credentials, are errors at the start.
    for id in &exposed {
        client.data(Call::get(&["templates", id])).await?;
    }
    let bridge = Bridge { client, exposed: exposed.into() };
    let broken = |error: &dyn std::fmt::Display| Failure::Other(format!("no assistant: {error}"));
    let served = bridge.serve((tokio::io::stdin(), tokio::io::stdout())).await;
    served.map_err(|error| broken(&error))?.waiting().await.map_err(|error| broken(&error))?;
    Ok(())
}

/// The server's side of the protocol.
#[derive(Debug, Clone)]
pub struct Bridge {
    client: Client,
    exposed: Arc<[String]>,
}

impl Bridge {
    /// A bridge to the API of `client`; of its templates, those with the tag `mcp` are tools.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, exposed: Arc::default() }
    }

    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: RequestContext<RoleServer>,
    ) -> Result<Called, Failure> {
        let follow = Follow::new(&self.client, context);
        match tools::Own::of(name) {
            Some(own) => own.call(&self.client, arguments, follow).await,
            None => {
                tools::call_template(&self.client, &self.exposed, name, arguments, follow).await
            }
        }
    }
}

/// A failure in the words of the command line, which name the way out.
fn refused(failure: &Failure) -> ErrorData {
    ErrorData::internal_error(failure.words(), None)
}

impl ServerHandler for Bridge {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("callboard", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = tools::own();
        let templates = tools::templates(&self.client, &self.exposed).await;
        tools.extend(templates.map_err(|failure| refused(&failure))?.into_iter().map(|it| it.tool));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        CallToolRequestParams { name, arguments, .. }: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.call(&name, arguments.unwrap_or_default(), context).await {
            Ok(Called { text, data, is_error }) => {
                let blocks = vec![ContentBlock::text(text)];
                let mut result = if is_error {
                    CallToolResult::error(blocks)
                } else {
                    CallToolResult::success(blocks)
                };
                result.structured_content = Some(data);
                result
            }
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.words())]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        resources::list(&self.client, cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::patterns())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&self.client, &request.uri).await.map(Into::into)
    }
}
