//! The bytes of one file, in pages that copies share until one of them writes.
//!
//! Cloning costs one pointer per page, so a template image, the durable state and what a reader sees can
//! all hold the same megabyte. Bytes past the end are always zero: a file that grows again shows nothing
//! of what it was before.

use std::sync::Arc;

/// SQLite's default page: a database write replaces exactly one of ours.
const PAGE: usize = 4096;

type Page = Arc<[u8; PAGE]>;

#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    /// `None` is a page of zeros that was never written.
    pages: Vec<Option<Page>>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies what lies at `offset` and says how much there was; the rest of `into` is left alone.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let available = self.len.saturating_sub(offset).min(into.len() as u64) as usize;
        for piece in pieces(offset, available) {
            let target = &mut into[piece.start..piece.start + piece.len];
            match self.pages.get(piece.page).and_then(Option::as_ref) {
                Some(page) => target.copy_from_slice(&page[piece.at..piece.at + piece.len]),
                None => target.fill(0),
            }
        }
        available
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return; // writing nothing extends nothing
        }
        self.set_len(self.len.max(offset + bytes.len() as u64));
        for piece in pieces(offset, bytes.len()) {
            let source = &bytes[piece.start..piece.start + piece.len];
            let page = &mut self.pages[piece.page];
            match <&[u8; PAGE]>::try_from(source) {
                Ok(whole) => *page = Some(Arc::new(*whole)),
                Err(_) => {
                    let page = page.get_or_insert_with(|| Arc::new([0; PAGE]));
                    Arc::make_mut(page)[piece.at..piece.at + piece.len].copy_from_slice(source);
                }
            }
        }
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        let shrinks = len < self.len;
        self.len = len;
        self.pages.resize(len.div_ceil(PAGE as u64) as usize, None);
        let tail = (len % PAGE as u64) as usize;
        if shrinks
            && tail > 0
            && let Some(Some(last)) = self.pages.last_mut()
        {
            Arc::make_mut(last)[tail..].fill(0);
        }
    }

    /// Becomes equal to `newer` at these bytes' pages and in length, by sharing rather than copying.
    pub(super) fn adopt(&mut self, newer: &Content, offset: u64, len: usize) {
        self.set_len(newer.len);
        for piece in pieces(offset, len) {
            if let Some(page) = self.pages.get_mut(piece.page) {
                page.clone_from(&newer.pages[piece.page]);
            }
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    #[cfg(test)]
    pub(super) fn a_page(&self) -> std::sync::Weak<[u8; PAGE]> {
        Arc::downgrade(self.pages.iter().flatten().next().expect("the file is not empty"))
    }
}

/// The part of a range that lies on one page.
struct Piece {
    page: usize,
    /// Where on the page.
    at: usize,
    /// Where in the range.
    start: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let position = offset + start as u64;
        let at = (position % PAGE as u64) as usize;
        let piece =
            Piece { page: (position / PAGE as u64) as usize, at, start, len: (PAGE - at).min(len - start) };
        start += piece.len;
        (piece.len > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn pages_read_back_like_one_long_vector() {
        let mut seed = Seed::new(1);
        let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
        let mut copies = Vec::new();
        for round in 0..1_000_u64 {
            let (offset, len) = (seed.below(20_000) as usize, seed.below(9_000) as usize);
            match seed.below(10) {
                0 => {
                    content.set_len(offset as u64);
                    model.resize(offset, 0);
                }
                1 => content.write(offset as u64, &[]),
                2 => copies.push((content.clone(), model.clone())),
                _ => {
                    content.write(offset as u64, &vec![round as u8; len]);
                    model.resize(model.len().max(offset + len), 0);
                    model[offset..offset + len].fill(round as u8);
                }
            }
            let mut read = vec![9; len];
            let available = content.read(offset as u64, &mut read);
            let expected = model.get(offset..model.len().min(offset + len)).unwrap_or_default();
            assert_eq!(&read[..available], expected, "round {round}");
        }
        assert_eq!(content.to_vec(), model);
        assert!(copies.iter().all(|(content, model)| content.to_vec() == *model), "a copy changed");
    }

    #[test]
    fn adopting_what_was_written_makes_two_files_equal() {
        let mut older = Content::default();
        older.write(0, &[1; 10_000]);
        let mut newer = older.clone();
        newer.write(5_000, &[2; 7_000]);
        newer.write(30_000, &[3; 1]); // leaves a hole
        older.adopt(&newer, 5_000, 7_000);
        older.adopt(&newer, 30_000, 1);
        assert_eq!(older.to_vec(), newer.to_vec());
    }
}
