//! Compression piece by piece, so that an interrupted archive is not compressed twice.
//!
//! The stream is cut where its own contents say so, and each piece is a gzip member of its own: together they are still
//! one gzip file. A member says in its header how long it is. So what a killed process left is a row of whole members,
//! and a last one that is torn. A run that writes the same stream again finds its pieces there, each compared byte for byte
//! with what is to be written now: what has changed since is never taken for what it was.
//!
//! Deliberately absent: a list of what is finished. The pieces themselves are all that has to be believed, and they are
//! not believed.

use flate2::read::GzDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What a kill can cost, and what one changed byte in a large database costs. Much less would cost compression.
const PIECE: usize = 1 << 20;
/// A file of this size begins a piece of its own.
const LARGE: u64 = 128 << 10;
/// Of small files one in so many begins a piece: by its name, so that another one that grew moves no cut but its own.
const SMALL_ONE_IN: u32 = 16;
/// Databases compress well at any level, and a backup takes as long as this.
const LEVEL: u32 = 3;

/// gzip, deflate, with a field of ours, no time, no system.
const START: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 12, 0, b'T', b'L', 8, 0];
/// With the length of the whole member, in eight bytes.
const HEADER: usize = START.len() + 8;
/// Checksum and length of what is in it, four bytes each.
const TRAILER: usize = 8;

/// Where an entry of the archive begins, as far as cuts are concerned.
pub enum Begin<'a> {
    File { path: &'a str, bytes: u64 },
    Other { path: &'a str },
}

/// Compresses what is written to it.
pub struct Pieces<W: Write> {
    out: W,
    open: Vec<u8>,
    earlier: Option<Earlier>,
    reused: u64,
}

impl<W: Write> Pieces<W> {
    pub fn new(out: W, earlier: Option<Earlier>) -> Self {
        Self { out, open: Vec::with_capacity(PIECE), earlier, reused: 0 }
    }

    /// Says what comes next, so that it can begin a piece.
    pub fn begin(&mut self, next: &Begin<'_>) -> io::Result<()> {
        let (path, bytes) = match next {
            Begin::File { path, bytes } => (path, *bytes),
            Begin::Other { path } => (path, 0),
        };
        if bytes >= LARGE || checksum(path.as_bytes()).is_multiple_of(SMALL_ONE_IN) {
            self.cut()?;
        }
        Ok(())
    }

    /// How many bytes were taken from an earlier archive, as they lay there.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.cut()?;
        Ok(self.out)
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let sum = checksum(&self.open);
        let known = self.earlier.as_mut().and_then(|earlier| earlier.find(&self.open, sum));
        let member = match known {
            Some(member) => {
                self.reused += member.len() as u64;
                member
            }
            None => compressed(&self.open, sum)?,
        };
        self.out.write_all(&member)?;
        // Whole members are what a kill leaves.
        self.out.flush()?;
        self.open.clear();
        Ok(())
    }
}

impl<W: Write> Write for Pieces<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.len() == PIECE {
            self.cut()?;
        }
        let taken = bytes.len().min(PIECE - self.open.len());
        self.open.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Nothing: a piece goes out when it is whole.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an interrupted archive left.
pub struct Earlier {
    file: File,
    /// Where a member begins and how long it is, by checksum and length of what is in it.
    members: HashMap<(u32, u32), (u64, usize)>,
}

