//! Requests against the published descriptions of five interfaces: a member that a description does
//! not have, or has in another type, fails. The answers come in each interface's own form.
//!
//! Transcribed from, with the members that this crate could send:
//! - `OpenAI`: the `OpenAPI` description, `CreateChatCompletionRequest` and `ResponseFormatJsonSchema`
//!   (<https://github.com/openai/openai-openapi>), and "Supported schemas"
//!   (<https://platform.openai.com/docs/guides/structured-outputs>)
//! - Anthropic: Create a Message (<https://platform.claude.com/docs/en/api/messages>) and "JSON Schema
//!   limitations" (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs>)
//! - Gemini: `ChatCompletionsRequest` (<https://ai.google.dev/api/compatibility>)
//! - vLLM: `ChatCompletionRequest`, `ResponseFormat`, `JsonSchemaResponseFormat`
//!   (<https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html>, protocol.py)
//! - Ollama: `ChatCompletionRequest`, `ResponseFormat`, `JsonSchema`
//!   (<https://docs.ollama.com/api/openai-compatibility>, openai/openai.go)

mod confidence;

use std::sync::Arc;

use callboard_domain::fuel::Fuel;
use callboard_domain::schema::{self, Schema};
use callboard_domain::task::{Message, Role, Sampling};
use callboard_domain::usage::Prices;
use serde_json::{Value, json};

use super::anthropic::Anthropic;
use super::openai::OpenAi;
use super::testing::{Server, answer, call, data, serve, stream};
use super::{Completion, Provider, Request};

fn conforms(description: &Value, body: &Value) {
    let schema = Schema::compile("description", description).expect("a schema");
    let checked = schema.check_input(body, &mut Fuel::new(schema::FUEL)).expect("the fuel lasts");
    assert_eq!(checked, Ok(()), "{body:#}");
}

/// The whole vocabulary of a task: a schema with an optional member, bounds, a choice and a format.
fn request() -> Request {
    Request {
        model: "m".into(),
        system_prompt: Some("Be brief.".into()),
        context: serde_json::from_str(r#"{"a":1}"#).unwrap(),
        messages: vec![
            Message { role: Role::User, content: "hi".into() },
            Message { role: Role::Assistant, content: "hello".into() },
        ],
        prompt: "Extract.".into(),
        max_tokens: Some(100),
        temperature: Some(0.5),
        sampling: Sampling {
            seed: Some(7),
            top_p: Some(0.25),
            stop: vec!["END".into()],
            frequency_penalty: Some(0.5),
        },
        output_schema: Some(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["name", "kind", "rows"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
                "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]},
                "rows": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {
                    "type": "object", "required": ["n"],
                    "properties": {"n": {"type": "number", "minimum": 0}},
                }},
            },
        })),
        ..Request::default()
    }
}

/// Messages of one of these roles, with texts as contents.
fn messages(roles: &[&str]) -> Value {
    json!({"type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["role", "content"], "additionalProperties": false,
        "properties": {"role": {"enum": roles}, "content": {"type": "string"}},
    }})
}

/// The members that all interfaces of the kind of `OpenAI`'s share.
fn chat_completions(response_format: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["model", "messages"],
        "additionalProperties": false,
        "properties": {
            "model": {"type": "string"},
            "messages": messages(&["system", "user", "assistant"]),
            "stream": {"type": "boolean"},
            "stream_options": {
                "type": "object", "additionalProperties": false,
                "properties": {"include_usage": {"type": "boolean"}},
            },
            "logprobs": {"type": "boolean"},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "top_p": {"type": "number", "minimum": 0, "maximum": 1},
            "seed": {"type": "integer"},
            "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
            "stop": {"type": "array", "maxItems": 4, "items": {"type": "string"}},
            "max_tokens": {"type": "integer", "minimum": 1},
            "max_completion_tokens": {"type": "integer", "minimum": 1},
            "response_format": response_format,
        },
    })
}

