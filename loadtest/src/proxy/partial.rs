//! A batch of which a part is refused: cut out of the request, and told in the answer as the service tells it.
//!
//! What is passed on has another body than the one that was signed. Servers that check the signature of a body (AWS does)
//! would refuse it.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// What is passed on, if anything is left of it, and what is not.
#[derive(Debug, PartialEq)]
pub struct Cut {
    pub rest: Option<Value>,
    pub refused: Refused,
}

#[derive(Debug, PartialEq)]
pub enum Refused {
    /// One place each statement of the request; a code where it is refused.
    Statements(Vec<Option<&'static str>>),
    /// Goes back to the caller under this name, by table.
    Items { name: &'static str, tables: Map<String, Value> },
    /// Ids of the entries.
    Entries(Vec<Value>),
}

pub fn is_batch(operation: &str) -> bool {
    matches!(
        operation,
        "BatchExecuteStatement"
            | "BatchWriteItem"
            | "BatchGetItem"
            | "SendMessageBatch"
            | "DeleteMessageBatch"
            | "ChangeMessageVisibilityBatch"
    )
}

/// Cuts about half of a batch out: at least one of it, and never all unless there is only one. `None` if the request is
/// not a batch, or an empty one.
pub fn cut(operation: &str, request: Value, chance: &mut Rng) -> Option<Cut> {
    match operation {
        "BatchExecuteStatement" => cut_statements(request, chance),
        "BatchWriteItem" => cut_items(request, "UnprocessedItems", Value::as_array_mut, chance),
        "BatchGetItem" => cut_items(request, "UnprocessedKeys", keys_of, chance),
        "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
            cut_entries(request, chance)
        }
        _ => None,
    }
}

fn cut_statements(mut request: Value, chance: &mut Rng) -> Option<Cut> {
    let statements = request.get_mut("Statements")?.as_array_mut()?;
    let picks = pick(statements.len(), chance)?;
    keep(statements, &mut picks.iter().map(|refused| !refused));
    let some_left = !statements.is_empty();
    let codes = picks.iter().map(|refused| {
        let codes = ["ThrottlingError", "ProvisionedThroughputExceeded"];
        refused.then(|| codes[chance.u64(..=1) as usize])
    });
    Some(Cut { refused: Refused::Statements(codes.collect()), rest: some_left.then_some(request) })
}

fn keys_of(table: &mut Value) -> Option<&mut Vec<Value>> {
    table.get_mut("Keys")?.as_array_mut()
}

fn cut_items(
    mut request: Value,
    name: &'static str,
    items_of: fn(&mut Value) -> Option<&mut Vec<Value>>,
    chance: &mut Rng,
) -> Option<Cut> {
    let tables = request.get_mut("RequestItems")?.as_object_mut()?;
    let items: usize = tables.values_mut().filter_map(items_of).map(|items| items.len()).sum();
    let picks = pick(items, chance)?;
    let mut refused = tables.clone();
    let mut passed_on = picks.iter().map(|refused| !refused);
    tables.values_mut().filter_map(items_of).for_each(|items| keep(items, &mut passed_on));
    let mut cut_out = picks.iter().copied();
    refused.values_mut().filter_map(items_of).for_each(|items| keep(items, &mut cut_out));
    for tables in [&mut *tables, &mut refused] {
        tables.retain(|_, table| items_of(table).is_some_and(|items| !items.is_empty()));
    }
    let some_left = !tables.is_empty();
    Some(Cut { refused: Refused::Items { name, tables: refused }, rest: some_left.then_some(request) })
}

fn cut_entries(mut request: Value, chance: &mut Rng) -> Option<Cut> {
    let entries = request.get_mut("Entries")?.as_array_mut()?;
    let picks = pick(entries.len(), chance)?;
    let refused = entries.iter().zip(&picks).filter(|(_, refused)| **refused);
    let ids = refused.map(|(entry, _)| entry["Id"].clone()).collect();
    keep(entries, &mut picks.iter().map(|refused| !refused));
    let some_left = !entries.is_empty();
    Some(Cut { refused: Refused::Entries(ids), rest: some_left.then_some(request) })
}

/// Which of so many are refused.
fn pick(count: usize, chance: &mut Rng) -> Option<Vec<bool>> {
    let last = count.checked_sub(1)? as u64;
    let mut picks: Vec<bool> = (0..count).map(|_| chance.u64(..=1) == 0).collect();
    let one = chance.u64(..=last) as usize;
    if picks.iter().all(|refused| !refused) {
        picks[one] = true;
    } else if last > 0 && picks.iter().all(|refused| *refused) {
        picks[one] = false;
    }
    Some(picks)
}

fn keep(items: &mut Vec<Value>, wanted: &mut impl Iterator<Item = bool>) {
    items.retain(|_| wanted.next().unwrap_or(true));
}

impl Refused {
    /// The answer to the whole batch, from the answer to what was passed on (an empty object if nothing was).
    pub fn join(self, mut answer: Value) -> Value {
        if !answer.is_object() {
            return answer;
        }
        match self {
            Refused::Statements(codes) => {
                let mut done = match answer["Responses"].take() {
                    Value::Array(done) => done.into_iter(),
                    _ => Vec::new().into_iter(),
                };
                let each = codes.into_iter().map(|code| match code {
                    Some(code) => json!({ "Error": { "Code": code, "Message": "Refused for now." } }),
                    None => done.next().unwrap_or_else(|| json!({})),
                });
                answer["Responses"] = each.collect();
            }
            Refused::Items { name, tables } => {
                // The server may have left some of the rest undone itself.
                for (table, items) in tables {
                    add_unprocessed(&mut answer[name][table], items);
                }
            }
            Refused::Entries(ids) => {
                let each = ids.into_iter().map(|id| {
                    json!({ "Id": id, "SenderFault": false, "Code": "InternalError", "Message": "Refused for now." })
                });
                match answer["Failed"].as_array_mut() {
                    Some(failed) => failed.extend(each),
                    None => answer["Failed"] = each.collect(),
                }
                if answer["Successful"].is_null() {
                    answer["Successful"] = json!([]);
                }
            }
        }
        answer
    }
}

fn add_unprocessed(there: &mut Value, items: Value) {
    match (there, items) {
        (Value::Array(there), Value::Array(items)) => there.extend(items),
        (Value::Object(there), Value::Object(mut items)) => {
            if let (Some(Value::Array(there)), Some(Value::Array(items))) =
                (there.get_mut("Keys"), items.get_mut("Keys"))
            {
                there.append(items);
            }
        }
        (there, items) => *there = items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> Vec<Value> {
        (0..count).map(|n| json!({ "n": n })).collect()
    }

    #[test]
    fn a_part_is_refused_but_not_all() {
        let mut chance = Rng::with_seed(1);
        for count in 1..30 {
            let refused = pick(count, &mut chance).unwrap().into_iter().filter(|refused| *refused).count();
            assert!(refused >= 1 && (refused < count || count == 1), "{refused} of {count}");
        }
        assert_eq!(pick(0, &mut chance), None);
    }

    #[test]
    fn every_statement_has_its_place_in_the_answer() {
        let request = json!({ "Statements": numbers(8), "ReturnConsumedCapacity": "TOTAL" });
        let cut = cut("BatchExecuteStatement", request, &mut Rng::with_seed(3)).unwrap();
        let rest = cut.rest.unwrap();
        assert_eq!(rest["ReturnConsumedCapacity"], "TOTAL");
        // The server answers each with the number of its statement.
        let done: Vec<Value> = rest["Statements"].as_array().unwrap().clone();
        let answer = cut.refused.join(json!({ "Responses": done, "ConsumedCapacity": [] }));
        let places = answer["Responses"].as_array().unwrap();
        assert_eq!((places.len(), &answer["ConsumedCapacity"]), (8, &json!([])));
        for (n, place) in places.iter().enumerate() {
            assert!(place["n"] == n || place["Error"]["Code"].is_string(), "{n}: {place}");
        }
        assert_eq!(places.iter().filter(|place| place["n"].is_u64()).count(), done.len());
    }

    #[test]
    fn unprocessed_items_go_back_by_table() {
        let request = json!({ "RequestItems": { "a": numbers(4), "b": numbers(5) } });
        let cut = cut("BatchWriteItem", request, &mut Rng::with_seed(5)).unwrap();
        let count = |tables: &Value| -> usize {
            let tables = tables.as_object().unwrap();
            tables.values().map(|items| items.as_array().unwrap().len()).sum()
        };
        let passed_on = count(&cut.rest.as_ref().unwrap()["RequestItems"]);
        let answer = cut.refused.join(json!({ "UnprocessedItems": { "a": [{ "n": 9 }] } }));
        assert_eq!(count(&answer["UnprocessedItems"]), 9 - passed_on + 1);
        assert!(answer["UnprocessedItems"]["a"].as_array().unwrap().contains(&json!({ "n": 9 })));
    }

    #[test]
    fn unprocessed_keys_keep_what_was_asked_about_them() {
        let request = json!({ "RequestItems": { "a": { "Keys": numbers(2), "ConsistentRead": true } } });
        let cut = cut("BatchGetItem", request, &mut Rng::with_seed(1)).unwrap();
        assert_eq!(cut.rest.unwrap()["RequestItems"]["a"]["Keys"].as_array().unwrap().len(), 1);
        let answer = cut.refused.join(json!({ "Responses": {}, "UnprocessedKeys": {} }));
        let back = &answer["UnprocessedKeys"]["a"];
        assert_eq!((back["Keys"].as_array().unwrap().len(), &back["ConsistentRead"]), (1, &json!(true)));
    }

    #[test]
    fn entries_that_were_refused_failed_by_no_fault_of_the_sender() {
        let entries: Vec<Value> = (0..10).map(|n| json!({ "Id": n.to_string() })).collect();
        let request = json!({ "QueueUrl": "q", "Entries": entries });
        let cut = cut("DeleteMessageBatch", request, &mut Rng::with_seed(1)).unwrap();
        let done = cut.rest.unwrap()["Entries"].clone();
        let answer = cut.refused.join(json!({ "Successful": done, "Failed": [{ "Id": "own" }] }));
        let (failed, done) = (answer["Failed"].as_array().unwrap(), answer["Successful"].as_array().unwrap());
        assert_eq!(failed.len() + done.len(), 11);
        assert!(
            failed.iter().skip(1).all(|entry| entry["SenderFault"] == false && entry["Code"].is_string())
        );
    }

    #[test]
    fn a_batch_of_one_is_refused_whole() {
        let one = |operation, request| {
            let cut = cut(operation, request, &mut Rng::with_seed(1)).unwrap();
            assert_eq!(cut.rest, None, "{operation}");
            cut.refused.join(json!({}))
        };
        let statement = one("BatchExecuteStatement", json!({ "Statements": [{}] }));
        assert!(statement["Responses"][0]["Error"]["Code"].is_string());
        let item = one("BatchWriteItem", json!({ "RequestItems": { "t": [{ "n": 1 }] } }));
        assert_eq!(item, json!({ "UnprocessedItems": { "t": [{ "n": 1 }] } }));
        let entry = one("SendMessageBatch", json!({ "Entries": [{ "Id": "a" }] }));
        assert_eq!((&entry["Failed"][0]["Id"], &entry["Successful"]), (&json!("a"), &json!([])));
    }

    #[test]
    fn what_is_no_batch_is_left_alone() {
        let chance = &mut Rng::with_seed(1);
        assert_eq!(cut("PutItem", json!({}), chance), None);
        assert_eq!(cut("BatchWriteItem", json!([]), chance), None);
        assert_eq!(cut("BatchExecuteStatement", json!({ "Statements": [] }), chance), None);
        assert!(!is_batch("PutItem") && is_batch("SendMessageBatch"));
    }
}
