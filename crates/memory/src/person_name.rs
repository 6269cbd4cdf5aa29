//! The name of a person for a provider that knows many people.
//!
//! People of chats are called what their platform calls them, as Hermes has it. A client of the API that speaks
//! for one user among several makes their names up, so these are kept apart: its `42` is not Telegram's.

use throughline_core::memory::Scope;

const API: &str = "api_server";

/// None: the scope names no person.
pub(crate) fn of(scope: &Scope) -> Option<String> {
    let user = scope.user.as_deref().map(str::trim).filter(|user| !user.is_empty())?;
    Some(of_client(scope).unwrap_or_else(|| user.to_owned()))
}

/// The same, if a client of the API speaks for them.
pub(crate) fn of_client(scope: &Scope) -> Option<String> {
    let user = scope.user.as_deref().map(str::trim).filter(|user| !user.is_empty())?;
    (scope.platform == API).then(|| format!("api:{user}"))
}
