//! What a server answers is foreign text: each function of it is linear.

use crate::endpoint::Endpoint;
use crate::error::excerpt;
use crate::server_sent_event::Parser;
use throughline_complexity::assert_linear;
use throughline_core::redact::Secret;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("event::Parser", |text| {
            let mut parser = Parser::new(1 << 20);
            let _ = parser.push(text.as_bytes()).and_then(|()| parser.finish());
            while parser.pop().is_some() {}
        }),
        ("event::Parser, byte by byte", |text| {
            let mut parser = Parser::new(1 << 20);
            let _ = text.as_bytes().iter().try_for_each(|byte| parser.push(&[*byte]));
            while parser.pop().is_some() {}
        }),
        ("error::excerpt", |text| _ = excerpt(text)),
        ("endpoint::Endpoint::clean", |text| {
            let endpoint = Endpoint::new("http://127.0.0.1:1", "/v1").expect("this is an address");
            let endpoint = endpoint
                .secret_header("x-api-key", "", &Secret::new("a".repeat(12)))
                .expect("this is a header");
            _ = endpoint.clean(text);
        }),
    ]);
}
