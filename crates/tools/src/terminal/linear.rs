//! What a model would run, and what a command prints, is foreign text: each function of it is linear.

use super::{advice, output, request};
use std::hint::black_box;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("terminal::output::strip_ansi", |text| _ = output::strip_ansi(text).into_owned()),
        ("terminal::output::last_chars", |text| _ = black_box(output::last_chars(text, 100))),
        ("terminal::advice::foreground", |text| _ = black_box(advice::foreground(text))),
        ("terminal::advice::ends_gateway", |text| _ = black_box(advice::ends_gateway(text))),
        ("terminal::advice::exit_code", |text| _ = black_box(advice::exit_code(text, 1))),
        ("terminal::advice::needs_pipe", |text| _ = black_box(advice::needs_pipe(text))),
        ("terminal::advice::workdir", |text| _ = advice::workdir(text)),
        ("terminal::advice::piped_sudo", |text| _ = advice::piped_sudo(text)),
        ("terminal::advice::sudo_refused", |text| _ = black_box(advice::sudo_refused(text))),
        ("terminal::advice::sudo_asked", |text| _ = black_box(advice::sudo_asked(text))),
        ("terminal::request::object", |text| _ = request::object(text).is_ok()),
    ]);
}
