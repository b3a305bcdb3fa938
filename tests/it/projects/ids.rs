//! A fuzz of identifiers: in another project, what a project has is answered like what never existed.
//!
//! ```text
//!   an identifier or a name of a project ─ changed ─▶ another project's key ─▶ an answer
//!   one of the same form that nothing has ─ changed alike ─▶ the same key ───▶ the same answer
//! ```

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode_byte, utf8_percent_encode,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::header::HeaderValue;

use super::*;

/// The projects that ask side by side, each in an order of its own.
const LANES: u64 = 4;
/// The keys that ask: roles, and one of the sandbox.
const KEYS: [&str; 6] = ["admin", "operator", "reviewer", "viewer", "worker", "test"];
const PREFIXES: [&str; 9] =
    ["dt_task_", "dt_exec_", "dt_plan_", "dt_batch_", "bat_", "key_", "prj_", "usr_", ""];
const IN_PATH: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// The place of the identifier in a request.
const HERE: &str = "$";

fn requests() -> u64 {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 100_000 } else { 2_000 }
}

/// A request that names something.
struct Asked {
    method: Method,
    path: String,
    at: At,
    /// True if the route takes any name, and may make something of it.
    takes_names: bool,
}

enum At {
    Path,
    Query(String),
    Header(&'static str, Value),
    Body(Value),
}

/// The identifiers of a project by the beginning of their routes.
type Ids = BTreeMap<&'static str, String>;

/// Every route of the document that has a parameter in its path or a question behind it.
fn of_the_document(own: &Ids) -> Vec<Asked> {
    let mut asked = Vec::new();
    for (path, methods) in document()["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let parameters: Vec<_> =
                path.split('{').skip(1).filter_map(|it| it.split('}').next()).collect();
            for name in &parameters {
                let path = path.replace(&format!("{{{name}}}"), HERE);
                let takes_names = ["name", "step"].contains(name);
                let path = with_own(&path, own);
                asked.push(Asked { method: method.clone(), path, at: At::Path, takes_names });
            }
            let is_socket = ["/ws", "/api/workers/connect"].contains(&&**path);
            for parameter in route["parameters"].as_array().into_iter().flatten() {
                if method != Method::GET || parameter["in"] != "query" || is_socket {
                    continue;
                }
                let (path, name) = (with_own(path, own), text(parameter, "name").to_owned());
                let (at, takes_names) = (At::Query(name), false);
                asked.push(Asked { method: method.clone(), path, at, takes_names });
            }
        }
    }
    asked
}

/// The path with what this project has of its own in place of parameters.
fn with_own(path: &str, own: &Ids) -> String {
    let mut path = path.to_owned();
    while let Some((before, rest)) = path.split_once('{') {
        let (name, after) = rest.split_once('}').expect("its end");
        let value = match (own.get(before), name) {
            (Some(id), _) => id,
            (None, "other") => &own["/api/batches/"],
            (None, "user") => "usr_00000000000000000000000001",
            (None, "step") => "one",
            (None, _) => "x",
        };
        path = format!("{before}{value}{after}");
    }
    path
}

