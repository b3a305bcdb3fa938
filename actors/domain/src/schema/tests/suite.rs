//! The tests of others: JSON-Schema-Test-Suite (its licence is beside it), and schemas as zod and pydantic
//! write them.

use super::*;

/// The tests of draft 2020-12 at commit 44401e0c046704b476ec9d2e2fccdaee618f259d, the optional ones included: a
/// line for each file, with its name and its cases.
const SUITE: &str = include_str!("../../../schemas/suite.jsonl");

/// Schemas with the names of their generators, one on each line.
const GENERATED: &str = include_str!("../../../schemas/generated.jsonl");

/// The files of the suite with verdicts that differ, the number of these, and the reason.
const DIFFERS: [(&str, usize, &str); 6] = [
    ("dynamicRef.json", 13, ELSEWHERE),
    ("format.json", 19, "formats are checked, as in the tests of optional/format"),
    ("optional/cross-draft.json", 1, ELSEWHERE),
    ("optional/format-assertion.json", 4, ELSEWHERE),
    ("refRemote.json", 31, ELSEWHERE),
    ("vocabulary.json", 5, ELSEWHERE),
];

/// The schema is refused.
const ELSEWHERE: &str = "no document is fetched";

fn verdicts(case: &Value) -> Vec<Result<bool, String>> {
    let compiled = Schema::compile("schema", &case["schema"]);
    let tests = case["tests"].as_array().expect("a list");
    let check = |test: &Value| {
        let schema = compiled.as_ref().map_err(|faults| format!("{faults:?}"))?;
        let checked = schema.check_input(&test["data"], &mut Fuel::new(FUEL));
        let checked = checked.map_err(|OutOfFuel| "out of fuel".to_owned())?;
        Ok(checked.is_ok() == test["valid"])
    };
    tests.iter().map(check).collect()
}

#[test]
fn the_verdicts_are_those_of_the_test_suite() {
    let (mut differs, mut count, mut refused) = (Vec::new(), 0, 0);
    for line in SUITE.lines() {
        let file: Value = serde_json::from_str(line).expect("JSON");
        let verdicts: Vec<_> =
            file[1].as_array().expect("cases").iter().flat_map(verdicts).collect();
        count += verdicts.len();
        refused += verdicts.iter().filter(|it| it.is_err()).count();
        let others = verdicts.iter().filter(|it| **it != Ok(true)).count();
        if others > 0 {
            differs.push((file[0].as_str().expect("a name").to_owned(), others));
        }
    }
    let known = DIFFERS.map(|(file, others, _)| (file.to_owned(), others));
    assert_eq!((count, refused, differs), (2_225, 54, known.to_vec()));
    let elsewhere = DIFFERS.iter().filter(|(_, _, why)| *why == ELSEWHERE);
    assert_eq!(elsewhere.map(|(_, others, _)| others).sum::<usize>(), refused);
}

#[test]
fn generated_schemas_are_taken() {
    let refused = GENERATED.lines().filter_map(|line| {
        let schema: Value = serde_json::from_str(line).expect("JSON");
        Schema::compile("schema", &schema[1])
            .err()
            .map(|faults| format!("{} {faults:?}", schema[0]))
    });
    assert_eq!(refused.collect::<Vec<_>>(), [""; 0]);
}
