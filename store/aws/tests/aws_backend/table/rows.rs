//! Rows as they are in the table, read and damaged by hand.

use crate::on_aws::OnAws;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

pub type Item = HashMap<String, AttributeValue>;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// All rows of a partition whose sort key begins like this.
pub async fn rows(harness: &OnAws, pk: &str, prefix: &str) -> Vec<Item> {
    let query = harness.clients.dynamodb.query().table_name(&harness.settings.table).consistent_read(true);
    let pages = query
        .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
        .expression_attribute_values(":pk", text(pk))
        .expression_attribute_values(":prefix", text(prefix))
        .into_paginator()
        .items()
        .send();
    pages.try_collect().await.unwrap()
}

pub fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name).map(|value| value.as_n().unwrap().parse().unwrap())
}

pub fn sort_key(item: &Item) -> &str {
    item["sk"].as_s().unwrap()
}

pub async fn delete(harness: &OnAws, pk: &str, sk: &str) {
    let delete = harness.clients.dynamodb.delete_item().table_name(&harness.settings.table);
    delete.key("pk", text(pk)).key("sk", text(sk)).send().await.unwrap();
}

/// Puts text in the place of an attribute of a row, whatever it was.
pub async fn damage(harness: &OnAws, pk: &str, sk: &str, name: &str) {
    let update = harness.clients.dynamodb.update_item().table_name(&harness.settings.table);
    let update = update.key("pk", text(pk)).key("sk", text(sk)).expression_attribute_names("#name", name);
    let update = update
        .update_expression("SET #name = :garbage")
        .expression_attribute_values(":garbage", text("garbage"));
    update.send().await.unwrap();
}

/// Sets numbers of a row, or removes attributes of it.
pub async fn set(harness: &OnAws, pk: &str, sk: &str, change: &[(&str, Option<i64>)]) {
    for (name, value) in change {
        let update = harness.clients.dynamodb.update_item().table_name(&harness.settings.table);
        let update =
            update.key("pk", text(pk)).key("sk", text(sk)).expression_attribute_names("#name", *name);
        let update = match value {
            Some(value) => update
                .update_expression("SET #name = :value")
                .expression_attribute_values(":value", AttributeValue::N(value.to_string())),
            None => update.update_expression("REMOVE #name"),
        };
        update.send().await.unwrap();
    }
}
