//! API keys that an earlier version stored, all in one partition (SPEC 5.3).

use super::open_on;
use super::rows::{Item, number, rows, set};
use crate::on_aws::OnAws;
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_domain::{CallerId, KeyHash};

const OLD: &str = "Keys";

fn new_partition(key: KeyHash) -> String {
    format!("Keys#{}", &key.to_string()[..1])
}

/// A row as an earlier version wrote it.
async fn put_old(harness: &OnAws, key: KeyHash, caller: CallerId) {
    let text = |value: String| AttributeValue::S(value);
    let put = harness.clients.dynamodb.put_item().table_name(&harness.settings.table);
    let put = put.item("pk", text(OLD.to_owned())).item("sk", text(key.to_string()));
    let put = put.item("cal", text(caller.to_string())).item("ca", AttributeValue::N("7".to_owned()));
    put.send().await.unwrap();
}

async fn row(harness: &OnAws, pk: &str, key: KeyHash) -> Option<Item> {
    rows(harness, pk, &key.to_string()).await.pop()
}

#[tokio::test]
async fn a_key_of_an_earlier_version_is_accepted_and_copied_to_its_place() {
    let (harness, world) = open_on(1).await;
    let (store, key) = (&world.backend.store, KeyHash::of("an old key"));
    let (owner, other) = (CallerId::from_bytes([1; 16]), CallerId::from_bytes([2; 16]));
    put_old(&harness, key, owner).await;
    assert_eq!(store.accepted_keys().await, Ok(vec![key]));
    for _ in 0..2 {
        assert_eq!(store.caller_of(key).await, Ok(Some(owner)));
    }
    let copy = row(&harness, &new_partition(key), key).await.unwrap();
    assert_eq!((number(&copy, "ca"), number(&copy, "ra")), (Some(7), None));
    assert!(row(&harness, OLD, key).await.is_some(), "for processes of the earlier version");
    assert_eq!(store.accepted_keys().await, Ok(vec![key]), "once");
    // One that nobody has used yet.
    let unused = KeyHash::of("another old key");
    put_old(&harness, unused, owner).await;
    assert_eq!(store.put_key(unused, other, world.now()).await, Ok(owner), "it is somebody's already");
    assert_eq!(number(&row(&harness, &new_partition(unused), unused).await.unwrap(), "ca"), Some(7));
}

#[tokio::test]
async fn a_key_of_an_earlier_version_is_revoked_in_both_places() {
    let (harness, world) = open_on(1).await;
    let store = &world.backend.store;
    let owner = CallerId::from_bytes([1; 16]);
    for (name, used) in [("used", true), ("unused", false)] {
        let key = KeyHash::of(name);
        put_old(&harness, key, owner).await;
        if used {
            assert_eq!(store.caller_of(key).await, Ok(Some(owner)));
        }
        store.revoke_key(key, world.now()).await.unwrap();
        for place in [new_partition(key).as_str(), OLD] {
            assert!(number(&row(&harness, place, key).await.unwrap(), "ra").is_some(), "{name} in {place}");
        }
        // As after a crash between the two writes, or a process of the earlier version that accepts it again: the new place
        // decides, and nothing is copied over it.
        set(&harness, OLD, &key.to_string(), &[("ra", None)]).await;
        assert_eq!(store.caller_of(key).await, Ok(None), "{name}");
        assert_eq!(store.accepted_keys().await, Ok(vec![]), "{name}");
        store.revoke_key(key, world.now()).await.unwrap();
        assert!(number(&row(&harness, OLD, key).await.unwrap(), "ra").is_some(), "a repeat goes on");
        assert_eq!(store.put_key(key, CallerId::from_bytes([9; 16]), world.now()).await, Ok(owner));
        assert_eq!(store.caller_of(key).await, Ok(Some(owner)), "the same caller's again");
        store.revoke_key(key, world.now()).await.unwrap();
    }
    // Revoked by the earlier version.
    let revoked = KeyHash::of("revoked");
    put_old(&harness, revoked, owner).await;
    set(&harness, OLD, &revoked.to_string(), &[("ra", Some(8))]).await;
    assert_eq!(store.caller_of(revoked).await, Ok(None));
    assert_eq!(store.accepted_keys().await, Ok(vec![]));
    assert!(row(&harness, &new_partition(revoked), revoked).await.is_none());
}
