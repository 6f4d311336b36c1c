//! A key that somebody passed. It has no `Display`, and its `Debug` does not show it.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> SecretText {
        SecretText(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_print_itself() {
        let key = SecretText::from("hunter2".to_owned());
        assert_eq!(format!("{key:?} {:?}", Some(&key)), "SecretText(…) Some(SecretText(…))");
    }
}
