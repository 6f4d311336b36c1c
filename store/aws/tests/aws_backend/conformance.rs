//! The AWS backend obeys every rule, on every server that speaks the three services.

/// Rules on one combination of servers. Only tests that are about Localstack alone have its name in theirs: they are left out
/// where it cannot run, and another server takes its part in the others.
macro_rules! on {
    ($module:ident, $combination:ident, $task_shards_min:literal $(, $areas:ident)?) => {
        mod $module {
            use crate::on_aws::OnAws;
            use conveyor_aws_servers::Combination;

            conveyor_store::conformance_suite!(
                $($areas:)? OnAws::new(Combination::$combination, $task_shards_min).await
            );
        }
    };
}

on!(default_pair, Default, 1);
on!(ministack, MiniStack, 1);
// Queues and objects are the same as above: neither sees the table.
on!(default_pair_sharded, Default, 16, store);
on!(dynamodb_local, DynamoDbLocal, 1, store);