/// Headers and bodies that name something.
fn by_hand(own: &Ids) -> Vec<Asked> {
    let post = |path: &str, at, takes_names| {
        let path = with_own(path, own);
        Asked { method: Method::POST, path, at, takes_names }
    };
    let mut asked = Vec::new();
    let task = json!({"prompt": "p"});
    for path in ["/api/tasks", "/api/plans/{id}/execute", "/api/bulk", "/api/tasks/batch"] {
        let body = match path {
            "/api/tasks" => task.clone(),
            "/api/tasks/batch" => json!({"tasks": [task]}),
            "/api/bulk" => json!({"action": "cancel", "filter": {"tags": ["none"]}}),
            _ => json!({}),
        };
        asked.push(post(path, At::Header("Idempotency-Key", body), true));
    }
    for (path, header) in [("/api/tasks", "Callboard-Project"), ("/api/events", "Last-Event-ID")] {
        let (method, at) = (Method::GET, At::Header(header, Value::Null));
        asked.push(Asked { method, path: path.to_owned(), at, takes_names: false });
    }
    let template = own["/api/templates/"].as_str();
    let schedule = |target: Value| json!({"name": "s", "cron": "0 3 * * *", "target": target});
    let cancel = |filter: Value| json!({"action": "cancel", "filter": filter, "dryRun": true});
    let with_task = |name: &str, value: Value| {
        let mut task = task.clone();
        task[name] = value;
        task
    };
    let step = |name: &str, value: Value| {
        let mut step = with_task(name, value);
        step["id"] = json!("a");
        json!({"name": "p", "steps": [step]})
    };
    for (path, body, takes_names) in [
        ("/api/tasks", with_task("files", json!([HERE])), false),
        ("/api/tasks/batch", json!({"tasks": [with_task("files", json!([HERE]))]}), false),
        ("/api/plans", step("files", json!([HERE])), false),
        ("/api/schedules", schedule(json!({"planId": HERE})), false),
        ("/api/schedules", schedule(json!({"templateId": HERE})), false),
        ("/api/batches", json!({"templateId": HERE, "rows": [{"key": "k", "input": {}}]}), false),
        ("/api/batches/{id}/retry", json!({"keys": [HERE]}), false),
        ("/api/hitl/{id}/assign", json!({"assignee": HERE}), false),
        ("/api/auth/keys/revoke", json!({"madeBy": HERE, "dryRun": true}), false),
        ("/api/bulk", cancel(json!({"batch": HERE})), false),
        ("/api/bulk", cancel(json!({"templateId": HERE})), false),
        ("/api/bulk", cancel(json!({"search": HERE})), false),
        ("/api/bulk", cancel(json!({"tags": [HERE]})), false),
        (
            "/v1/batches",
            json!({"input_file_id": HERE, "endpoint": "/v1/chat/completions", "completion_window": "24h"}),
            false,
        ),
        ("/api/tasks", with_task("queue", json!(HERE)), true),
        ("/api/tasks", with_task("model", json!(HERE)), true),
        ("/api/tasks", with_task("tags", json!([HERE])), true),
        ("/api/tasks", with_task("concurrencyKey", json!(HERE)), true),
        ("/api/tasks", with_task("fairnessKey", json!(HERE)), true),
        ("/api/plans", json!({"name": HERE, "steps": [{"id": "a", "prompt": "p"}]}), true),
        ("/api/plans", step("queue", json!(HERE)), true),
        (
            "/api/schedules",
            json!({"name": HERE, "cron": "0 3 * * *", "target": {"task": task}}),
            true,
        ),
        (
            "/api/batches",
            json!({"templateId": template, "name": HERE, "rows": [{"key": HERE, "input": {"x": "1"}}]}),
            true,
        ),
        (
            "/api/budgets",
            json!({"limit": 5, "period": "day", "match": {"tags": [HERE]}, "onExceed": "alert"}),
            true,
        ),
        ("/api/views", json!({"name": HERE, "page": "tasks", "query": ""}), true),
        ("/api/auth/keys", json!({"name": HERE, "role": "worker", "queues": [HERE]}), true),
        (
            "/api/templates",
            json!({"name": HERE, "version": "1.0.0", "industry": "custom",
                "inputSchema": {"type": "object"}, "steps": [{"id": "one", "prompt": "p"}]}),
            true,
        ),
        (
            "/api/templates/{id}/deploy",
            json!({"input": {"x": "1"}, "queueOverrides": {"one": HERE}}),
            true,
        ),
    ] {
        asked.push(post(path, At::Body(body), takes_names));
    }
    asked
}

/// An identifier of the same kind, time and partition that nothing has.
fn twin(known: &str, chance: &mut StdRng) -> String {
    let digits = b"0123456789abcdefghjkmnpqrstvwxyz";
    let (prefix, rest) = known.rsplit_once('_').expect("it has a prefix");
    let drawn: Vec<_> = (10..24).map(|_| *digits.choose(chance).expect("digits")).collect();
    let drawn = String::from_utf8(drawn).expect("ASCII");
    format!("{prefix}_{}{drawn}{}", &rest[..10], &rest[24..])
}

/// A word of the same length that nothing has.
fn twin_of_word(chance: &mut StdRng) -> String {
    WORD.bytes().map(|_| char::from(chance.random_range(b'a'..=b'z'))).collect()
}

