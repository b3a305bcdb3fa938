//! The keys of rows.

use std::borrow::Cow;

/// A key of a [`super::Table`]: its bytes sort as it does.
pub trait TableKey: Sized {
    /// The bytes on disk.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Decodes [`TableKey::bytes`].
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// A document id: 16 bytes, big-endian.
impl TableKey for u128 {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.to_be_bytes().to_vec())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl<const N: usize> TableKey for [u8; N] {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

/// Two document ids.
impl TableKey for (u128, u128) {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned([self.0.to_be_bytes(), self.1.to_be_bytes()].concat())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (document, other) = bytes.split_first_chunk()?;
        Some((u128::from_be_bytes(*document), u128::from_be_bytes(other.try_into().ok()?)))
    }
}

/// A document id and the number of a part of it.
impl TableKey for (u128, u16) {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned([&self.0.to_be_bytes()[..], &self.1.to_be_bytes()].concat())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (document, part) = bytes.split_first_chunk()?;
        Some((u128::from_be_bytes(*document), u16::from_be_bytes(part.try_into().ok()?)))
    }
}

/// A document id and the number of a part of a part of it.
impl TableKey for (u128, u32) {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned([&self.0.to_be_bytes()[..], &self.1.to_be_bytes()].concat())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (document, part) = bytes.split_first_chunk()?;
        Some((u128::from_be_bytes(*document), u32::from_be_bytes(part.try_into().ok()?)))
    }
}
