//! The AWS backend obeys every rule, on every server that speaks the three services.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod support;

/// Every rule on one combination of servers. Only tests that are about Localstack alone have its name in theirs: they are
/// left out where it cannot run, and another server takes its part in the others.
macro_rules! on {
    ($module:ident, $combination:ident, $task_shards_min:literal) => {
        mod $module {
            use crate::support::OnAws;
            use conveyor_aws_servers::Combination;

            conveyor_store::conformance_suite!(OnAws::new(Combination::$combination, $task_shards_min).await);
        }
    };
}

on!(default_pair, Default, 1);
on!(default_pair_sharded, Default, 16);
on!(ministack, MiniStack, 1);
on!(dynamodb_local, DynamoDbLocal, 1);
