use super::process_tool::lines;

#[test]
fn lines_end_as_in_python() {
    assert_eq!(lines("a\r\nb\rc\n\nd"), ["a", "b", "c", "", "d"]);
    assert_eq!(lines(""), Vec::<&str>::new());
    assert_eq!(lines("a\n"), ["a"]);
}
