//! `null:` answers with nothing, at once: what is left is the speed of the pipeline.

use super::{Gateway, GatewayAnswer, GatewayRequest};
use async_trait::async_trait;
use bytes::Bytes;

#[derive(Clone, Copy, Debug)]
pub struct NullGateway;

#[async_trait]
impl Gateway for NullGateway {
    async fn call(&self, _request: GatewayRequest) -> GatewayAnswer {
        GatewayAnswer::page(200, Bytes::new())
    }
}
