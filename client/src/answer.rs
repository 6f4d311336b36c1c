use crate::Error;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use std::marker::PhantomData;
use std::ops::Deref;

/// An answer that says nothing but that it was done.
pub type Done = IgnoredAny;

/// A JSON answer: as it was sent, with whatever a newer server says, and as this version reads it.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    pub text: String,
    pub document: T,
}

impl<T: DeserializeOwned> Answer<T> {
    pub(crate) fn read(text: String) -> Result<Answer<T>, Error> {
        let json = if text.trim().is_empty() { "null" } else { &text };
        let document = serde_json::from_str(json).map_err(Error::not_understood)?;
        Ok(Answer { text, document })
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.document
    }
}

/// An item of a list or a stream: as it was sent, and read on request.
#[derive(Debug)]
pub struct Raw<T> {
    text: Box<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Raw<T> {
    pub(crate) fn new(text: Box<RawValue>) -> Raw<T> {
        Raw { text, of: PhantomData }
    }

    /// The JSON as the server sent it.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    pub fn read(&self) -> Result<T, Error> {
        serde_json::from_str(self.text()).map_err(Error::not_understood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_wire::Stats;

    #[test]
    fn an_answer_keeps_the_bytes_of_the_server() {
        let text = r#"{"failed":1, "new":[1.50],"total":2,"completed":2,"successful":1}"#;
        let answer: Answer<Stats> = Answer::read(text.to_owned()).unwrap();
        assert_eq!((answer.text.as_str(), answer.total), (text, 2));
        let item: Raw<Stats> = Raw::new(serde_json::from_str(text).unwrap());
        assert_eq!((item.text(), item.read().unwrap().failed), (text, 1));
        assert!(Answer::<Stats>::read("{}".to_owned()).is_err());
    }
}
