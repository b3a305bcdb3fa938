//! The dictionary of the rows of tasks, executions and approvals, for them to take fewer bytes: names
//! and usual values of fields, as they stand in JSON. The dictionary is short, for every word costs at
//! every write.
//!
//! Deliberately absent: any change. Rows that were compressed by these words are read back with these
//! words; later fields of these rows do without. `golden/words-v1` and its successors pin the words.

/// The requests of tasks and executions, and other texts.
pub(super) const OF_TEXTS: &[u8] = concat!(
    r#"{"spec":{"id":"dt_exec_01m","plan":"dt_plan_01m","template":{"id":"","version":"1.0.0"},"#,
    r#""account":"usr_01m","created_at":1795},"terms":{"hitl":{"{"spec":{"id":"dt_task_01m","#,
    r#""account":"key_01m","model":"","queue":"default","priority":5,"timeout_ms":300000,"#,
    r#""tags":["],"max_tokens":1024,"temperature":0."gate":{"hold":"always","threshold":0.8,"#,
    r#""notify":{"email":true,"dashboard":true}},"retry":{"max_attempts":3,"origin":{"batch":"#,
    r#""dt_batch_01m","origin":{"step":["dt_exec_01m"},"inputs":{"prompt":"","system_prompt":"You "#,
)
.as_bytes();

/// Steps of executions.
pub(super) const OF_STEPS: &[u8] = concat!(
    r#"{"stage":"dispatched","runs":1,"task":"{"stage":"completed","runs":1,"task":"dt_task_01m","#,
    r#"","started_at":1795,"completed_at":1795,"attempt":1,"usage":{"input":,"output":,"#,
    r#""total_cost":0.0},"confidence":0."#,
)
.as_bytes();

/// Tasks: most of the compressed ones have ended.
pub(super) const OF_TASKS: &[u8] = concat!(
    r#"[{"s":{"cancelled":{"at":1795[{"s":{"failed":{"at":1795"e":{"code":"PROVIDER_ERROR","#,
    r#""message":"[{"s":{"completed":{"at":1795}},"v":3,"a":1,"t":1795,"w":"wrk_01m","d":","c":"#,
    r#"{"usage":{"input":,"output":,"total_cost":0.0,"price_unknown":true},"confidence":0."#,
    r#","confidence_source":"logprobs","finish_reason":"stop"}},""#,
)
.as_bytes();

/// Executions that have ended, with their steps.
pub(super) const OF_EXECUTIONS: &[u8] = concat!(
    r#"{"s":{"cancelled":{"at":1795},"e":{"ending":{"code":"PROVIDER_ERROR","message":"","step":"#,
    r#""error":{"code":"DEPENDENCY_FAILED","message":"{"stage":"skipped"},{"stage":"rejected""#,
    r#"{"s":{"failed":{"at":1795{"s":{"completed":{"at":1795}},"v":12,"r":1,"t":1795,"d":1795,"#,
    r#""b":{"input":,"output":,"spent":0,"price_unknown":true},"p":[{"stage":"completed","runs":1,"#,
    r#""task":"dt_task_01m","started_at":1795,"completed_at":1795,"attempt":1,"usage":{"input":,"#,
    r#""output":,"total_cost":0.0},"confidence":0.},"#,
)
.as_bytes();

pub(super) const OF_APPROVALS: &[u8] = concat!(
    r#","c":{"by":"","until":1795,"e":1795,"d":{"by":{"account":"key_1","reviewer":""why":"sampled""#,
    r#""s":"escalated","approved","rejected","cancelled","expired"{"o":{"since":1795,"#,
    r#""why":"below_threshold","confidence":0.,"threshold":0.8,"{"o":{"since":1795,"why":"always","#,
    r#""shown":"","escalates_at":1795,"expires_at":1795,"rejects":true,"notify":{"email":true,"#,
    r#""dashboard":true}},"s":"pending","v":2,"a":"usr_01m","h":{"length":1,"head":""#,
)
.as_bytes();

/// Entries of the histories of approvals.
pub(super) const OF_HISTORIES: &[u8] = concat!(
    r#""action":"approved","rejected","escalated","claimed","details":{"from":"usr_01m","#,
    r#""to":"usr_01m","reason":"nobody has decided yet","after_ms":1800000},"reviewer":""edit":""#,
    r#"{"number":2,"action":"assigned","at":1795,"actor":"system","details":{"to":"usr_01m"},"#,
    r#"{"number":3,"action":"notification_skipped","#,
    r#""reason":"no server for mail is configured"},"actor":"key_01m","#,
    r#"{"number":1,"action":"pending","at":1795,"actor":"system","details":{"#,
    r#""why":"below_threshold","confidence":0.,"threshold":0.8,"execution":"dt_exec_01m","step":""#,
    r#"{"why":"always","shown":"","until":1795},"previous":"#,
    r#""0000000000000000000000000000000000000000000000000000000000000000","hash":""#,
)
.as_bytes();
