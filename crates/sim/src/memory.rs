//! A memory provider that writes down what it is told. It is slow, and fails, as planned.

use crate::engine::expanded;
use crate::model::line;
use crate::plan::MemoryPlan;
use crate::records::Hearing;
use crate::world::Outside;
use std::sync::Arc;
use throughline_core::Message;
use throughline_core::memory::{MemoryError, Naming, Provider, Retention, Scope};
use throughline_core::port::Promise;

pub struct SimMemory {
    pub outside: Arc<Outside>,
    pub agent: usize,
    pub plan: MemoryPlan,
}

impl SimMemory {
    /// The gateway has no reason to ask for this.
    fn is_strange(&self, what: &str, scope: &Scope) {
        self.outside.write(|records| records.strange.push(format!("{what} for {}", scope.session)));
    }
}

impl Provider for SimMemory {
    fn name(&self) -> &str {
        "recorder"
    }

    fn naming(&self, scope: &Scope) -> Naming {
        Naming { name: scope.session.to_string(), otherwise: None }
    }

    fn every(&self) -> Option<u64> {
        None
    }

    fn recall<'a>(&'a self, scope: &'a Scope, query: &'a str) -> Promise<'a, Result<String, MemoryError>> {
        self.is_strange(&format!("recall of {query:?}"), scope);
        Box::pin(async { Ok(String::new()) })
    }

    fn retain<'a>(&'a self, retention: &'a Retention) -> Promise<'a, Result<(), MemoryError>> {
        self.is_strange(&format!("retention of {}", retention.key), &retention.scope);
        Box::pin(async { Ok(()) })
    }

    fn before_compression<'a>(
        &'a self,
        scope: &'a Scope,
        messages: &'a [Message],
    ) -> Promise<'a, Result<String, MemoryError>> {
        Box::pin(async move {
            let outside = &self.outside;
            let rows: Vec<String> = messages.iter().map(line).collect();
            let at = outside.now();
            let number = outside.write(|records| {
                records.saw(("told", scope.session.as_str(), &rows));
                let rows = expanded(records, &rows);
                let scope = (scope.agent.to_string(), scope.session.clone());
                let (life, agent) = (records.life, self.agent);
                records.hearings.push(Hearing { life, agent, scope, rows, at, said: None });
                records.hearings.len() - 1
            });
            outside.pause(self.plan.latency_max).await;
            if outside.draw(|seed| seed.below(100)) < self.plan.failing_percent {
                return Err(MemoryError::Later("the memory provider is out of order".into()));
            }
            let now = outside.now();
            outside.write(|records| records.hearings[number].said = Some(now));
            Ok(format!("heard-{number}"))
        })
    }
}
