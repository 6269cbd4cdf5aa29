//! Encryption with a passphrase, in the format of age (<https://age-encryption.org/v1>).
//!
//! A format that others read, so that a backup can be opened without us: `age -d backup.tar.gz.age | tar xz`. The key
//! comes from the passphrase by scrypt, which needs memory as well as time; the contents are sealed piece by piece with
//! ChaCha20-Poly1305, so that nothing that was changed or cut short is ever handed out.
//!
//! Deliberately absent: keys of other kinds than a passphrase, and age's text armour.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{hkdf, hmac};
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use throughline_core::redact::Secret;

/// What a sealed file begins with.
pub const MAGIC: &[u8] = b"age-encryption.org/v1\n";
const LABEL: &[u8] = b"age-encryption.org/v1/scrypt";
const PIECE: usize = 64 * 1024;
const TAG: usize = 16;
/// 128 MiB and a good part of a second, for us and for an attacker who guesses.
const WORK: u8 = 17;
/// 1 GiB: a file that asks for more was not made to be opened.
const WORK_MAX: u8 = 20;
/// No header with one passphrase is longer.
const HEADER_MAX: u64 = 1_024;

/// Why a file cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    Passphrase,
    Header(&'static str),
}

impl fmt::Display for Locked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Locked::Passphrase => write!(formatter, "the passphrase does not open it"),
            Locked::Header(why) => {
                write!(formatter, "its header is not that of a file sealed with a passphrase: {why}")
            }
        }
    }
}

impl std::error::Error for Locked {}

/// Seals what is written to it.
pub struct Sealer<W: Write> {
    out: W,
    pieces: Pieces,
    waiting: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    pub fn new(mut out: W, passphrase: &Secret) -> io::Result<Self> {
        let (file_key, salt, nonce) = (random::<16>()?, random::<16>()?, random::<16>()?);
        let mut wrapped = file_key.to_vec();
        aead(&stretched(passphrase, &salt, WORK)?)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut wrapped)
            .map_err(|_| io::Error::other("the key could not be sealed"))?;
        let mut header = Vec::from(MAGIC);
        header.extend(
            format!("-> scrypt {} {WORK}\n{}\n---", BASE64.encode(salt), BASE64.encode(wrapped)).bytes(),
        );
        let mac = hmac::sign(&header_key(&file_key), &header);
        header.extend(format!(" {}\n", BASE64.encode(mac)).bytes());
        header.extend(nonce);
        out.write_all(&header)?;
        Ok(Self { out, pieces: Pieces::new(&file_key, &nonce), waiting: Vec::with_capacity(PIECE + TAG) })
    }

    /// The last piece says that it is the last.
    pub fn finish(mut self) -> io::Result<W> {
        self.pieces.seal(&mut self.waiting, SealPlace::Last)?;
        self.out.write_all(&self.waiting)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full piece waits until there is more: it may be the last.
        if self.waiting.len() == PIECE && !bytes.is_empty() {
            self.pieces.seal(&mut self.waiting, SealPlace::Inner)?;
            self.out.write_all(&self.waiting)?;
            self.waiting.clear();
        }
        let taken = bytes.len().min(PIECE - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Gives back what was sealed, once it has been found to be unchanged.
pub struct Opener<R: BufRead> {
    input: R,
    pieces: Pieces,
    open: Vec<u8>,
    taken: usize,
    is_over: bool,
    /// Nothing is handed out after a piece that was changed.
    has_failed: bool,
}

impl<R: BufRead> Opener<R> {
    /// A failure that is no [`Locked`] inside is one of reading.
    pub fn new(mut input: R, passphrase: &Secret) -> io::Result<Self> {
        let locked = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let bad = |what| locked(Locked::Header(what));
        let mut header = Vec::new();
        let mut line = |header: &mut Vec<u8>| -> io::Result<String> {
            let begin = header.len();
            let left = HEADER_MAX.saturating_sub(begin as u64);
            (&mut input).take(left).read_until(b'\n', header)?;
            let line = header[begin..].strip_suffix(b"\n").ok_or_else(|| bad("it is cut short"))?;
            Ok(String::from_utf8_lossy(line).into_owned())
        };
        line(&mut header)?; // the magic, by which it was chosen
        let stanza = line(&mut header)?;
        let body = line(&mut header)?;
        let signed = header.len() + "---".len();
        let end = line(&mut header)?;
        let words: Vec<&str> = stanza.split(' ').collect();
        let ["->", "scrypt", salt, work] = words[..] else {
            return Err(bad("it was sealed for keys, not with a passphrase"));
        };
        let mac = end.strip_prefix("--- ").ok_or_else(|| bad("it has more than one key"))?;
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| bad("it is damaged"));
        let (salt, body, mac) = (decoded(salt)?, decoded(&body)?, decoded(mac)?);
        let work: u8 = work.parse().map_err(|_| bad("it is damaged"))?;
        if work > WORK_MAX || work == 0 || salt.len() != 16 {
            return Err(bad("it asks for more memory than a backup needs"));
        }
        let mut wrapped = body;
        let file_key = aead(&stretched(passphrase, &salt, work)?)
            .open_in_place(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut wrapped)
            .map_err(|_| locked(Locked::Passphrase))?
            .to_vec();
        hmac::verify(&header_key(&file_key), &header[..signed], &mac).map_err(|_| bad("it was changed"))?;
        let mut nonce = [0; 16];
        input.read_exact(&mut nonce)?;
        let pieces = Pieces::new(&file_key, &nonce);
        Ok(Self {
            input,
            pieces,
            open: Vec::with_capacity(PIECE + TAG),
            taken: 0,
            is_over: false,
            has_failed: false,
        })
    }

    fn next(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(changed());
        }
        self.has_failed = true;
        let opened = self.piece();
        match &opened {
            Ok(()) => self.has_failed = false,
            Err(_) => self.open.clear(), // what lies there was not proved
        }
        opened
    }

    fn piece(&mut self) -> io::Result<()> {
        self.open.clear();
        self.taken = 0;
        (&mut self.input).take((PIECE + TAG) as u64).read_to_end(&mut self.open)?;
        self.is_over = self.input.fill_buf()?.is_empty();
        let place = if self.is_over { SealPlace::Last } else { SealPlace::Inner };
        self.pieces.open(&mut self.open, place)
    }
}

