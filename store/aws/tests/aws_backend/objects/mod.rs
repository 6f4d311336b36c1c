//! Objects in S3: every rule of objects, and what only S3 does, on each server that speaks it.

mod direct;
mod provision;
mod proxy;
mod rules;
mod streams;
mod world;

/// Makes one test a server of each function.
macro_rules! on_each_server {
    ($($test:ident),* $(,)?) => {
        mod localstack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::objects::world::World::on(conveyor_aws_servers::Kind::LocalStack).await).await;
            })*
        }
        mod ministack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::objects::world::World::on(conveyor_aws_servers::Kind::MiniStack).await).await;
            })*
        }
    };
}
pub(crate) use on_each_server;
