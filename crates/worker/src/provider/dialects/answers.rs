//! Answers that are whole: each is read in one call.

use super::*;

/// An answer, and what it is read as.
struct Dialect {
    name: &'static str,
    interface: Interface,
    body: String,
    output: &'static str,
    thinking: Option<&'static str>,
    /// The tokens of the prompt, of the answer, and those read from a cache.
    usage: (u64, u64, u64),
    finish_reason: &'static str,
}

fn openai(name: &'static str, body: String) -> Dialect {
    Dialect {
        name,
        interface: Interface::OpenAi,
        body,
        output: "In Päris",
        thinking: None,
        usage: (9, 3, 0),
        finish_reason: "stop",
    }
}

fn anthropic(name: &'static str, body: String) -> Dialect {
    Dialect { interface: Interface::Anthropic, ..openai(name, body) }
}

/// The shapes of hosted services.
fn services() -> Vec<Dialect> {
    vec![
        openai(
            "OpenAI",
            stream(&[
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"k2"}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"In P\u00e4"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"ris"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}"#,
            ]),
        ),
        openai(
            "OpenAI, a refusal",
            stream(&[
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":"In P"},"finish_reason":null}]}"#,
                r#"{"choices":[{"index":0,"delta":{"refusal":"äris"},"finish_reason":null}]}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
            ]),
        ),
        openai(
            "Azure",
            stream(&[
                r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
                r#"{"choices":[{"content_filter_results":{},"delta":{"content":"In P","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"model":"m"}"#,
                r#"{"choices":[{"content_filter_results":{"hate":{"filtered":false}},"delta":{"content":"äris"},"finish_reason":null,"index":0}]}"#,
                r#"{"choices":[{"content_filter_offsets":{"check_offset":1},"content_filter_results":{},"finish_reason":null,"index":0}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"stop","index":0}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#,
            ]),
        ),
        openai(
            "Mistral, parts",
            stream(&[
                r#"{"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
                r#"{"id":"x","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"In P"},{"type":"reference","reference_ids":[0]}]},"finish_reason":null}]}"#,
                r#"{"id":"x","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"äris"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3}}"#,
            ]),
        ),
        Dialect {
            thinking: Some("a city?"),
            ..openai(
                "Mistral, reasoning",
                stream(&[
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"a "}]}]},"finish_reason":null}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"city?"}]}]},"finish_reason":null}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":"In Päris"},"finish_reason":null}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#,
                ]),
            )
        },
        Dialect {
            usage: (9, 11, 0),
            ..openai(
                "Gemini",
                stream(&[
                    r#"{"choices":[{"delta":{"content":"In P","role":"assistant"},"index":0}],"created":1,"id":"g","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":1,"prompt_tokens":9,"total_tokens":18}}"#,
                    r#"{"choices":[{"delta":{"content":"äris","role":"assistant"},"finish_reason":"stop","index":0}],"usage":{"completion_tokens":3,"prompt_tokens":9,"total_tokens":20}}"#,
                ]),
            )
        },
    ]
}