impl<R: BufRead> Read for Opener<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.open.len() {
            if self.is_over && !self.has_failed {
                return Ok(0);
            }
            self.next()?;
        }
        let given = into.len().min(self.open.len() - self.taken);
        into[..given].copy_from_slice(&self.open[self.taken..self.taken + given]);
        self.taken += given;
        Ok(given)
    }
}

#[derive(Clone, Copy)]
enum SealPlace {
    Inner,
    Last,
}

/// The key of the contents, and how many pieces there were: each has its number in its nonce.
struct Pieces {
    key: LessSafeKey,
    count: u64,
}

impl Pieces {
    fn new(file_key: &[u8], nonce: &[u8]) -> Self {
        Self { key: aead(&derived(file_key, nonce, b"payload")), count: 0 }
    }

    fn nonce(&mut self, place: SealPlace) -> Nonce {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.count.to_be_bytes());
        nonce[11] = u8::from(matches!(place, SealPlace::Last));
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, piece: &mut Vec<u8>, place: SealPlace) -> io::Result<()> {
        let nonce = self.nonce(place);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), piece);
        sealed.map_err(|_| io::Error::other("a piece could not be sealed"))
    }

    fn open(&mut self, piece: &mut Vec<u8>, place: SealPlace) -> io::Result<()> {
        let nonce = self.nonce(place);
        let opened = self.key.open_in_place(nonce, Aad::empty(), piece).map(|opened| opened.len());
        let length = opened.map_err(|_| changed())?;
        piece.truncate(length);
        Ok(())
    }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it was changed or cut short after it was sealed")
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

fn stretched(passphrase: &Secret, salt: &[u8], work: u8) -> io::Result<[u8; 32]> {
    let salt = [LABEL, salt].concat();
    let parameters =
        scrypt::Params::new(work, 8, 1, 32).map_err(|error| io::Error::other(error.to_string()))?;
    let mut key = [0; 32];
    scrypt::scrypt(passphrase.expose().as_bytes(), &salt, &parameters, &mut key)
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(key)
}

fn derived(secret: &[u8], salt: &[u8], purpose: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[purpose], hkdf::HKDF_SHA256)
        .and_then(|expanded| expanded.fill(&mut key))
        .expect("as long as the digest, which is always allowed");
    key
}

fn header_key(file_key: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derived(file_key, &[], b"header"))
}

fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the length it must have"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(bytes: &[u8], passphrase: &str) -> Vec<u8> {
        let mut sealer = Sealer::new(Vec::new(), &Secret::new(passphrase)).unwrap();
        sealer.write_all(bytes).unwrap();
        sealer.finish().unwrap()
    }

    fn opened(bytes: &[u8], passphrase: &str) -> Result<Vec<u8>, String> {
        let mut opened = Vec::new();
        let mut opener = Opener::new(bytes, &Secret::new(passphrase)).map_err(|error| error.to_string())?;
        opener.read_to_end(&mut opened).map_err(|error| error.to_string())?;
        Ok(opened)
    }

    #[test]
    fn what_was_sealed_comes_back_whatever_its_length() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 77] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            assert_eq!(opened(&sealed(&bytes, "tea"), "tea").unwrap(), bytes, "{length}");
        }
    }

    #[test]
    fn a_wrong_passphrase_and_any_change_are_refused() {
        let bytes = sealed(&vec![7; PIECE + 10], "tea");
        assert!(opened(&bytes, "coffee").unwrap_err().contains("passphrase"));
        let short = opened(&bytes[..bytes.len() - 5], "tea").unwrap_err();
        assert!(short.contains("cut short"), "{short}");
        let end_of_piece = bytes.len() - (10 + TAG);
        assert!(opened(&bytes[..end_of_piece], "tea").is_err(), "cut between two pieces");
        for at in [30, bytes.len() - 1, bytes.len() / 2] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(opened(&bytes, "tea").is_err(), "byte {at}");
        }
    }

    #[test]
    fn nothing_is_handed_out_after_a_piece_that_was_changed() {
        let mut bytes = sealed(&vec![7; 3 * PIECE], "tea");
        let at = bytes.len() - 2 * (PIECE + TAG) + 5; // in the second of three
        bytes[at] ^= 1;
        let mut opener = Opener::new(&bytes[..], &Secret::new("tea")).unwrap();
        let mut first = vec![0; PIECE];
        opener.read_exact(&mut first).unwrap();
        for _ in 0..3 {
            let mut piece = [0; 100];
            assert_eq!(opener.read(&mut piece).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(piece, [0; 100]);
        }
    }

    /// Made by another implementation of the format.
    #[test]
    fn a_file_of_another_program_is_opened() {
        let file = include_bytes!("foreign.age");
        assert_eq!(opened(file, "the tea is in the tin").unwrap(), b"Where is the tea?\n");
    }
}
