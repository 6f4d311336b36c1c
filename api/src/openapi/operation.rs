//! One operation, as its topic describes it.

use super::parameters;
use super::problems::Refused;
use super::schemas::Schemas;
use crate::problem::Code;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// What opens a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Key,
    OperatorKey,
    Signature,
    Nothing,
}

type Shape = fn(&mut Schemas) -> Value;

/// A media type, and what a body of it looks like.
pub(super) type Raw = (&'static str, &'static str);

/// What a body holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Json(Shape),
    /// JSON, or what else can be asked for.
    JsonOr(Shape, &'static [Raw]),
    /// Text or bytes of these media types.
    Raw(&'static [Raw]),
    /// JSON of this shape, one a line, or what else can be asked for.
    Lines(Shape, &'static [Raw]),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Success {
    pub status: u16,
    pub description: &'static str,
    pub content: Content,
    pub headers: Vec<&'static str>,
    /// What is different in its example from that of its shape: a JSON merge patch.
    pub differs: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    pub details: &'static str,
    pub tag: &'static str,
    pub access: Access,
    pub parameters: Vec<Value>,
    pub body: Option<Content>,
    pub body_required: bool,
    pub successes: Vec<Success>,
    pub refusals: Vec<Refused>,
    /// Whether 422 is the problem of a failed task.
    pub fails_like_its_task: bool,
}

impl Operation {
    /// For a caller with its key, unless said otherwise.
    pub fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Operation {
        Operation {
            method,
            path,
            id,
            summary,
            details: "",
            tag: "",
            access: Access::Key,
            parameters: Vec::new(),
            body: None,
            body_required: false,
            successes: Vec::new(),
            refusals: Vec::new(),
            fails_like_its_task: false,
        }
    }

    pub fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
        Operation::new("get", path, id, summary)
    }

    pub fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
        Operation::new("post", path, id, summary).refuses(&[Code::StorageFull])
    }

    pub fn put(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
        Operation::new("put", path, id, summary).refuses(&[Code::StorageFull])
    }

    pub fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
        Operation::new("delete", path, id, summary).refuses(&[Code::StorageFull])
    }

    pub fn details(mut self, details: &'static str) -> Operation {
        self.details = details;
        self
    }

    pub fn tag(mut self, tag: &'static str) -> Operation {
        self.tag = tag;
        self
    }

    pub fn access(mut self, access: Access) -> Operation {
        self.access = access;
        self
    }

    pub fn parameter(mut self, parameter: Value) -> Operation {
        self.parameters.push(parameter);
        self
    }

    /// A JSON body.
    pub fn body<T: JsonSchema>(self) -> Operation {
        Operation { body_required: true, ..self.optional_body::<T>() }
    }

    pub fn optional_body<T: JsonSchema>(mut self) -> Operation {
        self.body = Some(Content::Json(Schemas::request::<T>));
        self.parameters.push(parameters::strict());
        self.refuses(&[
            Code::MalformedJson,
            Code::RequestTimeout,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
        ])
    }

    /// Whether its answers name what of its body was ignored.
    pub fn warns(&self) -> bool {
        matches!(self.body, Some(Content::Json(_)))
    }

    pub fn raw_body(mut self, media_types: &'static [Raw]) -> Operation {
        self.body = Some(Content::Raw(media_types));
        self.body_required = true;
        self
    }

    pub fn answers<T: JsonSchema>(self, status: u16, description: &'static str) -> Operation {
        self.answers_with(status, description, Content::Json(Schemas::answer::<T>), &[])
    }

    pub fn answers_with(
        mut self,
        status: u16,
        description: &'static str,
        content: Content,
        headers: &[&'static str],
    ) -> Operation {
        let headers = headers.to_vec();
        self.successes.push(Success { status, description, content, headers, differs: None });
        self
    }

    /// How the example of the success that was named last differs from that of its shape.
    pub fn but(mut self, differs: Value) -> Operation {
        if let Some(success) = self.successes.last_mut() {
            success.differs = Some(differs);
        }
        self
    }

    pub fn refuses(mut self, codes: &[Code]) -> Operation {
        self.refusals.extend(codes.iter().copied().map(Refused::from));
        self
    }

    /// Whether its requests are counted (SPEC 6.24).
    pub fn has_key(&self) -> bool {
        match self.access {
            Access::Key | Access::OperatorKey => true,
            Access::Signature | Access::Nothing => false,
        }
    }

    pub fn security(&self) -> Value {
        match self.access {
            Access::Key => json!([{"ApiKey": []}]),
            Access::OperatorKey => json!([{"OperatorKey": []}]),
            Access::Signature | Access::Nothing => json!([]),
        }
    }

    pub fn all_refusals(&self) -> Vec<Refused> {
        let mut all = self.usual_refusals();
        all.extend(&self.refusals);
        all
    }

    /// What any route of its kind may answer.
    fn usual_refusals(&self) -> Vec<Refused> {
        let mut codes = match self.access {
            Access::Key => {
                vec![
                    Code::RateLimited,
                    Code::TooManyInFlight,
                    Code::TooManyBytes,
                    Code::TooManyUnknownKeys,
                    Code::Overloaded,
                    Code::Unauthenticated,
                    Code::InvalidArgument,
                    Code::Internal,
                    Code::Unavailable,
                ]
            }
            Access::OperatorKey => vec![
                Code::RateLimited,
                Code::TooManyInFlight,
                Code::TooManyBytes,
                Code::TooManyUnknownKeys,
                Code::Overloaded,
                Code::Unauthenticated,
                Code::Forbidden,
                Code::InvalidArgument,
                Code::Internal,
                Code::Unavailable,
            ],
            Access::Signature => vec![
                Code::TooManyInFlight,
                Code::TooManyBytes,
                Code::Overloaded,
                Code::SignatureInvalid,
                Code::InvalidArgument,
                Code::Internal,
                Code::Unavailable,
            ],
            Access::Nothing => vec![Code::Internal],
        };
        if self.path.contains('{') {
            codes.push(Code::NotFound);
        }
        codes.into_iter().map(Refused::from).collect()
    }
}
