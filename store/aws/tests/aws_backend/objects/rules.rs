//! The rules that every backend of objects obeys.

use crate::objects::world::World;

macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        $(async fn $rule(world: World) {
            conveyor_store::conformance::blobs::$rule(&world).await;
        })*

        crate::objects::on_each_server!($($rule),*);

        #[test]
        fn every_rule_of_objects_is_listed() {
            let listed = [$(concat!("blobs::", stringify!($rule))),*];
            for rule in conveyor_store::conformance::rules() {
                assert!(!rule.starts_with("blobs::") || listed.contains(&rule.as_str()), "{rule}");
            }
        }
    };
}

rules!(
    an_object_reads_back_by_range,
    a_missing_object_is_not_found,
    a_short_object_is_corrupt,
    a_body_is_verified_when_it_is_read,
    deleting_is_repeatable_and_stays_in_its_prefix,
    an_acknowledged_object_survives_a_crash,
    a_streamed_object_is_whole_and_pinned,
    a_stream_that_fails_leaves_no_object,
    other_bytes_than_the_pinned_are_never_read,
    joined_parts_are_one_object,
    objects_are_listed_by_their_keys_page_by_page,
);