/// A change that two texts of one form undergo alike.
enum Mutation {
    None,
    Byte(usize, char),
    Prefix(&'static str),
    Upper,
    OneUpper(usize),
    Truncated(usize),
    Twice,
    Encoded,
    Before(char),
    After(&'static str),
}

impl Mutation {
    fn any(of: &str, chance: &mut StdRng) -> Self {
        let at = chance.random_range(0..of.len());
        match chance.random_range(0..12) {
            0..=2 => Self::None,
            3 => Self::Byte(
                at,
                *['0', 'z', '_', '-', '%', '/', '.', 'é', '\0'].choose(chance).expect("some"),
            ),
            4 => Self::Prefix(PREFIXES.choose(chance).expect("some")),
            5 => Self::Upper,
            6 => Self::OneUpper(at),
            7 => Self::Truncated(of.len() - chance.random_range(1..3)),
            8 => Self::Twice,
            9 => Self::Encoded,
            10 => Self::Before(*[' ', '/', '\t', '+', '"'].choose(chance).expect("some")),
            _ => {
                Self::After([" ", "/..", "?", "#", ",", "%00", "\n"].choose(chance).expect("some"))
            }
        }
    }

    fn of(&self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::Byte(at, to) => format!("{}{to}{}", &text[..*at], &text[at + 1..]),
            Self::Prefix(prefix) => {
                format!("{prefix}{}", text.rsplit_once('_').map_or(text, |(_, rest)| rest))
            }
            Self::Upper => text.to_uppercase(),
            Self::OneUpper(at) => {
                format!("{}{}{}", &text[..*at], text[*at..=*at].to_uppercase(), &text[at + 1..])
            }
            Self::Truncated(to) => text[..*to].to_owned(),
            Self::Twice => text.repeat(2),
            Self::Encoded => text.bytes().map(percent_encode_byte).collect(),
            Self::Before(char) => format!("{char}{text}"),
            Self::After(end) => format!("{text}{end}"),
        }
    }
}

impl Asked {
    /// The request with a text in its place; `None` if a header cannot have it.
    fn request(&self, client: &Client, value: &str) -> Option<reqwest::RequestBuilder> {
        let request = |path: &str| client.request(self.method.clone(), path);
        let is_read = matches!(self.method, Method::GET | Method::DELETE);
        Some(match &self.at {
            At::Path => {
                // Percent signs of a change stay, so that they are read as what they encode.
                let value = if value.starts_with('%') {
                    value.to_owned()
                } else {
                    utf8_percent_encode(value, &IN_PATH).to_string()
                };
                let request = request(&self.path.replace(HERE, &value));
                if is_read { request } else { request.json(&json!({})) }
            }
            At::Query(name) => request(&self.path).query(&[(name, value)]),
            At::Header(name, body) => {
                let value = HeaderValue::from_str(value).ok()?;
                let request = request(&self.path).header(*name, value);
                if is_read { request } else { request.json(body) }
            }
            At::Body(body) => {
                let here = json!(HERE).to_string();
                let body = body.to_string().replace(&here, &json!(value).to_string());
                request(&self.path).header("content-type", "application/json").body(body)
            }
        })
    }

