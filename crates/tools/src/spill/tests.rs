use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn spill() -> (tempfile::TempDir, SpillDirectory) {
    let home = tempfile::tempdir().unwrap();
    let spill = SpillDirectory::of_home(home.path());
    (home, spill)
}

#[test]
fn a_short_result_stays_as_it_is() {
    let (_home, spill) = spill();
    let text = "é".repeat(RESULT_CHARS_MAX);
    assert_eq!(spill.cap("terminal", "k", text.clone()), text, "characters count, not bytes");
    assert!(!spill.directory().exists());
}

#[test]
fn a_long_result_is_referenced_as_hermes_does_and_kept_whole() {
    let (_home, spill) = spill();
    let text = "a line of output\n".repeat(10_000);
    let told = spill.cap("terminal", "call_1", text.clone());
    let path = spill.directory().join("call_1.txt");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let start = format!(
        "<persisted-output>\nThis tool result was too large (170,000 characters, 166.0 KB).\nFull output saved \
         to: {}\nUse the read_file tool with offset and limit to access specific sections of this \
         output.\n\nPreview (first 1496 chars):\na line",
        path.display()
    );
    assert!(told.starts_with(&start), "{told}");
    assert!(told.ends_with("output\n\n...\n</persisted-output>"), "{told}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn reading_a_file_is_never_referenced() {
    let (_home, spill) = spill();
    let text = "x".repeat(RESULT_CHARS_MAX * 2);
    assert_eq!(spill.cap("read_file", "k", text.clone()), text);
}

#[test]
fn a_result_made_twice_is_kept_once() {
    let (_home, spill) = spill();
    let text = "x".repeat(RESULT_CHARS_MAX + 1);
    let first = spill.cap("terminal", "session/1/2/0", text.clone());
    assert_eq!(spill.cap("terminal", "session/1/2/0", text), first);
    assert_eq!(fs::read_dir(spill.directory()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(spill.directory().join("session")).unwrap().count(), 1, "the session's own");
}

#[test]
fn a_result_that_cannot_be_kept_is_still_a_result() {
    let (home, _) = spill();
    fs::write(home.path().join("throughline"), "a file where a directory should be").unwrap();
    let told = SpillDirectory::of_home(home.path()).cap("terminal", "k", "y".repeat(RESULT_CHARS_MAX + 1));
    assert!(told.ends_with(
        "[Truncated: tool response was 100,001 chars. Full output could not be saved to sandbox.]"
    ));
}

#[test]
fn small_windows_get_small_results() {
    for (tokens, chars) in
        [(None, 100_000), (Some(1_000_000), 100_000), (Some(65_536), 39_315), (Some(4_096), 8_000)]
    {
        assert_eq!(SpillDirectory::new("x").for_window(tokens).result_chars_max, chars, "{tokens:?}");
    }
}

#[test]
fn names_are_those_of_hermes() {
    for (key, name) in [
        ("call_abc-1.2", "call_abc-1.2.txt"),
        ("../../etc/passwd", "etc_passwd_3754d6cb3a38.txt"),
        ("s/1/2/0", "s_1_2_0_fd49f76c7d6d.txt"),
        ("__x", "x_670321fce2d6.txt"),
    ] {
        assert_eq!(file_name(key), name, "{key}");
    }
    assert!(file_name(&"k".repeat(500)).len() <= NAME_CHARS_MAX + 17);
}

#[test]
fn output_that_fits_needs_no_file() {
    let (_home, spill) = spill();
    let mut writer = spill.writer("k", OutputEnds::of(10));
    writer.push(b"01234");
    writer.push(b"56789");
    assert_eq!(writer.finish(), SpilledOutput { text: "0123456789".into(), total_bytes: 10, path: None });
    assert!(!spill.directory().exists());
}

#[test]
fn two_hundred_megabytes_pass_in_constant_memory() {
    let (_home, spill) = spill();
    let mut writer = spill.writer("big", OutputEnds::of(50_000));
    let block = [0xff_u8; 1 << 20];
    writer.push(b"begin");
    for _ in 0..200 {
        writer.push(&block);
    }
    writer.push("end é".as_bytes());
    assert!(writer.held.capacity() + writer.tail.capacity() < 256 << 10);
    let spilled = writer.finish();
    assert_eq!(spilled.total_bytes, (200 << 20) + 11);
    assert!(spilled.text.starts_with("begin\u{fffd}") && spilled.text.ends_with("\u{fffd}end é"));
    assert!(spilled.text.contains(&format!("out of {} total] ...", spilled.total_bytes)));
    assert_eq!(fs::metadata(spilled.path.unwrap()).unwrap().len(), spilled.total_bytes);
}

#[test]
fn one_file_has_an_end_and_so_have_all() {
    let (_home, mut spill) = spill();
    spill.file_bytes_max = 1_000;
    spill.total_bytes_max = 2_500;
    for key in ["a", "b", "c", "d"] {
        let key = &format!("{key}/1/1/0");
        *spill.tidied.lock().unwrap() = None;
        let mut writer = spill.writer(key, OutputEnds::of(10));
        writer.push(&[b'x'; 5_000]);
        let path = writer.finish().path.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1_000);
        let older = SystemTime::now() - Duration::from_secs(60 * u64::from(b'e' - key.as_bytes()[0]));
        File::options().write(true).open(&path).unwrap().set_modified(older).unwrap();
    }
    spill.tidied.lock().unwrap().take();
    spill.tidy();
    let count = |key: &str| fs::read_dir(spill.directory().join(key)).unwrap().count();
    assert_eq!(["a", "b", "c", "d"].map(count), [0, 0, 1, 1], "the newest stay");
    let ancient = SystemTime::now() - AGE_MAX - Duration::from_secs(60);
    File::options().write(true).open(spill.path("d/1/1/0")).unwrap().set_modified(ancient).unwrap();
    spill.tidied.lock().unwrap().take();
    spill.tidy();
    assert_eq!(count("d"), 0);
}

#[test]
fn an_output_that_is_abandoned_leaves_no_file() {
    let (_home, spill) = spill();
    let mut writer = spill.writer("k", OutputEnds::of(10));
    writer.push(&[b'x'; 100]);
    assert!(writer.so_far().path.unwrap().exists());
    drop(writer);
    assert_eq!(fs::read_dir(spill.directory()).unwrap().count(), 0);
}

#[test]
fn an_output_made_again_takes_the_place_of_the_first() {
    let (_home, spill) = spill();
    for text in ["first ", "second "] {
        let mut writer = spill.writer("k", OutputEnds::of(10));
        writer.push(text.repeat(10).as_bytes());
        assert_eq!(fs::read_to_string(writer.finish().path.unwrap()).unwrap(), text.repeat(10));
    }
}

#[test]
fn p31_a_link_where_the_output_should_go_leads_nowhere() {
    let (home, spill) = spill();
    let victim = home.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    fs::create_dir_all(spill.directory()).unwrap();
    std::os::unix::fs::symlink(&victim, spill.directory().join("k.txt")).unwrap();
    let mut writer = spill.writer("k", OutputEnds::of(10));
    writer.push(&[b'x'; 100]);
    writer.finish();
    std::os::unix::fs::symlink(&victim, spill.directory().join("l.txt")).unwrap();
    spill.cap("terminal", "l", "x".repeat(RESULT_CHARS_MAX + 1));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

proptest! {
    #[test]
    fn however_it_comes_the_whole_is_on_disk_and_the_ends_in_memory(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        head in 0_usize..30,
        tail in 0_usize..30,
    ) {
        let (_home, spill) = spill();
        let mut writer = spill.writer("k", OutputEnds { head, tail });
        for piece in &pieces {
            writer.push(piece);
        }
        let whole = pieces.concat();
        let fits = whole.len() <= head + tail;
        let (held, kept) = (writer.held.clone(), writer.tail.iter().copied().collect::<Vec<_>>());
        let spilled = writer.finish();
        prop_assert_eq!(spilled.total_bytes, whole.len() as u64);
        prop_assert_eq!(spilled.path.is_none(), fits);
        if let Some(path) = spilled.path {
            prop_assert_eq!(fs::read(path).unwrap(), whole.clone());
            prop_assert_eq!(&held[..], &whole[..head]);
            prop_assert_eq!(&kept[..], &whole[whole.len() - tail..]);
        }
    }
}
