//! What a message says.

use super::StoredText;
use serde::{Deserialize, Serialize};
use throughline_core::message::{Content, JsonText, Part};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredContent<'a> {
    /// `null`
    Nothing,
    Text(StoredText<'a>),
    Parts(Vec<StoredPart<'a>>),
    Opaque {
        opaque: StoredText<'a>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredPart<'a> {
    Text(StoredText<'a>),
    Image {
        image: StoredText<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<StoredText<'a>>,
    },
    Opaque {
        opaque: StoredText<'a>,
    },
}

impl<'a> From<&'a Content> for StoredContent<'a> {
    fn from(content: &'a Content) -> Self {
        match content {
            Content::Nothing => Self::Nothing,
            Content::Text(text) => Self::Text(text.into()),
            Content::Parts(parts) => Self::Parts(parts.iter().map(StoredPart::from).collect()),
            Content::Opaque(json) => Self::Opaque { opaque: json.as_str().into() },
        }
    }
}

impl From<StoredContent<'_>> for Content {
    fn from(stored: StoredContent<'_>) -> Self {
        match stored {
            StoredContent::Nothing => Self::Nothing,
            StoredContent::Text(text) => Self::Text(text.into_owned()),
            StoredContent::Parts(parts) => Self::Parts(parts.into_iter().map(Part::from).collect()),
            StoredContent::Opaque { opaque } => Self::Opaque(JsonText::from_valid(opaque)),
        }
    }
}

impl<'a> From<&'a Part> for StoredPart<'a> {
    fn from(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text.into()),
            Part::Image { url, detail } => Self::Image { image: url.into(), detail: super::borrowed(detail) },
            Part::Opaque(json) => Self::Opaque { opaque: json.as_str().into() },
        }
    }
}

impl From<StoredPart<'_>> for Part {
    fn from(stored: StoredPart<'_>) -> Self {
        match stored {
            StoredPart::Text(text) => Self::Text(text.into_owned()),
            StoredPart::Image { image, detail } => {
                Self::Image { url: image.into_owned(), detail: super::owned(detail) }
            }
            StoredPart::Opaque { opaque } => Self::Opaque(JsonText::from_valid(opaque)),
        }
    }
}
