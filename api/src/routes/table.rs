//! Routes that remember their paths, so that none goes without its description (`crate::openapi`).

use crate::state::Shared;
use axum::Router;
use axum::handler::Handler;
use axum::routing::MethodRouter;

#[derive(Debug)]
pub(super) struct Routes {
    pub router: Router<Shared>,
    pub paths: Vec<&'static str>,
}

impl Routes {
    pub fn new() -> Routes {
        Routes { router: Router::new(), paths: Vec::new() }
    }

    pub fn route(mut self, path: &'static str, methods: MethodRouter<Shared>) -> Routes {
        self.paths.push(path);
        Routes { router: self.router.route(path, methods), paths: self.paths }
    }

    pub fn merge(mut self, other: Routes) -> Routes {
        self.paths.extend(other.paths);
        Routes { router: self.router.merge(other.router), paths: self.paths }
    }

    pub fn method_not_allowed_fallback<H, T>(self, handler: H) -> Routes
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Routes { router: self.router.method_not_allowed_fallback(handler), paths: self.paths }
    }
}
