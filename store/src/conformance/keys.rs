//! Rules of API keys.

use super::world::must;
use super::{Harness, World};
use conveyor_domain::{CallerId, KeyHash};
use std::collections::BTreeSet;

pub async fn a_key_belongs_to_its_first_caller(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = KeyHash::of("a key");
    let (first, second) =
        (CallerId::new(world.now(), &world.entropy), CallerId::new(world.now(), &world.entropy));
    let store = &world.backend.store;
    assert_eq!(must(store.caller_of(key).await), None);
    assert_eq!(must(store.put_key(key, first, world.now()).await), first);
    assert_eq!(must(store.put_key(key, second, world.now()).await), first);
    assert_eq!(must(store.caller_of(key).await), Some(first));
    let other = KeyHash::of("another key");
    must(store.put_key(other, second, world.now()).await);
    let accepted = async || -> BTreeSet<[u8; 32]> {
        must(store.accepted_keys().await).into_iter().map(|key| key.0).collect()
    };
    assert!(accepted().await.is_superset(&[key.0, other.0].into()));
    for _ in 0..2 {
        must(store.revoke_key(key, world.now()).await);
        assert_eq!(must(store.caller_of(key).await), None, "revoked");
    }
    assert!(!accepted().await.contains(&key.0) && accepted().await.contains(&other.0));
    let unknown = KeyHash::of("nobody's key");
    must(store.revoke_key(unknown, world.now()).await);
    assert_eq!(must(store.put_key(unknown, second, world.now()).await), second, "it was not there");
    assert_eq!(must(store.caller_of(other).await), Some(second));
    assert_eq!(must(store.put_key(key, second, world.now()).await), first, "the same caller's again");
    let after = harness.crash().await;
    assert_eq!(must(after.backend().store.caller_of(key).await), Some(first));
}