/// The shapes of more hosted services.
fn more_services() -> Vec<Dialect> {
    vec![
        Dialect {
            thinking: Some("a city?"),
            ..openai(
                "Groq",
                stream(&[
                    r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_1"}}"#,
                    r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning":"a city?"},"finish_reason":null}]}"#,
                    r#"{"id":"c","choices":[{"index":0,"delta":{"content":"In Päris"},"finish_reason":null}]}"#,
                    r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.1,"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}}"#,
                ]),
            )
        },
        Dialect {
            thinking: Some("a city?"),
            usage: (9, 3, 8),
            ..openai(
                "DeepSeek",
                format!(
                    ": keep-alive\n\n: keep-alive\n\n{}",
                    stream(&[
                        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"logprobs":null,"finish_reason":null}]}"#,
                        r#"{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"a city?"},"finish_reason":null}]}"#,
                        r#"{"choices":[{"index":0,"delta":{"content":"In Päris","reasoning_content":null},"finish_reason":null}]}"#,
                        r#"{"choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}}"#,
                    ])
                ),
            )
        },
        Dialect {
            usage: (9, 23, 4),
            ..openai(
                "xAI, reasoning in the total",
                stream(&[
                    r#"{"choices":[{"index":0,"delta":{"content":"In Päris","role":"assistant"}}]}"#,
                    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
                    r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":32,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":20}}}"#,
                ]),
            )
        },
        Dialect {
            thinking: Some("a city?"),
            ..openai(
                "OpenRouter",
                format!(
                    ": OPENROUTER PROCESSING\n\n{}",
                    stream(&[
                        r#"{"id":"gen-1","provider":"P","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"a city?","reasoning_details":[{"type":"reasoning.text","text":"a city?","format":"unknown","index":0}]},"finish_reason":null,"native_finish_reason":null}]}"#,
                        r#"{"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":"In Päris"},"finish_reason":"stop","native_finish_reason":"end_turn"}]}"#,
                        r#"{"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cost":0.0001}}"#,
                    ])
                ),
            )
        },
        openai(
            "Perplexity, delta and message",
            stream(&[
                r#"{"object":"chat.completion.chunk","usage":{"prompt_tokens":9,"completion_tokens":1},"citations":["x"],"choices":[{"index":0,"finish_reason":null,"message":{"role":"assistant","content":"In P"},"delta":{"role":"assistant","content":"In P"}}]}"#,
                r#"{"object":"chat.completion.done","usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12},"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"In Päris"},"delta":{"role":"assistant","content":"äris"}}]}"#,
            ]),
        ),
        openai(
            "MiniMax, the whole message at the end",
            stream(&[
                r#"{"choices":[{"index":0,"delta":{"content":"In Päris","role":"assistant"}}],"object":"chat.completion.chunk","usage":null}"#,
                r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"In Päris","role":"assistant"}}],"object":"chat.completion","usage":{"total_tokens":12,"prompt_tokens":9,"completion_tokens":3},"base_resp":{"status_code":0,"status_msg":""}}"#,
            ]),
        ),
    ]
}

/// The shapes of servers that people run.
fn servers() -> Vec<Dialect> {
    let vllm = |member: &str| {
        stream(&[
            r#"{"id":"chatcmpl-v","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
            &format!(
                r#"{{"choices":[{{"index":0,"delta":{{"{member}":"a city?"}},"logprobs":null,"finish_reason":null}}]}}"#
            ),
            r#"{"choices":[{"index":0,"delta":{"content":"In Päris"},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}"#,
        ])
    };
    let thinking = Some("a city?");
    vec![
        Dialect { thinking, usage: (9, 3, 8), ..openai("vLLM", vllm("reasoning_content")) },
        Dialect { thinking, usage: (9, 3, 8), ..openai("vLLM, later", vllm("reasoning")) },
        Dialect {
            usage: (9, 3, 4),
            ..openai(
                "llama.cpp",
                stream(&[
                    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-l","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#,
                    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"In Päris"}}]}"#,
                    r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":{"cache_n":4,"prompt_n":5,"prompt_ms":1.5,"predicted_n":3,"predicted_ms":2.5}}"#,
                ]),
            )
        },
        Dialect {
            thinking,
            ..openai(
                "Ollama",
                stream(&[
                    r#"{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"a city?"},"finish_reason":null}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"In Päris"},"finish_reason":null}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
                    r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#,
                ]),
            )
        },
        Dialect {
            thinking: Some("a </i> city?"),
            ..openai(
                "a server that leaves thinking in the text",
                stream(&[
                    r#"{"choices":[{"index":0,"delta":{"content":"<thi"}}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":"nk>\na </i> city?</"}}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":"think>\n\nIn "}}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"content":"Päris"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
                ]),
            )
        },
        Dialect {
            finish_reason: "length",
            ..openai(
                "Text Generation Inference",
                stream(&[
                    r#"{"object":"text_completion","choices":[{"index":0,"delta":{"role":"assistant","content":"In Päris"},"logprobs":null,"finish_reason":""}],"usage":null}"#,
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"MAX_TOKENS"}],"usage":{"prompt_tokens":"9","completion_tokens":3.0}}"#,
                ]),
            )
        },
        openai(
            "a server of its own ways",
            stream(&[
                "ping",
                "",
                "null",
                r#"{"choices":null}"#,
                r#"{"choices":[null]}"#,
                r#"{"choices":[{"delta":null,"finish_reason":null,"logprobs":{"content":null}}],"usage":{"prompt_tokens":null}}"#,
                r#"{"choices":{"index":"0","delta":{"content":{"type":"text","text":"In "}},"finish_reason":false}}"#,
                r#"{"choices":[{"index":4,"delta":{"content":["P",{"type":"image_url"},7,"äris"],"tool_calls":null}}]}"#,
                r#"{"choices":[{"text":""}],"error":null}"#,
                r#"{"choices":[{"finish_reason":"eos_token"}],"usage":{"prompt_tokens":9.0,"completion_tokens":"3"}}"#,
            ]),
        ),
    ]
}

