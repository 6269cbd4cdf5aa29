//! On whose behalf something is asked of a provider, an engine or another tool from outside.

use crate::agent::Home;
use throughline_core::SessionId;
use throughline_core::memory::Scope;
use throughline_core::port::StoreError;
use throughline_core::tool::Caller;

/// What the store knows of a session, under the name that its agent has elsewhere.
pub(crate) async fn of_session(home: &Home, session: &SessionId) -> Result<Scope, StoreError> {
    let (agent, provider) = match &home.memory {
        Some(memory) => (memory.profile.clone(), memory.provider.name().to_owned()),
        None => (home.rules.agent.clone(), String::new()),
    };
    let id = session.clone();
    let scope = home.library.read(move |store| store.scope(&id, &provider)).await?;
    Ok(Scope { agent, ..scope })
}

/// The same, of one that has ended. Its chat leads to the `successor` by then, so what is not known of the one is
/// known of the other: a listener hears of the end under the scope of every call before.
pub(crate) async fn of_ended(
    home: &Home,
    session: &SessionId,
    successor: Option<&SessionId>,
) -> Result<Scope, StoreError> {
    let mut scope = of_session(home, session).await?;
    if let (None, Some(successor)) = (&scope.chat, successor) {
        let next = of_session(home, successor).await?;
        scope.chat = next.chat;
        scope.place = next.place;
        scope.user = scope.user.or(next.user);
        scope.user_name = scope.user_name.or(next.user_name);
        scope.document = scope.document.or(next.document);
    }
    Ok(scope.on_behalf_of(None))
}

/// The same, for a caller in it.
pub(crate) async fn of_caller(home: &Home, caller: &Caller) -> Result<Scope, StoreError> {
    let scope = of_session(home, &caller.session).await?.on_behalf_of(caller.user.clone());
    to_read(home, scope).await
}

/// The same, for a read at the provider's. What nothing lies in yet is looked for where it will lie: the
/// name that it would have by itself may be another chat's own. Asked each time, for that may have changed.
pub(crate) async fn to_read(home: &Home, scope: Scope) -> Result<Scope, StoreError> {
    let Some(memory) = home.memory.as_ref().filter(|_| scope.document.is_none()) else { return Ok(scope) };
    let (provider, naming) = (memory.provider.name().to_owned(), memory.provider.naming(&scope));
    let meant = home.library.read(move |store| store.name(&provider, &naming)).await?;
    Ok(Scope { meant: Some(meant), ..scope })
}
