//! One request and its answer, for every provider: send, tell a stream from a document, put
//! the pieces together.

use crate::provider_error::ProviderError;
use serde_json::Value;
use std::time::Duration;
use throughline_core::port::Delta;
use throughline_net::{BodyShape, Client, Endpoint, EventStream, HttpReply, ServerSentEvent, excerpt};
use tokio::time::timeout;

pub(crate) type Deltas<'a> = &'a (dyn Fn(Delta) + Send + Sync);

/// Once the model has said that it is done, what may still come is its bill. Not worth more.
const TRAILER_WAIT: Duration = Duration::from_secs(5);

/// The end of the body follows its last event at once. Reading it lets the connection be used again.
const END_WAIT: Duration = Duration::from_millis(20);

/// How much of an answer that is neither a stream nor a document is shown.
const BEGINNING_LENGTH: usize = 2000;

/// An answer under construction.
pub(crate) trait AnswerAssembly {
    /// One event of a stream.
    fn event(&mut self, event: &ServerSentEvent, deltas: Deltas<'_>) -> Result<(), ProviderError>;
    /// A whole answer: some servers send one although a stream was asked for.
    fn whole(&mut self, document: &Value, deltas: Deltas<'_>) -> Result<(), ProviderError>;
    fn stage(&self) -> AnswerStage;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerStage {
    /// The model is still speaking.
    Open,
    /// It has said why it stopped.
    Finished,
    /// Nothing more will come.
    Closed,
}

pub(crate) async fn ask(
    client: &Client,
    endpoint: &Endpoint,
    body: String,
    assembly: &mut (impl AnswerAssembly + Send),
    deltas: Deltas<'_>,
) -> Result<(), ProviderError> {
    let mut reply = client.post(endpoint, body).await?;
    match reply.shape().await? {
        BodyShape::Events => stream(reply.events(), assembly, deltas).await,
        BodyShape::Json => document(&reply.text().await?, assembly, deltas),
        BodyShape::Unknown => Err(neither(reply).await),
    }
}

async fn stream(
    mut events: EventStream,
    assembly: &mut (impl AnswerAssembly + Send),
    deltas: Deltas<'_>,
) -> Result<(), ProviderError> {
    loop {
        let event = match assembly.stage() {
            AnswerStage::Open => events.next().await?.ok_or_else(cut)?,
            AnswerStage::Finished => match timeout(TRAILER_WAIT, events.next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None) | Err(_)) | Err(_) => return Ok(()),
            },
            AnswerStage::Closed => {
                let _ = timeout(END_WAIT, events.next()).await;
                return Ok(());
            }
        };
        assembly.event(&event, deltas)?;
    }
}

fn document(
    text: &str,
    assembly: &mut (impl AnswerAssembly + Send),
    deltas: Deltas<'_>,
) -> Result<(), ProviderError> {
    let document = serde_json::from_str(text)
        .map_err(|_| ProviderError::Broken(format!("it is not valid JSON: “{}”", excerpt(text))))?;
    assembly.whole(&document, deltas)?;
    match assembly.stage() {
        AnswerStage::Open => Err(cut()),
        AnswerStage::Finished | AnswerStage::Closed => Ok(()),
    }
}

fn cut() -> ProviderError {
    ProviderError::Broken("it broke off before it was finished".to_owned())
}

async fn neither(reply: HttpReply) -> ProviderError {
    let beginning = excerpt(&reply.beginning(BEGINNING_LENGTH).await);
    ProviderError::Broken(match beginning.is_empty() {
        true => "it is empty".to_owned(),
        false => format!("it is neither a stream nor JSON: “{beginning}”"),
    })
}
