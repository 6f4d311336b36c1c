//! The AWS backend obeys every rule, on every server that speaks the three services.

/// Rules on one combination of servers.
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

on!(dynoxide_and_localstack, Default, 1);
on!(ministack, MiniStack, 1);
// Queues and objects are the same as above: neither sees the table.
on!(dynoxide_and_localstack_sharded, Default, 16, store);
on!(dynamodb_local_and_localstack, DynamoDbLocal, 1, store);
