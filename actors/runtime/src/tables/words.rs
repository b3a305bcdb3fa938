//! What rows of tasks and executions have in common, for them to take fewer bytes.
//!
//! Deliberately absent: any change. Rows that were squeezed by this are read back with this; what
//! comes later in the life of these rows does without. `golden/words-v1` pins it.

/// Names and usual values of fields, as they stand in JSON.
pub(super) const WORDS: &[u8] = concat!(
    r#"{"spec":{"id":"dt_exec_01m","plan":"dt_plan_01m","template":{"id":"","version":"1.0.0"},"#,
    r#""account":"usr_01m","fail_fast":true,"timeout_ms":600000,"max_cost":,"output_checked":,"#,
    r#""created_at":1795},"terms":{"hitl":{"required":true,"threshold":0.8}}}"#,
    r#"{"stage":"skipped","reason":"{"stage":"failed","runs":1,"task":"dt_task_01m","#,
    r#"{"stage":"dispatched","runs":1,"task":"dt_task_01m","#,
    r#"{"stage":"completed","runs":1,"task":"dt_task_01m","started_at":1795,"completed_at":1795,"#,
    r#""attempt":1,"usage":{"input":,"output":,"total_cost":0.0},"confidence":0.9,"error":{"#,
    r#"[{"s":{"cancelled":{"at":1795[{"s":{"failed":{"at":1795}},"v":,"a":,"r":,"l":1,"#,
    r#""e":{"code":"PROVIDER_ERROR","message":"TIMEOUT","RATE_LIMITED","LEASE_LOST","#,
    r#"[{"s":{"completed":{"at":1795}},"v":3,"a":1,"t":1795,"w":"wrk_01m","d":","c":{"usage":"#,
    r#"{"input":,"output":,"total_cost":0.0,"price_unknown":true},"confidence":0."#,
    r#","confidence_source":"logprobs","reported","finish_reason":"length"},"finish_reason":"stop"}},""#,
    r#"{"spec":{"id":"dt_task_01m","account":"key_01m","concurrent":,"model":"gpt-4o-mini","#,
    r#""claude-","queue":"default","priority":5,"timeout_ms":300000,"tags":["],"max_tokens":"#,
    r#"1024,"temperature":0.,"callback_url":"https://","gate":{"hold":"always","threshold":0."#,
    r#","timeout_ms":86400000,"pass_unknown":true,"sample_rate":0.,"notify":{"email":true,"#,
    r#""dashboard":true}},"retry":{"max_attempts":3,"origin":{"batch":"dt_batch_01m","#,
    r#""template":"","retry_of":"dt_task_01m"origin":{"step":["dt_exec_01m"checked":true},"#,
    r#""inputs":{"prompt":"","system_prompt":"You are a ","context":{""#,
)
.as_bytes();
