//! Enums whose variants are words. Each word is declared once, beside its variant: in JSON, rows, metrics and parameters it
//! is the same. Words are stored: they never change.

/// A text that is none of an enum's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of the known words")]
pub struct UnknownWord;

/// Declares an enum with `ALL`, `as_str`, `Display` and `FromStr`. With `as json` after its name, `Serialize` and
/// `Deserialize` are derived from the same words, and `JsonSchema` can be.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident as json {
        $($(#[$about:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$about])* #[serde(rename = $word)] $variant),+ }
        $crate::words!(@impl $name $($variant = $word,)+);
    };
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $variant),+ }
        $crate::words!(@impl $name $($variant = $word,)+);
    };
    (@impl $name:ident $($variant:ident = $word:literal,)+) => {
        impl $name {
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> std::result::Result<$name, $crate::UnknownWord> {
                $name::ALL.into_iter().find(|known| known.as_str() == word).ok_or($crate::UnknownWord)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::delivery::webhook::Target;
    use crate::ingest::estimate::{Basis, Bound};
    use crate::job::task_input::Reason;
    use crate::repair::{Kind, SubjectType};
    use crate::*;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use std::collections::HashSet;
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    fn agree<T: Copy + Debug + Display + FromStr<Err = UnknownWord> + PartialEq>(
        all: &[T],
        word: fn(T) -> &'static str,
    ) {
        for &variant in all {
            assert_eq!((variant.to_string().as_str(), word(variant).parse()), (word(variant), Ok(variant)));
        }
        let words: HashSet<_> = all.iter().map(|variant| word(*variant)).collect();
        assert_eq!(words.len(), all.len(), "{all:?}");
        assert_eq!("no such word".parse::<T>(), Err(UnknownWord));
    }

    fn agree_in_json<T: Copy + Debug + PartialEq + Serialize + DeserializeOwned>(
        all: &[T],
        word: fn(T) -> &'static str,
    ) {
        for &variant in all {
            let json = serde_json::to_value(variant).unwrap();
            assert_eq!(json, word(variant));
            assert_eq!(serde_json::from_value::<T>(json).unwrap(), variant);
        }
        assert!(serde_json::from_str::<T>("\"no such word\"").is_err());
    }

    macro_rules! all_agree {
        (json: $($json:ty),+; rows: $($row:ty),+) => {
            $(agree(&<$json>::ALL, <$json>::as_str);)+
            $(agree_in_json(&<$json>::ALL, <$json>::as_str);)+
            $(agree(&<$row>::ALL, <$row>::as_str);)+
        };
    }

    #[test]
    fn a_word_is_the_same_everywhere() {
        all_agree!(
            json: AccountFault, Basis, Bound, Compression, DeliveryState, EventType, ExportFormat, FailureClass, Format,
                IngestStatus, JobStatus, ListFault, Method, PauseCode, Reason, RunFailureReason, RunStatus, SubjectType, Target, TaskStatus, Trigger;
            rows: BodyFault, Kind, Quota, RecordKind, Storage
        );
    }
}
