//! What a step lacks before its commit, looked up by the owner of the session.

use super::Actor;
use crate::scope;
use crate::turn;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_core::Seq;
use throughline_core::command::skill;
use throughline_core::input::Input;
use throughline_core::memory::{Filing, Scope, unfenced};
use throughline_core::message::Body;
use throughline_core::port::StoreError;
use throughline_core::session::Proposal;
use throughline_core::session::propose::Lack;
use throughline_offload as offload;

impl Actor {
    /// Everything that a proposal lacks.
    pub(super) async fn complete(&mut self, proposal: &mut Proposal) -> Result<(), StoreError> {
        let home = self.home.clone();
        while let Some(lack) = proposal.lacks(&home.rules) {
            match lack {
                Lack::Texts(unread) => {
                    let mut read = BTreeMap::new();
                    for seq in unread {
                        read.insert(seq, self.whole(seq).await?);
                    }
                    proposal.supply_texts(&read, &home.rules);
                }
                Lack::Prompt => {
                    let Some(turn) = proposal.turn() else { continue };
                    let persona = turn::persona(&home, &self.caller(turn), &self.room).await;
                    proposal.supply_prompt(&persona, &home.rules);
                }
                Lack::EngineWords => {
                    let words = match self.profile.born {
                        true => home.compressor.words_about(&home, &self.id).await,
                        false => None,
                    };
                    proposal.supply_engine_words(words);
                }
                Lack::Filing { said } => {
                    let filing = self.filing().await?;
                    let said = match said && filing.is_some() {
                        true => self.said_last().await?,
                        false => None,
                    };
                    proposal.supply_filing(filing.as_ref(), said.as_deref());
                }
            }
        }
        Ok(())
    }

    /// An input that waits, with all its texts.
    pub(super) async fn whole(&self, seq: Seq) -> Result<Arc<Input>, StoreError> {
        let id = self.id.clone();
        let found = self.home.library.read(move |store| store.input(&id, seq)).await?;
        found.ok_or_else(|| StoreError::Broken {
            doing: "read a message that waits",
            source: format!("session {} has no message number {seq} any more", self.id).into(),
        })
    }

    /// To whom a turn goes that is remembered now.
    async fn filing(&mut self) -> Result<Option<Filing>, StoreError> {
        let Some(memory) = self.home.memory.clone() else { return Ok(None) };
        let scope = self.scope().await?;
        let provider = memory.provider.name().to_owned();
        let every = memory.provider.every().unwrap_or(1);
        Ok(Some(Filing { provider, naming: memory.provider.naming(&scope), scope, every }))
    }

    /// What was said last in the transcript: a turn that is asked again brings no words of its own.
    async fn said_last(&self) -> Result<Option<String>, StoreError> {
        let id = self.id.clone();
        // A summary is what no person said.
        let said = self.home.library.read(move |store| store.said(&id)).await?;
        let last = said.into_iter().rev().find_map(|(_, message)| match message.body {
            Body::User(content) => Some(content.plain()),
            _ => None,
        });
        Ok(last.map(|said| skill::written(&offload::run(said.len(), || unfenced(&said))).to_owned()))
    }

    /// On whose behalf this session remembers. Looked up when it is needed, and again when it may have changed.
    pub(super) async fn scope(&mut self) -> Result<Scope, StoreError> {
        let scope = match self.scope.clone() {
            Some(scope) => scope,
            None => self.scope.insert(scope::of_session(&self.home, &self.id).await?).clone(),
        };
        let scope = scope.on_behalf_of(self.profile.user.clone());
        Ok(Scope { generation: self.state.generation, ..scope })
    }
}