impl Earlier {
    pub fn in_file(mut file: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        let mut members = HashMap::new();
        let mut at = 0;
        // Up to the first that is torn or none of ours: nothing behind it can be found.
        while at + ((HEADER + TRAILER) as u64) <= end {
            let mut header = [0; HEADER];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut header)?;
            let [ref start @ .., a, b, c, d, e, f, g, h] = header;
            let length = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let fits =
                (HEADER + TRAILER..=2 * PIECE).contains(&usize::try_from(length).unwrap_or(usize::MAX));
            // The last two bytes of the fixed ten may differ between writers of gzip.
            if start[..8] != START[..8] || start[10..] != START[10..] || !fits || at + length > end {
                break;
            }
            let mut trailer = [0; TRAILER];
            file.seek(SeekFrom::Start(at + length - TRAILER as u64))?;
            file.read_exact(&mut trailer)?;
            let [a, b, c, d, e, f, g, h] = trailer;
            let key = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            members.insert(key, (at, length as usize));
            at += length;
        }
        Ok(Self { file, members })
    }

    /// The member that holds exactly this. What cannot be read or says anything else is not there.
    fn find(&mut self, contents: &[u8], sum: u32) -> Option<Vec<u8>> {
        let &(at, length) = self.members.get(&(sum, contents.len() as u32))?;
        let mut member = vec![0; length];
        self.file.seek(SeekFrom::Start(at)).ok()?;
        self.file.read_exact(&mut member).ok()?;
        let mut found = Vec::with_capacity(contents.len() + 1);
        let mut decoder = GzDecoder::new(&member[..]).take(contents.len() as u64 + 1);
        decoder.read_to_end(&mut found).ok()?;
        (found == contents).then_some(member)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn compressed(contents: &[u8], sum: u32) -> io::Result<Vec<u8>> {
    let mut member = Vec::with_capacity(contents.len() / 2);
    member.extend(START);
    member.extend([0; 8]);
    let mut encoder = DeflateEncoder::new(member, Compression::new(LEVEL));
    encoder.write_all(contents)?;
    let mut member = encoder.finish()?;
    member.extend(sum.to_le_bytes());
    member.extend((contents.len() as u32).to_le_bytes());
    let length = member.len() as u64;
    member[START.len()..HEADER].copy_from_slice(&length.to_le_bytes());
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::MultiGzDecoder;

    /// Files that do not compress, so that positions mean something.
    fn files(count: u32, bytes: usize) -> Vec<(String, Vec<u8>)> {
        let mut noise = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        };
        (0..count).map(|nth| (format!("notes/{nth}.md"), (0..bytes).map(|_| next()).collect())).collect()
    }

    fn archive(files: &[(String, Vec<u8>)], earlier: Option<Earlier>) -> (Vec<u8>, u64) {
        let mut pieces = Pieces::new(Vec::new(), earlier);
        for (path, contents) in files {
            pieces.begin(&Begin::File { path, bytes: contents.len() as u64 }).unwrap();
            pieces.write_all(contents).unwrap();
        }
        pieces.cut().unwrap();
        let reused = pieces.reused();
        (pieces.finish().unwrap(), reused)
    }

    fn earlier(bytes: &[u8]) -> Option<Earlier> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Some(Earlier::in_file(file).unwrap())
    }

    fn opened(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        MultiGzDecoder::new(bytes).read_to_end(&mut text).unwrap();
        text
    }

    fn joined(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        files.iter().flat_map(|(_, contents)| contents.clone()).collect()
    }

    #[test]
    fn together_the_pieces_are_one_gzip_file() {
        let files = files(5, 3 * PIECE / 2);
        let (whole, reused) = archive(&files, None);
        assert!(opened(&whole) == joined(&files));
        assert_eq!(reused, 0);
    }

    #[test]
    fn what_was_finished_before_a_kill_is_used_again_wherever_it_was_cut() {
        let files = files(5, 3 * PIECE / 2);
        let (whole, _) = archive(&files, None);
        for cut in [0, 10, HEADER, PIECE / 2, PIECE + 500, 4 * PIECE, whole.len() - 1, whole.len()] {
            let (again, reused) = archive(&files, earlier(&whole[..cut]));
            assert!(again == whole, "cut at {cut}");
            assert!(reused as usize <= cut && reused as usize + 2 * PIECE > cut, "cut at {cut}: {reused}");
        }
    }

    #[test]
    fn what_changed_since_is_written_as_it_is_now_and_costs_only_its_own_piece() {
        let mut large = files(6, 3 * PIECE / 2);
        let (whole, _) = archive(&large, None);
        large[2].1[PIECE + 7] ^= 1;
        let (again, reused) = archive(&large, earlier(&whole));
        assert!(opened(&again) == joined(&large));
        assert!(whole.len() as u64 - reused < PIECE as u64, "{reused} of {}", whole.len());

        let mut small = files(400, 3_000);
        let (whole, _) = archive(&small, None);
        small[20].1.extend(b"one line more");
        small.remove(300);
        let (again, reused) = archive(&small, earlier(&whole));
        assert!(opened(&again) == joined(&small));
        assert!(reused as usize > whole.len() / 2, "{reused} of {}", whole.len());
    }

    #[test]
    fn a_damaged_piece_is_not_used() {
        let files = files(3, 3 * PIECE / 2);
        let (whole, _) = archive(&files, None);
        for at in [3, HEADER + 1_000, PIECE / 2, 2 * PIECE, whole.len() - 3] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            let (again, _) = archive(&files, earlier(&damaged));
            assert!(again == whole, "damaged at {at}");
        }
        assert!(archive(&files, earlier(b"not an archive at all, but long enough to be one")).0 == whole);
    }
}
