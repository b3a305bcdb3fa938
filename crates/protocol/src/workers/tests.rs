use serde_json::json;

use super::*;

fn up(frame: &Value) -> FromWorker {
    let read: FromWorker = serde_json::from_value(frame.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), frame, "written as it was read");
    read
}

fn down(frame: &Value) -> ToWorker {
    let read: ToWorker = serde_json::from_value(frame.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), frame, "written as it was read");
    read
}

#[test]
fn what_a_worker_says_has_exactly_the_members_of_the_protocol() {
    up(
        &json!({"type": "register", "name": "n", "version": "1", "queues": ["default"], "models": ["*"], "concurrency": 4}),
    );
    up(
        &json!({"type": "register", "name": "n", "version": "1", "queues": [], "models": [], "concurrency": 1,
        "resume": {"workerId": "wrk_1", "leases": ["l1"]}}),
    );
    up(&json!({"type": "heartbeat", "leases": ["l1", "l2"]}));
    up(&json!({"type": "delta", "lease": "l1", "text": "a"}));
    up(
        &json!({"type": "complete", "lease": "l1", "output": "a", "usage": {"input": 1, "output": 2}}),
    );
    up(
        &json!({"type": "complete", "lease": "l1", "output": "a", "usage": {"input": 1, "output": 2},
        "confidence": 0.5, "confidenceSource": "logprobs", "finishReason": "stop", "thinking": "hm"}),
    );
    up(
        &json!({"type": "complete", "lease": "l1", "output": "a", "usage": {"input": 1, "output": 2, "calls": 4},
        "judge": {"model": "j", "usage": {"input": 1, "output": 2, "calls": 3}},
        "limited": {"model": "j", "retryAfterMs": 1000}}),
    );
    up(&json!({"type": "fail", "lease": "l1", "error": {"code": "PROVIDER_ERROR", "message": "m"},
        "retryable": true, "retryAfterMs": 1000, "usage": {"input": 1, "output": 2, "calls": 1}}));
    assert_eq!(up(&json!({"type": "drain"})), FromWorker::Drain {});
}

#[test]
fn what_the_server_says_has_exactly_the_members_of_the_protocol() {
    down(
        &json!({"type": "registered", "workerId": "wrk_1", "leaseMs": 30000, "heartbeatMs": 10000,
        "kept": ["l1"], "lost": []}),
    );
    down(
        &json!({"type": "registered", "workerId": "wrk_1", "leaseMs": 30000, "heartbeatMs": 10000,
        "kept": [], "lost": [], "takes": ["thinking", "usage"]}),
    );
    down(
        &json!({"type": "assign", "lease": "l1", "attempt": 1, "deadlineAt": "2026-11-21T10:00:00.000Z",
        "task": {"id": "dt_task_1", "model": "m", "queue": "default", "prompt": "p", "systemPrompt": "s",
            "context": {"z": 1, "a": 2}, "maxTokens": 5, "temperature": 0.5, "seed": -7, "topP": 0.5, "stop": ["END"],
            "logprobs": false, "planExecutionId": "dt_exec_1", "stepId": "s1",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}),
    );
    down(&json!({"type": "leases", "renewed": ["l1"], "lost": ["l2"]}));
    down(&json!({"type": "ack", "lease": "l1", "of": "complete", "result": "duplicate"}));
    down(&json!({"type": "cancel", "lease": "l1", "reason": "cancelled"}));
    down(&json!({"type": "drain", "deadlineMs": 30000}));
    down(&json!({"type": "error", "error": {"code": "VALIDATION_ERROR", "message": "m"}}));
}

#[test]
fn a_context_keeps_its_member_order() {
    let text = r#"{"type":"assign","lease":"l","attempt":1,"deadlineAt":"","task":{"id":"i","model":"m","queue":"q","prompt":"p","context":{"z":1,"a":{"y":1,"b":2}}}}"#;
    let frame: ToWorker = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&frame).unwrap(), text);
}

#[test]
fn a_worker_takes_members_it_does_not_know_and_a_server_refuses_them() {
    let ack = json!({"type": "ack", "lease": "l1", "of": "fail", "result": "applied", "later": 1});
    assert!(serde_json::from_value::<ToWorker>(ack).is_ok());
    let frames = [
        json!({"type": "drain", "later": 1}),
        json!({"type": "heartbeat", "leases": [], "later": 1}),
        json!({"type": "delta", "lease": "l1", "text": "a", "later": 1}),
        json!({"type": "fail", "lease": "l1", "error": {"code": "c", "message": "m"}, "retryable": true, "retry_after_ms": 1}),
    ];
    for frame in frames {
        assert!(serde_json::from_value::<FromWorker>(frame.clone()).is_err(), "{frame}");
    }
}

#[test]
fn what_a_log_would_show_has_neither_prompt_nor_output() {
    let task = json!({"id": "i", "model": "m", "queue": "q", "prompt": "hush", "systemPrompt": "hush", "context": {"k": "hush"}});
    let assign = down(
        &json!({"type": "assign", "lease": "l", "attempt": 1, "deadlineAt": "", "task": task}),
    );
    let complete = up(
        &json!({"type": "complete", "lease": "l", "output": "hush", "usage": {"input": 1, "output": 1}}),
    );
    let delta = up(&json!({"type": "delta", "lease": "l", "text": "hush"}));
    assert!(!format!("{assign:?}{complete:?}{delta:?}").contains("hush"));
}
