//! Measures how well each confidence separates right answers from wrong ones, on a model behind an
//! `OpenAI`-compatible server: AUROC and the expected calibration error, as a table.
//!
//! ```text
//! cargo run -p callboard-worker --example calibration -- http://127.0.0.1:PORT/v1 MODEL [ITEMS]
//! ```
//!
//! The items are made here: sums, differences, products, comparisons and capitals, each with one
//! right answer, in a fixed order. Deliberately absent: items of the kind that people bring to a
//! gate; these only show the worth of the figures on one model.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use callboard_domain::confidence::agreement::agreement;
use callboard_domain::confidence::verdict::{JUDGE, probability, question, verdict};
use callboard_worker::provider::openai::OpenAi;
use callboard_worker::provider::{Completion, Provider, Request};
use tokio::sync::mpsc;

/// Countries and their capitals, each of one word.
const CAPITALS: [(&str, &str); 60] = [
    ("France", "Paris"),
    ("Germany", "Berlin"),
    ("Italy", "Rome"),
    ("Spain", "Madrid"),
    ("Portugal", "Lisbon"),
    ("Austria", "Vienna"),
    ("Poland", "Warsaw"),
    ("Hungary", "Budapest"),
    ("Greece", "Athens"),
    ("Norway", "Oslo"),
    ("Sweden", "Stockholm"),
    ("Finland", "Helsinki"),
    ("Denmark", "Copenhagen"),
    ("Ireland", "Dublin"),
    ("Iceland", "Reykjavik"),
    ("Switzerland", "Bern"),
    ("Belgium", "Brussels"),
    ("Netherlands", "Amsterdam"),
    ("Romania", "Bucharest"),
    ("Bulgaria", "Sofia"),
    ("Serbia", "Belgrade"),
    ("Croatia", "Zagreb"),
    ("Slovenia", "Ljubljana"),
    ("Slovakia", "Bratislava"),
    ("Czechia", "Prague"),
    ("Ukraine", "Kyiv"),
    ("Russia", "Moscow"),
    ("Turkey", "Ankara"),
    ("Egypt", "Cairo"),
    ("Kenya", "Nairobi"),
    ("Ghana", "Accra"),
    ("Nigeria", "Abuja"),
    ("Senegal", "Dakar"),
    ("Morocco", "Rabat"),
    ("Tunisia", "Tunis"),
    ("Ethiopia", "Addis"),
    ("Uganda", "Kampala"),
    ("Japan", "Tokyo"),
    ("China", "Beijing"),
    ("India", "Delhi"),
    ("Thailand", "Bangkok"),
    ("Vietnam", "Hanoi"),
    ("Indonesia", "Jakarta"),
    ("Philippines", "Manila"),
    ("Mongolia", "Ulaanbaatar"),
    ("Nepal", "Kathmandu"),
    ("Pakistan", "Islamabad"),
    ("Iran", "Tehran"),
    ("Iraq", "Baghdad"),
    ("Syria", "Damascus"),
    ("Lebanon", "Beirut"),
    ("Jordan", "Amman"),
    ("Cuba", "Havana"),
    ("Peru", "Lima"),
    ("Chile", "Santiago"),
    ("Canada", "Ottawa"),
    ("Australia", "Canberra"),
    ("Colombia", "Bogota"),
    ("Ecuador", "Quito"),
    ("Uruguay", "Montevideo"),
];

/// A question and its one right answer.
struct Item {
    question: String,
    answer: String,
    is_number: bool,
}

fn items() -> Vec<Item> {
    let mut items = Vec::new();
    for index in 0..60_u64 {
        // Small numbers first, larger ones later, without chance.
        let (a, b) = (2 + index * 7 % (10 + index * 3), 1 + index * 5 % (8 + index * 2));
        let number = |question: String, answer: u64| Item {
            question: format!("{question} Answer with the number only."),
            answer: answer.to_string(),
            is_number: true,
        };
        items.push(number(format!("What is {a} + {b}?"), a + b));
        items.push(number(format!("What is {} - {b}?", a + b), a));
        items.push(number(format!("What is {} x {}?", a % 13, b % 12), (a % 13) * (b % 12)));
        items.push(number(format!("Which number is larger, {a} or {}?", a + b), a + b));
        let (country, capital) = CAPITALS[usize::try_from(index).expect("it is small") % 60];
        items.push(Item {
            question: format!("What is the capital of {country}? Answer with one word."),
            answer: capital.to_owned(),
            is_number: false,
        });
    }
    items
}

impl Item {
    fn is_right(&self, output: &str) -> bool {
        if self.is_number {
            let first = output.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
            return first == Some(self.answer.as_str());
        }
        output.to_lowercase().contains(&self.answer.to_lowercase())
    }
}