    /// Status and body of the answer; the first part of a stream that has no end.
    async fn answer(&self, client: &Client, value: &str) -> Option<(u16, String)> {
        let mut answer = self.request(client, value)?.send().await.expect("an answer");
        let (status, mut body) = (answer.status().as_u16(), Vec::new());
        let is_stream =
            answer.headers().get("content-type").is_some_and(|it| it == "text/event-stream");
        let wait = Duration::from_millis(if is_stream { 20 } else { 120_000 });
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(wait, answer.chunk()).await {
            body.extend(chunk);
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        if is_stream {
            return Some((status, body));
        }
        let Ok(mut body) = serde_json::from_str::<Value>(&body) else {
            return Some((status, body));
        };
        let made =
            body["data"]["id"].as_str().filter(|_| status == 201 && self.method == Method::POST);
        if let Some(id) = made {
            client.delete(&format!("{}/{id}", self.path)).await;
        }
        body["meta"].take();
        Some((status, body.to_string()))
    }
}

/// The answer without the text that was sent, in every form in which it may come back: decoded, in small letters, as the
/// first of a list, cut to 64 characters, with escapes.
fn without(answer: &str, sent: &str) -> String {
    let decoded = percent_decode_str(sent).decode_utf8_lossy().into_owned();
    let mut forms = vec![sent.to_owned(), decoded.to_lowercase(), decoded];
    let with = |forms: &mut Vec<String>, of: &dyn Fn(&String) -> String| {
        let more: Vec<_> = forms.iter().map(of).collect();
        forms.extend(more);
    };
    with(&mut forms, &|form| form.trim_end_matches(',').to_owned());
    with(&mut forms, &|form| form.chars().take(64).collect());
    with(&mut forms, &|form| format!("{form:?}").trim_matches('"').to_owned());
    with(&mut forms, &|form| json!(form).to_string().trim_matches('"').to_owned());
    forms.retain(|form| form.len() > 4);
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.iter().fold(answer.to_owned(), |all, form| all.replace(form, "IT"))
}

/// The members and the lengths of the lists in an answer, whose values are drawn by chance or are the asking project's.
fn form_of(answer: &str) -> String {
    fn without_values(value: &mut Value) {
        match value {
            Value::Object(members) => members.values_mut().for_each(without_values),
            Value::Array(items) => items.iter_mut().for_each(without_values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                *value = Value::Null;
            }
        }
    }
    let Ok(mut body) = serde_json::from_str(answer) else { return "no JSON".to_owned() };
    without_values(&mut body);
    body.to_string()
}

/// A project that asks with what another one has.
struct Lane {
    number: u64,
    clients: Vec<Client>,
    asked: Vec<Asked>,
}

/// The identifiers, names and texts of the project that others ask about.
struct Known {
    ids: Vec<String>,
    names: Vec<String>,
    /// The texts that no other project has.
    texts: Vec<String>,
}

impl Lane {
    async fn open(server: &Server, root: &Client, number: u64) -> Self {
        let team = team(server, root, &format!("lane {number}")).await;
        let own = fill(server, &team, "palladium").await;
        let mut clients = Vec::new();
        for role in KEYS {
            let asks = match role {
                "test" => json!({"name": "t", "role": "operator", "environment": "test"}),
                role => json!({"name": role, "role": role}),
            };
            clients.push(Client::new(&server.url, &key(root, &team.id, asks).await));
        }
        let mut asked = of_the_document(&own);
        asked.extend(by_hand(&own));
        Self { number, clients, asked }
    }