/// Ways to write the same events.
fn ways() -> Vec<Dialect> {
    let first = r#"{"choices":[{"delta":{"content":"In P"}}]}"#;
    let last = r#"{"choices":[{"delta":{"content":"äris"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    let both = stream(&[first, last]);
    let whole = r#"{
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "In Päris", "refusal": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    }"#;
    let bare = r#"{"choices":[{"message":{"content":[{"type":"text","text":"In Päris"}]}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    let halves = stream(&[
        r#"{"choices":[{"delta":{"content":"\ud83d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\ude00 \ud83d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"!\udc00\ud83d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
    ]);
    vec![
        openai("CRLF", both.replace('\n', "\r\n")),
        openai("CR", both.replace('\n', "\r")),
        openai("a byte order mark", format!("\u{feff}{both}")),
        openai("no blank after the colon", both.replace("data: ", "data:")),
        openai("data in several lines", both.replace("],", "],\ndata: ")),
        openai("other fields", both.replace("data: ", "id: 1\nretry: 10\nevent: message\ndata: ")),
        openai(
            "one line break between events",
            format!("data: {first}\ndata: {last}\ndata: [DONE]\n"),
        ),
        openai("no mark and no blank line at the end", format!("data: {first}\n\ndata: {last}")),
        openai("an end that was cut", format!("data: {first}\n\ndata: {last}\n\ndata: {{\"cho")),
        openai("JSON lines", format!("{first}\n{last}\n")),
        openai("a list of chunks", format!("[{first},\n{last}]")),
        openai("a whole completion", whole.to_owned()),
        openai("a whole completion after a long wait", format!("{}{whole}\n", "\n".repeat(3000))),
        Dialect {
            finish_reason: "",
            ..openai("a whole completion without a reason", bare.to_owned())
        },
        openai("a whole completion as an event", stream(&[&whole.replace('\n', " ")])),
        Dialect {
            output: "😀 \u{fffd}!\u{fffd}\u{fffd}",
            ..openai("halves of surrogate pairs", halves)
        },
    ]
}