/// `response_format` with these members of `json_schema`.
fn json_schema(named: &Value) -> Value {
    json!({"anyOf": [
        {"type": "object", "required": ["type"], "additionalProperties": false,
         "properties": {"type": {"enum": ["text", "json_object"]}}},
        {"type": "object", "required": ["type", "json_schema"], "additionalProperties": false,
         "properties": {"type": {"const": "json_schema"}, "json_schema": named}},
    ]})
}

fn named(schema: &Value) -> Value {
    json!({
        "type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
            "description": {"type": "string"},
            "schema": schema,
            "strict": {"type": ["boolean", "null"]},
        },
    })
}

/// A schema of `OpenAI`'s strict mode: closed objects, every property required, these keywords.
fn strict() -> Value {
    let schemas = json!({"type": "object", "additionalProperties": {"$ref": "#strict"}});
    let bound = json!({"type": "number"});
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "$anchor": "strict",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "type": {}, "enum": {"type": "array"}, "title": {}, "description": {},
            "pattern": {"type": "string"}, "format": {"type": "string"},
            "multipleOf": bound, "maximum": bound, "exclusiveMaximum": bound, "minimum": bound,
            "exclusiveMinimum": bound, "minItems": count, "maxItems": count,
            "items": {"$ref": "#strict"},
            "anyOf": {"type": "array", "items": {"$ref": "#strict"}},
            "properties": schemas, "$defs": schemas, "definitions": schemas,
            "required": {"type": "array", "items": {"type": "string"}},
            "additionalProperties": {"const": false},
            "$ref": {"type": "string", "pattern": "^#"},
        },
        "if": {"required": ["properties"]},
        "then": {"required": ["required", "additionalProperties"]},
    })
}

/// A schema of Anthropic's output format: closed objects, no bounds.
fn limited() -> Value {
    let mut limited = strict();
    let keywords = limited["properties"].as_object_mut().expect("an object");
    for bound in ["pattern", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "maxItems"] {
        keywords.remove(bound);
    }
    keywords.remove("exclusiveMinimum");
    keywords.insert("minItems".into(), json!({"enum": [0, 1]}));
    limited
}

fn anthropic() -> Value {
    let text = json!({
        "type": "object", "required": ["type", "text"], "additionalProperties": false,
        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    });
    json!({
        "type": "object",
        "required": ["model", "messages", "max_tokens"],
        "additionalProperties": false,
        "properties": {
            "model": {"type": "string"},
            "messages": messages(&["user", "assistant"]),
            "max_tokens": {"type": "integer", "minimum": 1},
            "stream": {"type": "boolean"},
            "system": {"type": "array", "items": text},
            "temperature": {"type": "number", "minimum": 0, "maximum": 1},
            "top_p": {"type": "number", "minimum": 0, "maximum": 1},
            "stop_sequences": {"type": "array", "items": {"type": "string"}},
            "output_config": {
                "type": "object", "additionalProperties": false,
                "properties": {"format": {
                    "type": "object", "required": ["type", "schema"], "additionalProperties": false,
                    "properties": {"type": {"const": "json_schema"}, "schema": limited()},
                }},
            },
            "tools": {"type": "array", "items": {
                "type": "object", "required": ["name", "input_schema"],
                "additionalProperties": false,
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
                    "description": {"type": "string"},
                    "input_schema": {
                        "type": "object", "required": ["type"],
                        "properties": {"type": {"const": "object"}},
                    },
                },
            }},
            "tool_choice": {
                "type": "object", "required": ["type", "name"], "additionalProperties": false,
                "properties": {"type": {"const": "tool"}, "name": {"type": "string"}},
            },
        },
    })
}

const JSON: &str = r#"{"name":"A","kind":"a","rows":[]}"#;

/// The stream of a server that speaks `OpenAI`'s format, in chunks of its own making.
fn chunks(middle: &[Value]) -> String {
    let mut events: Vec<String> = middle.iter().map(Value::to_string).collect();
    events.push("[DONE]".into());
    data(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn text_chunk(text: &str, finish_reason: &Value) -> Value {
    json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": text},
                     "finish_reason": finish_reason}],
    })
}

