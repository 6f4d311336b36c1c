use super::{List, Malformed, Within};
use crate::ListType;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A slot for a list that will be uploaded.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"type": "csv", "csv": {"header": true, "fields": {"url": "link", "external_id": "sku"}}, "size_bytes": 48_211_337},
]))]
pub struct CreateInput {
    #[serde(rename = "type")]
    pub kind: ListType,
    /// How the CSV is written. Only with type `csv`. Left out: the first record shows it.
    pub csv: Option<CsvBody>,
    /// How many bytes will be uploaded. If it is given, the upload must have exactly as many.
    #[schemars(range(max = limits::LIST_MAX_BYTES))]
    pub size_bytes: Option<u64>,
    /// The SHA-256 digest of the bytes, in hex. If it is given, the upload must have it.
    pub sha256: Option<Sha256>,
    /// Whether the list is uploaded in parts. Left out: no.
    pub multipart: Option<bool>,
    /// How many bytes every part but the last shall have; the slot says how many it must have. Only with `multipart`. Left
    /// out: 16 MiB.
    pub part_bytes: Option<Within<u64, 1, { limits::PART_MAX_BYTES }>>,
}

impl CreateInput {
    pub fn of(kind: ListType) -> CreateInput {
        CreateInput { kind, csv: None, size_bytes: None, sha256: None, multipart: None, part_bytes: None }
    }
}

/// A SHA-256 digest, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "pattern" = "^[0-9A-Fa-f]{64}$",
    "examples" = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
))]
pub struct Sha256(pub String);

impl TryFrom<String> for Sha256 {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Sha256, Malformed> {
        match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(Sha256(text.to_ascii_lowercase())),
            false => Err(Malformed { expected: "64 hex digits" }),
        }
    }
}

/// How a CSV is written.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CsvBody {
    /// What separates cells. Left out: a comma.
    #[schemars(extend("examples" = [";"]))]
    pub delimiter: Option<Character>,
    /// What cells are quoted with; not the delimiter. Left out: a double quote.
    #[schemars(extend("examples" = ["'"]))]
    pub quote: Option<Character>,
    /// Whether the first record names the columns. Left out: no.
    pub header: Option<bool>,
    pub fields: CsvFields,
}

/// Where the columns are: by name, which needs a header, or by index from 0.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CsvFields {
    /// The column of URLs.
    #[schemars(extend("examples" = ["link"]))]
    pub url: Column,
    /// The column of the caller's own ids.
    #[schemars(extend("examples" = ["sku"]))]
    pub external_id: Option<Column>,
}

/// One ASCII character that does not end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "char")]
#[schemars(with = "String", inline, extend("pattern" = r"^[\x01-\x09\x0b\x0c\x0e-\x7f]$"))]
pub struct Character(pub u8);

impl From<Character> for char {
    fn from(Character(byte): Character) -> char {
        byte.into()
    }
}

impl TryFrom<String> for Character {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Character, Malformed> {
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(Character(*byte)),
            _ => Err(Malformed { expected: "one ASCII character that does not end a line" }),
        }
    }
}

/// The parts that will be uploaded next.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"numbers": [1, 2, 3]}]))]
pub struct SignParts {
    /// The numbers of the parts.
    pub numbers: List<PartNumber, 1, { limits::PART_URLS_MAX }>,
    /// How many bytes each of these parts has. Left out: the `part_bytes` of the slot, or what is left of a list whose length
    /// was declared. On S3 the URL takes exactly as many bytes.
    pub size_bytes: Option<Within<u64, 1, { limits::PART_MAX_BYTES }>>,
}

/// The number of a part, from 1.
pub type PartNumber = Within<u32, 1, { limits::UPLOAD_PARTS_MAX as u64 }>;

/// The parts that are joined.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"parts": [{"number": 1, "etag": "9f86d081884c7d65"}]}]))]
pub struct CompleteParts {
    /// What must have been uploaded. Left out: whatever was.
    pub parts: Option<List<NamedPart, 0, { limits::UPLOAD_PARTS_MAX as usize }>>,
}

/// A part that the caller believes to be uploaded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NamedPart {
    /// The number of the part, from 1.
    pub number: PartNumber,
    /// The `ETag` of the answer to the upload of the part, with or without its quotes.
    #[schemars(extend("examples" = ["9f86d081884c7d65"]))]
    pub etag: String,
}
