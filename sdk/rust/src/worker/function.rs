//! The functions of a worker: their announcements, and their calls with the args of a task.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::run_loop::Function;
use super::task::{Failure, Task};

/// The most characters of a description.
const DESCRIPTION: usize = 1024;

/// The future of a result's members.
pub(super) type Working = Pin<Box<dyn Future<Output = Result<Map<String, Value>, Failure>> + Send>>;

/// The functions of a worker, by their names.
pub(super) type Functions = HashMap<String, (Function, Arc<dyn Callable>)>;

/// A function as the worker announces it. A name alone is one, too.
#[derive(Debug, Clone)]
pub struct FunctionSpec {
    pub(super) announced: Function,
}

impl FunctionSpec {
    /// A function of this name: `^[a-z][a-z0-9_.-]{0,63}$`.
    pub fn new(name: impl Into<String>) -> Self {
        let announced = Function {
            name: name.into(),
            description: None,
            input_schema: None,
            output_schema: None,
        };
        Self { announced }
    }

    /// The description, for people: at most 1,024 characters, the rest is cut.
    #[must_use]
    pub fn description(mut self, text: impl AsRef<str>) -> Self {
        self.announced.description = Some(text.as_ref().chars().take(DESCRIPTION).collect());
        self
    }

    /// The JSON Schema of the args, for people: the type of the handler's args checks them.
    #[must_use]
    pub fn args(mut self, schema: impl Into<Value>) -> Self {
        self.announced.input_schema = Some(schema.into());
        self
    }

    /// The JSON Schema of the output, for people.
    #[must_use]
    pub fn output(mut self, schema: impl Into<Value>) -> Self {
        self.announced.output_schema = Some(schema.into());
        self
    }
}

impl From<&str> for FunctionSpec {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for FunctionSpec {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// A function that can be called.
pub(super) trait Callable: Send + Sync + 'static {
    /// Begins the call.
    fn call(&self, task: Task) -> Working;
}

/// A function made of a handler.
pub(super) struct Called<F, Args> {
    handler: F,
    args: PhantomData<fn() -> Args>,
}

impl<F, Args> Called<F, Args> {
    pub(super) const fn new(handler: F) -> Self {
        Self { handler, args: PhantomData }
    }
}

impl<F, Args, W, R> Callable for Called<F, Args>
where
    Args: DeserializeOwned + Send + 'static,
    F: Fn(Args, Task) -> W + Send + Sync + 'static,
    W: Future<Output = Result<R, Failure>> + Send + 'static,
    R: Serialize + Send + 'static,
{
    fn call(&self, task: Task) -> Working {
        let args = Value::Object(task.args.clone().unwrap_or_default());
        let args = match serde_json::from_value(args) {
            Ok(args) => args,
            Err(error) => {
                let failure = Failure::fatal(format!("the args do not fit the function: {error}"));
                return Box::pin(async { Err(failure) });
            }
        };
        let work = (self.handler)(args, task.clone());
        Box::pin(async move {
            let value = serde_json::to_value(work.await?);
            let value = value.map_err(|error| {
                Failure::fatal(format!("the value of the function is no JSON: {error}"))
            })?;
            let mut members = Map::new();
            members.insert("output".into(), value);
            if task.cost() > 0.0 {
                members.insert("cost".into(), task.cost().into());
            }
            Ok(members)
        })
    }
}