    /// Sends so many pairs of requests; returns what was wrong, and the number of pairs whose answers were compared.
    async fn run(self, known: &Known, pairs: u64) -> (Vec<String>, u64) {
        let mut chance = StdRng::seed_from_u64(self.number);
        // One for each, so that what this project makes of a name it makes of its twin.
        let word = twin_of_word(&mut chance);
        let names = known.names.iter().map(|name| (name, name.replace(WORD, &word)));
        let ids = known.ids.iter().map(|id| (id, twin(id, &mut chance)));
        let twins: BTreeMap<_, _> = names.chain(ids).collect();
        let (mut wrong, mut compared) = (Vec::new(), 0);
        for _ in 0..pairs {
            let at = chance.random_range(0..self.clients.len());
            let (client, asked) =
                (&self.clients[at], self.asked.choose(&mut chance).expect("some"));
            let among = if asked.takes_names || chance.random_range(0..4) == 0 {
                &known.names
            } else {
                &known.ids
            };
            let text = among.choose(&mut chance).expect("some");
            let mutation = Mutation::any(text, &mut chance);
            let sent = [mutation.of(text), mutation.of(&twins[text])];
            // A digit has one case: the change may leave one of them as it was.
            let is_whole = [sent[0] == *text, sent[1] == twins[text]];
            if sent[0] == sent[1] || is_whole[0] != is_whole[1] {
                continue;
            }
            let mut difference = None;
            // A page of the own project may change between the two requests.
            for _ in 0..3 {
                let Some(of_known) = asked.answer(client, &sent[0]).await else { break };
                let of_twin = asked.answer(client, &sent[1]).await.expect("both can be sent");
                let answers = [(of_known, &sent[0]), (of_twin, &sent[1])];
                let answers = answers.map(|((status, body), sent)| (status, without(&body, sent)));
                let shown = known.texts.iter().find(|text| answers[0].1.contains(*text));
                let is_error = answers[0].0 >= 400;
                let plain = answers.each_ref().map(|(status, body)| match status {
                    // Much of what was made is drawn by chance.
                    201 => (*status, String::new()),
                    200..400 => (*status, form_of(body)),
                    _ => (*status, body.clone()),
                });
                // The asking project has things of each name too, which its own requests change.
                let differs = plain[0] != plain[1] && !known.names.contains(text);
                difference = (differs || shown.is_some() || plain[0].0 >= 500)
                    .then(|| format!("{shown:?} {plain:#?}"));
                compared += 1;
                if is_error || difference.is_none() || shown.is_some() {
                    break;
                }
            }
            if let Some(difference) = difference {
                let (method, path, who) = (&asked.method, &asked.path, KEYS[at]);
                wrong.push(format!("{who}: {method} {path} with {sent:?}: {difference}"));
            }
        }
        (wrong, compared)
    }
}

/// Every list of a project, without what time changes.
async fn lists(client: &Client) -> Vec<(String, Value)> {
    fn without_times(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let is_time = |name: &str| {
                    name.ends_with("Ms")
                        || name.ends_with("At")
                        || ["meta", "from", "to"].contains(&name)
                };
                fields.retain(|name, _| !is_time(name));
                fields.values_mut().for_each(without_times);
            }
            Value::Array(items) => items.iter_mut().for_each(without_times),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut lists = Vec::new();
    for (path, methods) in document()["paths"].as_object().expect("paths") {
        // Workers lose their connection, and the server's own figures move.
        let of_server = ["/ws", "/api/events", "/api/metrics", "/api/health", "/api/workers"];
        let is_list = methods["get"].is_object() && !path.contains('{');
        if is_list && !of_server.iter().any(|it| path.starts_with(it)) {
            let mut body = client.get(path).await.body;
            without_times(&mut body);
            lists.push((path.clone(), body));
        }
    }
    lists
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_tells_an_identifier_of_another_project_from_one_that_nothing_has() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000")]);
    let root = server.admin().await;
    let alpha = team(&server, &root, "alpha").await;
    let mut ids: Vec<_> = fill(&server, &alpha, WORD).await.into_values().collect();
    let flow = json!({"prompt": "p", "concurrencyKey": WORD, "concurrencyLimit": 1, "fairnessKey": WORD, "queue": WORD});
    let once = alpha.admin.post_once("/api/tasks", WORD, &flow).await.expect(201);
    ids.push(text(&once, "id").to_owned());
    let many = alpha.admin.post("/api/tasks/batch", &json!({"tasks": [flow]})).await.expect(201);
    ids.push(text(&many, "batchId").to_owned());
    let keys = alpha.admin.get("/api/auth/keys").await.expect_ok();
    ids.extend(keys.as_array().expect("keys").iter().map(|key| text(key, "id").to_owned()));
    ids.retain(|id| id.rsplit_once('_').is_some_and(|(_, rest)| rest.len() == 26));
    let texts = ids.iter().cloned().chain([format!("a {WORD}"), format!("{WORD} too")]).collect();
    let names = vec![WORD.to_owned(), format!("{WORD}-v1")];
    let known = std::sync::Arc::new(Known { ids, names, texts });
    let mut lanes = Vec::new();
    for number in 0..LANES {
        lanes.push(Lane::open(&server, &root, number).await);
    }
    let before = lists(&alpha.admin).await;
    let running: Vec<_> = lanes
        .into_iter()
        .map(|lane| {
            let known = std::sync::Arc::clone(&known);
            tokio::spawn(async move { lane.run(&known, requests() / LANES / 2).await })
        })
        .collect();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for lane in running {
        let (of_lane, pairs) = lane.await.expect("it ends without a fault");
        wrong.extend(of_lane);
        compared += pairs;
    }
    eprintln!("{compared} pairs of answers were compared");
    assert!(
        wrong.is_empty(),
        "{} of {compared}: {}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(compared > requests() / 3, "{compared}");
    for ((path, before), (_, after)) in before.iter().zip(lists(&alpha.admin).await) {
        assert_eq!(*before, after, "{path}");
    }
}