async fn call(provider: &OpenAi, request: &Request) -> Option<Completion> {
    let (sender, pieces) = mpsc::channel(1);
    drop(pieces);
    let deltas = sender.into();
    match provider.complete(request, &deltas).await {
        Ok(completion) => Some(completion),
        Err(failure) => {
            eprintln!("a call failed: {}", failure.message);
            None
        }
    }
}

/// The result of one item: true if the answer was right, and the figure of each method.
struct Outcome {
    is_right: bool,
    figures: [Option<f64>; 4],
}

const METHODS: [&str; 4] =
    ["logprobs", "samples, n = 3", "samples, n = 5", "judge (the same model)"];

async fn measure(provider: &OpenAi, model: &str, item: &Item) -> Option<Outcome> {
    let request = Request {
        model: model.to_owned(),
        prompt: item.question.clone(),
        max_tokens: Some(12),
        temperature: Some(0.0),
        ..Request::default()
    };
    let answer = call(provider, &request).await?;
    let warm = Request { temperature: Some(0.7), without_logprobs: true, ..request };
    let mut samples = Vec::new();
    for _ in 0..5 {
        samples.push(call(provider, &warm).await.map(|sample| sample.output));
    }
    let judge = Request {
        model: model.to_owned(),
        system_prompt: Some(JUDGE.to_owned()),
        prompt: question(None, &item.question, &answer.output),
        max_tokens: Some(4),
        temperature: Some(0.0),
        ..Request::default()
    };
    let judged = call(provider, &judge).await;
    let judged = judged.and_then(|judged| {
        let share = verdict(&judged.output).map(f64::from);
        probability(&judged.opening).or(share)
    });
    // The limit of tokens cuts a chatty answer; its log-probabilities count all the same here.
    let sum: f64 = answer.opening.iter().map(|(_, logprob)| logprob).sum();
    let logprobs = (!answer.opening.is_empty()).then(|| (sum / count(answer.opening.len())).exp());
    let figures = [
        answer.confidence.or(logprobs),
        agreement(&answer.output, &samples[..3], &[], false),
        agreement(&answer.output, &samples, &[], false),
        judged,
    ];
    Some(Outcome { is_right: item.is_right(&answer.output), figures })
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred items")]
const fn count(number: usize) -> f64 {
    number as f64
}

/// The chance that a right answer has the higher figure than a wrong one; ties count half.
fn auroc(figures: &[(bool, f64)]) -> Option<f64> {
    let of = |wanted: bool| figures.iter().filter(move |(is, _)| *is == wanted).map(|(_, at)| *at);
    let (right, wrong): (Vec<_>, Vec<_>) = (of(true).collect(), of(false).collect());
    if right.is_empty() || wrong.is_empty() {
        return None;
    }
    let score = |right: f64, wrong: f64| match right.total_cmp(&wrong) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let sum: f64 =
        right.iter().flat_map(|right| wrong.iter().map(|wrong| score(*right, *wrong))).sum();
    Some(sum / (count(right.len()) * count(wrong.len())))
}

/// The expected calibration error over ten bins of equal width.
fn calibration_error(figures: &[(bool, f64)]) -> f64 {
    let mut error = 0.0;
    for bin in 0..10_u32 {
        let (from, to) = (f64::from(bin) / 10.0, f64::from(bin + 1) / 10.0);
        let is_in = |at: f64| at >= from && (at < to || bin == 9);
        let inside: Vec<_> = figures.iter().filter(|(_, at)| is_in(*at)).collect();
        if inside.is_empty() {
            continue;
        }
        let right = inside.iter().filter(|(is_right, _)| *is_right).count();
        let mean: f64 = inside.iter().map(|(_, at)| at).sum::<f64>() / count(inside.len());
        error += (count(right) / count(inside.len()) - mean).abs() * count(inside.len());
    }
    error / count(figures.len())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(base), Some(model)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: calibration BASE_URL MODEL [ITEMS]");
        std::process::exit(2);
    };
    let most = arguments.next().and_then(|most| most.parse().ok()).unwrap_or(usize::MAX);
    let provider = OpenAi::new(&base, None).expect("a usable address");
    let mut outcomes = Vec::new();
    for item in items().iter().take(most) {
        outcomes.extend(measure(&provider, &model, item).await);
        eprintln!("{} items", outcomes.len());
    }
    let right = outcomes.iter().filter(|outcome| outcome.is_right).count();
    println!("{} items, {right} answered right\n", outcomes.len());
    println!("| method | items with a figure | AUROC | calibration error |");
    println!("|---|---|---|---|");
    for (index, method) in METHODS.iter().enumerate() {
        let figures: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| Some((outcome.is_right, outcome.figures[index]?)))
            .collect();
        let auroc = auroc(&figures).map_or("-".to_owned(), |auroc| format!("{auroc:.2}"));
        let error = calibration_error(&figures);
        println!("| {method} | {} | {auroc} | {error:.2} |", figures.len());
    }
}