async fn served(server: &mut Server, provider: &dyn Provider) -> (Completion, Value) {
    let (result, deltas) = call(provider, &request()).await;
    let completion = result.expect("an answer");
    assert_eq!((completion.output.as_str(), deltas.as_str()), (JSON, JSON));
    (completion, server.seen.recv().await.expect("a request").body)
}

fn openai_at(server: &Server) -> OpenAi {
    OpenAi::new(&format!("{}/v1", server.url), Some("key".into())).expect("a client")
}

/// Two chunks and a last one with the usage, as every server of the kind sends them.
fn usual() -> String {
    let usage = json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
    });
    let (first, second) = JSON.split_at(5);
    let stop = json!("stop");
    chunks(&[text_chunk(first, &Value::Null), text_chunk(second, &stop), usage])
}

#[tokio::test]
async fn openai_gets_its_strict_dialect() {
    let mut server = serve(vec![stream([usual()])]).await;
    let mut client = openai_at(&server);
    client.is_strict = true;
    let (completion, body) = served(&mut server, &client).await;
    conforms(&chat_completions(&json_schema(&named(&strict()))), &body);
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!((completion.usage.input, completion.usage.output), (9, 7));
}

#[tokio::test]
async fn gemini_vllm_and_ollama_get_the_whole_schema_by_the_shared_field() {
    let any = json!({"type": "object"});
    let ollama = json!({
        "type": "object", "required": ["schema"],
        "properties": {"schema": {"type": "object"}},
    });
    for (interface, of) in [("gemini", named(&any)), ("vllm", named(&any)), ("ollama", ollama)] {
        let mut server = serve(vec![stream([usual()])]).await;
        let client = openai_at(&server);
        let (_, body) = served(&mut server, &client).await;
        conforms(&chat_completions(&json_schema(&of)), &body);
        let sent = &body["response_format"]["json_schema"]["schema"];
        assert_eq!(Some(sent), request().output_schema.as_ref(), "{interface}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_schema_is_asked_in_plainer_ways() {
    let refusal = r#"{"error": {"message": "Invalid JSON payload: Unknown name \"uniqueItems\" at 'response_format.json_schema'", "type": "invalid_request_error", "param": null, "code": 400}}"#;
    let refused = || answer("400 Bad Request", "content-type: application/json\r\n", refusal);
    let mut server = serve(vec![refused(), refused(), refused(), stream([usual()])]).await;
    let client = openai_at(&server);
    let (result, _) = call(&client, &request()).await;
    assert_eq!(result.expect("an answer").output, JSON);
    let description = chat_completions(&json_schema(&named(&json!({"type": "object"}))));
    let mut asked = Vec::new();
    for _ in 0..4 {
        let body = server.seen.recv().await.expect("a request").body;
        conforms(&description, &body);
        asked.push(body);
    }
    let kinds: Vec<_> = asked.iter().map(|body| body["response_format"]["type"].as_str()).collect();
    assert_eq!(kinds, [Some("json_schema"), Some("json_schema"), Some("json_object"), None]);
    conforms(&strict(), &asked[1]["response_format"]["json_schema"]["schema"]);
    for body in &asked[2..] {
        let messages = body["messages"].as_array().expect("messages");
        let tells = messages.iter().any(|message| {
            message["role"] == "system"
                && message["content"].as_str().is_some_and(|text| text.contains("JSON Schema"))
        });
        assert!(tells, "the schema stands in a message: {body:#}");
        assert_eq!(messages.last().expect("a prompt")["content"], "Extract.");
    }
}

/// The stream of Anthropic's interface around these deltas of one block.
fn anthropic_stream(block: &Value, deltas: &[Value], stop_reason: &str) -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
            "role": "assistant", "model": "m", "content": [], "stop_reason": null,
            "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "ping"}),
    ];
    let delta = |delta: &Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    events.extend(deltas.iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    let lines = events.iter().map(|event| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
    });
    lines.collect()
}

fn anthropic_at(server: &Server) -> Anthropic {
    let prices = Arc::new(Prices::default());
    Anthropic::new(&server.url, Some("key".into()), prices).expect("a client")
}

