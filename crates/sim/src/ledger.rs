//! The ledger of chains, as one file beside every home: what was granted stays granted when the
//! gateway ends, and now and then it cannot be reached.

use crate::mutant::Mutant;
use crate::world::Outside;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::chain::{Cut, Share, Shared, Spent};
use throughline_core::input::{Root, Trace};
use throughline_core::port::{CutChain, Ledger, Post, Promise, Unreachable};

/// How long a write may take.
const LATENCY_MAX: Duration = Duration::from_millis(20);
/// How often the ledger looks whether people have to be told.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Of a hundred questions, so many find it out of reach.
const UNREACHABLE_PERCENT: u64 = 3;

/// What is in the file.
#[derive(Default)]
pub struct Pages {
    origins: BTreeMap<Arc<str>, Spent>,
    cuts: Vec<(CutChain, bool)>,
    announced: BTreeMap<(Arc<str>, u32, String), Root>,
    posts: BTreeMap<(String, String, String), Trace>,
}

pub struct SimLedger(pub Arc<Outside>);

impl SimLedger {
    async fn reach(&self) -> Result<(), Unreachable> {
        self.0.live_or_never().await;
        self.0.pause(LATENCY_MAX).await;
        match self.0.draw(|seed| seed.below(100)) < UNREACHABLE_PERCENT {
            true => Err(Unreachable("the ledger is out of reach".into())),
            false => Ok(()),
        }
    }

    fn at<T>(&self, work: impl FnOnce(&mut Pages) -> T) -> T {
        work(&mut self.0.ledger.lock().expect("nothing panics while it holds the ledger"))
    }
}

impl Ledger for SimLedger {
    fn take(&self, share: Share) -> Promise<'_, Result<Shared, Unreachable>> {
        Box::pin(async move {
            self.reach().await?;
            let unlimited = self.0.mutant == Some(Mutant::ForgetBudget);
            let now = Time::default().plus(self.0.now());
            let shared = self.at(|pages| {
                let spent = pages.origins.entry(share.origin.clone()).or_default();
                match share.of(*spent) {
                    Ok(after) => {
                        *spent = after;
                        Shared::Granted
                    }
                    Err(_) if unlimited => Shared::Granted,
                    Err(why) => {
                        let number = spent.opened;
                        let is_new = !pages
                            .cuts
                            .iter()
                            .any(|(cut, _)| cut.origin == share.origin && cut.number == number);
                        if let (Some(root), true) = (share.root.clone(), is_new) {
                            let origin = share.origin.clone();
                            pages.cuts.push((CutChain { origin, number, root, why, at: now }, false));
                        }
                        let announce = share.place.as_ref().is_some_and(|place| {
                            let key = (share.origin.clone(), number, place.clone());
                            *pages.announced.entry(key).or_insert_with(|| share.asker.clone()) == share.asker
                        });
                        Shared::Refused(Cut { number, why, announce })
                    }
                }
            });
            self.0.pause(LATENCY_MAX).await; // the process may end before it hears of it
            Ok(shared)
        })
    }

    fn would_grant(&self, share: Share) -> Promise<'_, Result<bool, Unreachable>> {
        Box::pin(async move {
            self.reach().await?;
            let spent = self.at(|pages| pages.origins.get(&share.origin).copied().unwrap_or_default());
            Ok(share.of(spent).is_ok())
        })
    }

    fn introduce(&self, _: &str, _: &str) {}

    fn posted(&self, post: Post, trace: Trace) {
        if !self.0.is_dead() {
            self.at(|pages| pages.posts.insert((post.platform, post.chat, post.message), trace));
        }
    }

    fn recognise(&self, post: Post) -> Promise<'_, Option<Trace>> {
        Box::pin(async move {
            self.reach().await.ok()?;
            self.at(|pages| pages.posts.get(&(post.platform, post.chat, post.message)).cloned())
        })
    }

    fn reopen(&self, session: Root) -> Promise<'_, Result<(), Unreachable>> {
        Box::pin(async move {
            self.reach().await?;
            self.at(|pages| {
                let theirs = pages.cuts.iter().filter(|(cut, _)| cut.root == session);
                let theirs: Vec<_> = theirs.map(|(cut, _)| (cut.origin.clone(), cut.number)).collect();
                for (origin, number) in theirs {
                    if let Some(spent) = pages.origins.get_mut(&origin).filter(|spent| spent.opened == number)
                    {
                        *spent = Spent { opened: number + 1, ..Spent::default() };
                    }
                }
            });
            Ok(())
        })
    }

    fn cut(&self, home: Arc<str>) -> Promise<'_, CutChain> {
        Box::pin(async move {
            loop {
                self.0.live_or_never().await;
                let untold = self.at(|pages| {
                    let mut untold = pages.cuts.iter().filter(|(cut, told)| !told && cut.root.home == home);
                    untold.next().map(|(cut, _)| cut.clone())
                });
                match untold {
                    Some(cut) => return cut,
                    None => self.0.wait(LOOK_EVERY).await,
                }
            }
        })
    }

    fn announces(&self, cut: CutChain, place: String) -> Promise<'_, Result<bool, Unreachable>> {
        Box::pin(async move {
            self.reach().await?;
            Ok(self.at(|pages| {
                let key = (cut.origin.clone(), cut.number, place);
                *pages.announced.entry(key).or_insert_with(|| cut.root.clone()) == cut.root
            }))
        })
    }

    fn told(&self, cut: CutChain) -> Promise<'_, Result<(), Unreachable>> {
        Box::pin(async move {
            self.reach().await?;
            self.at(|pages| {
                pages.cuts.iter_mut().filter(|(known, _)| *known == cut).for_each(|it| it.1 = true)
            });
            Ok(())
        })
    }

    fn cuts(&self, home: Arc<str>) -> Promise<'_, Result<Vec<CutChain>, Unreachable>> {
        Box::pin(async move {
            let cuts = self.at(|pages| pages.cuts.iter().map(|(cut, _)| cut.clone()).collect::<Vec<_>>());
            Ok(cuts.into_iter().filter(|cut| cut.root.home == home).collect())
        })
    }
}

impl Pages {
    /// Chains whose people were not told yet.
    pub fn untold(&self) -> usize {
        self.cuts.iter().filter(|(_, told)| !told).count()
    }
}
