use crate::objects::world::{World, client};
use aws_sdk_s3::types::{BucketLifecycleConfiguration, BucketLocationConstraint};
use aws_sdk_s3::types::{ExpirationStatus, LifecycleExpiration, LifecycleRule, LifecycleRuleFilter};
use conveyor_aws::Settings;
use conveyor_aws::objects::{Objects, provision};
use conveyor_store::{Blobs, Error};

crate::objects::on_each_server!(
    a_bucket_is_made_once_and_keeps_what_an_operator_set,
    a_bucket_that_is_not_there_is_said_so
);

async fn rules(world: &World) -> Vec<LifecycleRule> {
    let get = world.s3.get_bucket_lifecycle_configuration().bucket(&world.settings.bucket);
    let mut rules = get.send().await.unwrap().rules.unwrap_or_default();
    rules.sort_by_key(|rule| rule.id.clone());
    rules
}

async fn a_bucket_is_made_once_and_keeps_what_an_operator_set(world: World) {
    let ours = rules(&world).await;
    let ids: Vec<&str> = ours.iter().filter_map(|rule| rule.id()).collect();
    assert_eq!(ids, ["conveyor-results", "conveyor-unfinished", "conveyor-uploads"]);
    assert_eq!(ours[2].expiration().and_then(|expiration| expiration.days()), Some(32));
    assert_eq!(ours[2].filter().and_then(|filter| filter.prefix()), Some("uploads/"));

    let logs = LifecycleRule::builder()
        .id("logs")
        .status(ExpirationStatus::Enabled)
        .filter(LifecycleRuleFilter::builder().prefix("logs/").build())
        .expiration(LifecycleExpiration::builder().days(9).build())
        .build()
        .unwrap();
    let all = BucketLifecycleConfiguration::builder().rules(logs).build().unwrap();
    let put = world.s3.put_bucket_lifecycle_configuration().bucket(&world.settings.bucket);
    put.lifecycle_configuration(all).send().await.unwrap();
    for _ in 0..2 {
        assert!(!provision(&world.s3, &world.settings).await.unwrap());
        let ids: Vec<String> = rules(&world).await.into_iter().filter_map(|rule| rule.id).collect();
        assert_eq!(ids, ["conveyor-results", "conveyor-unfinished", "conveyor-uploads", "logs"]);
    }

    let closed = world.s3.get_public_access_block().bucket(&world.settings.bucket).send().await.unwrap();
    let closed = closed.public_access_block_configuration().unwrap();
    assert_eq!(
        (closed.block_public_acls(), closed.ignore_public_acls(), closed.block_public_policy()),
        (Some(true), Some(true), Some(true))
    );
    let place = world.s3.get_bucket_location().bucket(&world.settings.bucket).send().await.unwrap();
    assert_eq!(place.location_constraint(), Some(&BucketLocationConstraint::EuWest1));
    world.objects.ready().await.unwrap();
}

async fn a_bucket_that_is_not_there_is_said_so(world: World) {
    let settings = Settings { bucket: format!("{}-none", world.settings.bucket), ..world.settings.clone() };
    let nowhere = Objects::new(client(&settings, &world.endpoint).await, &settings);
    let told = |error: Error| {
        let Error::Missing(why) = error else { panic!("not the bucket: {error:?}") };
        assert!(why.contains(&settings.bucket) && why.contains("conveyor provision"), "{why}");
    };
    told(nowhere.ready().await.unwrap_err());
    told(nowhere.get(&crate::objects::world::key("x"), 0, 1).await.unwrap_err());
    let body = bytes::Bytes::from_static(b"x");
    told(nowhere.put(&crate::objects::world::key("x"), body).await.unwrap_err());
}