#[tokio::test]
async fn anthropic_gets_its_output_format() {
    let text = |text: &str| json!({"type": "text_delta", "text": text});
    let (first, second) = JSON.split_at(5);
    let block = json!({"type": "text", "text": ""});
    let events = anthropic_stream(&block, &[text(first), text(second)], "end_turn");
    let mut server = serve(vec![stream([events])]).await;
    let client = anthropic_at(&server);
    let (completion, body) = served(&mut server, &client).await;
    conforms(&anthropic(), &body);
    assert!(body["output_config"]["format"]["schema"].is_object());
    assert_eq!(completion.finish_reason.as_deref(), Some("stop"));
    assert_eq!((completion.usage.input, completion.usage.output), (9, 7));
}

#[tokio::test]
async fn anthropic_gets_a_forced_tool_where_it_has_no_output_format() {
    let refusal = r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "output_config: Extra inputs are not permitted"}}"#;
    let part = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
    let (first, second) = JSON.split_at(5);
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "answer", "input": {}});
    let parts = [part(""), part(first), part(second)];
    let events = anthropic_stream(&block, &parts, "tool_use");
    let refused = || answer("400 Bad Request", "content-type: application/json\r\n", refusal);
    let mut server = serve(vec![refused(), stream([events])]).await;
    let client = anthropic_at(&server);
    let (result, deltas) = call(&client, &request()).await;
    let completion = result.expect("an answer");
    assert_eq!((completion.output.as_str(), deltas.as_str()), (JSON, JSON));
    assert_eq!(completion.finish_reason.as_deref(), Some("stop"));
    let mut last = Value::Null;
    for _ in 0..2 {
        last = server.seen.recv().await.expect("a request").body;
        conforms(&anthropic(), &last);
    }
    assert_eq!(last["tool_choice"], json!({"type": "tool", "name": "answer"}));
    assert_eq!(Some(&last["tools"][0]["input_schema"]), request().output_schema.as_ref());
    assert_eq!(last.get("output_config"), None);
}

#[tokio::test]
async fn a_schema_that_is_refused_says_nothing_about_other_schemas() {
    let refusal = r#"{"error": {"message": "Invalid schema for response_format 'answer': In context=(), 'oneOf' is not permitted.", "type": "invalid_request_error", "param": "response_format", "code": null}}"#;
    let refused = answer("400 Bad Request", "content-type: application/json\r\n", refusal);
    let mut server =
        serve(vec![refused, stream([usual()]), stream([usual()]), stream([usual()])]).await;
    let mut client = openai_at(&server);
    client.is_strict = true;
    let other = json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "null"}}});
    let other = Request { output_schema: Some(other), ..request() };
    for asked in [&request(), &other, &request()] {
        call(&client, asked).await.0.expect("an answer");
    }
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let body = server.seen.recv().await.expect("a request").body;
        kinds.push(body["response_format"]["type"].as_str().expect("a format").to_owned());
    }
    assert_eq!(kinds, ["json_schema", "json_object", "json_schema", "json_object"]);
}

#[tokio::test]
async fn a_reference_beside_other_keywords_is_inlined_for_every_interface() {
    let schema = json!({
        "type": "object", "required": ["home", "work"],
        "properties": {
            "home": {"$ref": "#/$defs/City", "description": "where it lives"},
            "work": {"allOf": [{"$ref": "#/$defs/City"}], "title": "Work"},
        },
        "$defs": {"City": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
        }},
    });
    let asked = Request { output_schema: Some(schema), ..request() };
    for (is_strict, sent) in [(false, stream([usual()])), (true, stream([usual()]))] {
        let mut server = serve(vec![sent]).await;
        let mut client = openai_at(&server);
        client.is_strict = is_strict;
        call(&client, &asked).await.0.expect("an answer");
        let body = server.seen.recv().await.expect("a request").body;
        let sent = &body["response_format"]["json_schema"];
        for (member, annotation) in [("home", "description"), ("work", "title")] {
            let member = &sent["schema"]["properties"][member];
            assert_eq!((&member["type"], member.get("$ref")), (&json!("object"), None), "{body:#}");
            assert!(member["properties"]["name"].is_object() && member[annotation].is_string());
        }
        assert_eq!(sent["strict"] == true, is_strict);
    }
}