fn messages() -> Vec<Dialect> {
    const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":1,"service_tier":"standard"}}}"#;
    const BLOCK: &str =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    const TEXT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"In Päris"}}"#;
    const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}"#;
    let plain = named(&[
        START,
        BLOCK,
        r#"{"type":"ping"}"#,
        TEXT,
        r#"{"type":"content_block_stop","index":0}"#,
        END,
        r#"{"type":"message_stop"}"#,
    ]);
    let thinking = named(&[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a city?"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}"#,
        BLOCK,
        TEXT,
        r#"{"type":"of_a_later_version"}"#,
        END,
        r#"{"type":"message_stop"}"#,
    ]);
    let own = stream(&[
        r#"{"type":"message_start","message":{"usage":null}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"text","text":"In "}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Päris"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9.0,"output_tokens":"3"}}"#,
    ]);
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"a city?","signature":"x"},{"type":"text","text":"In Päris"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":3}}"#;
    let tool = r#"{"type":"message","content":[{"type":"tool_use","id":"t","name":"answer","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":3}}"#;
    vec![
        Dialect { usage: (9, 3, 8), ..anthropic("Anthropic", plain) },
        Dialect {
            thinking: Some("a city?"),
            usage: (9, 3, 8),
            ..anthropic("Anthropic, thinking", thinking)
        },
        anthropic("a server of Anthropic's kind", own),
        Dialect { thinking: Some("a city?"), ..anthropic("a whole message", whole.to_owned()) },
        Dialect { output: r#"{"a":1}"#, ..anthropic("a whole message of a tool", tool.to_owned()) },
    ]
}

#[tokio::test]
async fn every_dialect_is_read_in_one_call_wherever_its_bytes_are_cut() {
    let groups = [services(), more_services(), servers(), ways(), messages()];
    for dialect in groups.into_iter().flatten() {
        let Dialect { name, interface, body, output, thinking, usage, finish_reason } = dialect;
        for (result, deltas) in results(interface, "text/event-stream", &body, &request()).await {
            let completion = result.unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
            assert_eq!((completion.output.as_str(), deltas.as_str()), (output, output), "{name}");
            assert_eq!(completion.thinking.as_deref(), thinking, "{name}");
            let counted = completion.usage;
            assert_eq!((counted.input, counted.output, counted.cache_read), usage, "{name}");
            let reason = completion.finish_reason.as_deref().unwrap_or_default();
            assert_eq!(reason, finish_reason, "{name}");
        }
    }
}

#[tokio::test]
async fn the_name_of_the_form_is_not_asked() {
    let body =
        stream(&[r#"{"choices":[{"delta":{"content":"In Päris"},"finish_reason":"stop"}]}"#]);
    for kind in
        ["application/json", "text/plain; charset=utf-8", "text/html", "application/x-ndjson"]
    {
        for (result, _) in results(Interface::OpenAi, kind, &body, &request()).await {
            assert_eq!(result.expect(kind).output, "In Päris");
        }
    }
}

#[tokio::test]
async fn tokens_that_nobody_counts_are_estimated() {
    for usage in
        ["null", "{}", r#"{"prompt_tokens":0,"completion_tokens":0}"#, r#"{"prompt_tokens":null}"#]
    {
        let text = "In Paris, on the right bank of the Seine";
        let chunk = format!(
            r#"{{"choices":[{{"delta":{{"content":"{text}"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
        );
        for (result, _) in
            results(Interface::OpenAi, "text/event-stream", &stream(&[&chunk]), &request()).await
        {
            let counted = result.expect(usage).usage;
            assert!(counted.input > 0 && counted.output >= 10, "{usage}: {counted:?}");
        }
    }
}

#[tokio::test]
async fn thinking_costs_no_confidence_wherever_it_stands() {
    let token = |text: &str, logprob: f64| {
        serde_json::json!({"choices": [{"delta": {"content": text}, "logprobs": {"content": [{"token": text, "logprob": logprob}]}}]}).to_string()
    };
    let mut events: Vec<String> =
        ["<think>", "hm", "</think>", "\n"].iter().map(|text| token(text, -9.0)).collect();
    events.push(token("Paris", -0.5));
    events.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    for (result, _) in
        results(Interface::OpenAi, "text/event-stream", &stream(&events), &request()).await
    {
        let completion = result.expect("an answer");
        assert_eq!(
            (completion.output.as_str(), completion.thinking.as_deref()),
            ("Paris", Some("hm"))
        );
        let confidence = completion.confidence.expect("the answer has log-probabilities");
        assert!((confidence - (-0.5_f64).exp()).abs() < 1e-12, "{confidence}");
        assert_eq!(completion.opening, [("Paris".to_owned(), -0.5)]);
    }
}

/// A model whose prompt opens the thinking: the worker learns it from the first answer.
#[tokio::test]
async fn thinking_that_the_prompt_opens_is_withheld_from_the_second_answer_on() {
    let body = stream(&[
        r#"{"choices":[{"delta":{"content":"a city?\n</th"}}]}"#,
        r#"{"choices":[{"delta":{"content":"ink>\n\nParis"},"finish_reason":"stop"}]}"#,
    ]);
    let [script, _] = scripts("text/event-stream", &body);
    let server = serve(vec![script.clone(), script]).await;
    let provider = OpenAi::new(&format!("{}/v1", server.url), None).expect("a client");
    for streamed in ["a city?\n</think>\n\nParis", "Paris"] {
        let (result, deltas) = call(&provider, &request()).await;
        let completion = result.expect("an answer");
        assert_eq!((completion.output.as_str(), deltas.as_str()), ("Paris", streamed));
        assert_eq!(completion.thinking.as_deref(), Some("a city?"));
    }
}
