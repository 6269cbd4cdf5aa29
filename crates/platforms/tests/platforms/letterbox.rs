//! An intake that keeps what it gets, once by identity, and refuses when it is told to.

use std::sync::Mutex;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::input::{Destination, Trace};
use throughline_core::port::{Outgoing, Promise};
use throughline_platforms::{DirectDelivery, Incoming, Intake, IntakeOutcome, NotNow, Press};
use tokio::time::{sleep, timeout};

#[derive(Default)]
pub struct Letterbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Vec<Incoming>,
    offered: usize,
    presses: Vec<Press>,
    letters: Vec<DirectDelivery>,
    refusals: usize,
    now: Option<Time>,
}

impl Letterbox {
    pub fn kept(&self) -> Vec<Incoming> {
        self.state.lock().unwrap().kept.clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.kept().into_iter().map(|incoming| incoming.text).collect()
    }

    /// How often something was offered, deliveries of the same included.
    pub fn offered(&self) -> usize {
        self.state.lock().unwrap().offered
    }

    pub fn presses(&self) -> Vec<Press> {
        self.state.lock().unwrap().presses.clone()
    }

    pub fn letters(&self) -> Vec<DirectDelivery> {
        self.state.lock().unwrap().letters.clone()
    }

    /// The next `count` are not taken: the disk is full.
    pub fn refuse(&self, count: usize) {
        self.state.lock().unwrap().refusals = count;
    }

    /// It is always this time.
    pub fn stop_clock(&self, now: Time) {
        self.state.lock().unwrap().now = Some(now);
    }

    /// Waits until so many are kept, and gives what was kept in ten seconds.
    pub async fn wait(&self, count: usize) -> Vec<Incoming> {
        let enough = async {
            while self.kept().len() < count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(Duration::from_secs(10), enough).await;
        self.kept()
    }

    fn refusal(state: &mut State) -> Option<NotNow> {
        state.offered += 1;
        state.refusals = state.refusals.checked_sub(1)?;
        Some(NotNow("the disk is full".to_owned()))
    }
}

/// A reply on its way out.
pub fn outgoing(destination: Destination, text: &str) -> Outgoing {
    Outgoing {
        attempted: None,
        draft: None,
        question: None,
        key: "reply/1".to_owned(),
        session: "20260528_093510_66bfaec7".parse().unwrap(),
        destination,
        text: text.to_owned(),
        trace: Trace::default(),
        attempts: 1,
        attempting: None,
        marked: false,
        not_before: Time(0),
    }
}

impl Intake for Letterbox {
    fn take(&self, incoming: Incoming) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            if let Some(refusal) = Self::refusal(&mut state) {
                return Err(refusal);
            }
            assert!(!incoming.identity.is_empty());
            if !state.kept.iter().any(|kept| kept.identity == incoming.identity) {
                state.kept.push(incoming);
            }
            Ok(IntakeOutcome::Kept)
        })
    }

    fn press(&self, press: Press) -> Promise<'_, Result<String, NotNow>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            if let Some(refusal) = Self::refusal(&mut state) {
                return Err(refusal);
            }
            state.presses.push(press);
            Ok("Noted.".to_owned())
        })
    }

    fn deliver(&self, letter: DirectDelivery) -> Promise<'_, Result<IntakeOutcome, NotNow>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            if let Some(refusal) = Self::refusal(&mut state) {
                return Err(refusal);
            }
            if !state.letters.iter().any(|kept| kept.identity == letter.identity) {
                state.letters.push(letter);
            }
            Ok(IntakeOutcome::Kept)
        })
    }

    fn cursor<'a>(&'a self, _platform: &'a str, _account: &'a str) -> Promise<'a, Option<String>> {
        Box::pin(async { None })
    }

    fn keep<'a>(
        &'a self,
        _platform: &'a str,
        _account: &'a str,
        _cursor: String,
    ) -> Promise<'a, Result<(), NotNow>> {
        Box::pin(async { Ok(()) })
    }

    fn now(&self) -> Time {
        self.state.lock().unwrap().now.unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            Time(i64::try_from(since.as_micros()).unwrap())
        })
    }
}
