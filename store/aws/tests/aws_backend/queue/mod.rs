//! Queues in SQS: every rule of queues, and what only SQS does, on each server that speaks it.

mod faults;
mod provision;
mod script;
mod shared;
mod world;

/// Makes one test a server of each function.
macro_rules! on_each_server {
    ($($test:ident),* $(,)?) => {
        mod localstack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::queue::world::OnSqs::new(conveyor_aws_servers::Kind::LocalStack).await).await;
            })*
        }
        mod ministack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::queue::world::OnSqs::new(conveyor_aws_servers::Kind::MiniStack).await).await;
            })*
        }
    };
}
pub(crate) use on_each_server;

mod localstack {
    conveyor_store::conformance_suite!(queue: crate::queue::world::OnSqs::provisioned(conveyor_aws_servers::Kind::LocalStack).await);
}

mod ministack {
    conveyor_store::conformance_suite!(queue: crate::queue::world::OnSqs::provisioned(conveyor_aws_servers::Kind::MiniStack).await);
}
