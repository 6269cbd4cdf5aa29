//! Every tool there is, in the order in which tools are offered.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use throughline_core::message::JsonText;
use throughline_core::tool::{Offer, Spec};
use throughline_hermes::toolset::{MCP, Toolsets};

#[derive(Default)]
pub(super) struct ToolCatalog {
    /// As the kits said it: what a later answer is compared with.
    said: Vec<Vec<Spec>>,
    tools: Vec<CatalogTool>,
    by_name: HashMap<String, usize>,
}

pub(super) struct CatalogTool {
    pub spec: Spec,
    /// The position of the kit that has it.
    pub kit: usize,
    pub schema: Value,
    /// As it stands in the list.
    entry: String,
}

impl ToolCatalog {
    pub fn new(said: Vec<Vec<Spec>>) -> Self {
        let all = said.iter().enumerate().flat_map(|(kit, specs)| specs.iter().map(move |spec| (kit, spec)));
        let (mut foreign, mut own): (Vec<_>, Vec<_>) =
            all.partition(|(_, spec)| spec.toolset.starts_with(MCP));
        // Servers come and go in any order; their tools must not.
        foreign.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        own.append(&mut foreign);
        let mut tools: Vec<CatalogTool> = Vec::with_capacity(own.len());
        let mut by_name = HashMap::new();
        for (kit, spec) in own {
            if by_name.contains_key(&spec.name) {
                tracing::warn!(
                    tool = spec.name,
                    toolset = spec.toolset,
                    "a second tool of this name is not offered"
                );
                continue;
            }
            let Some(tool) = CatalogTool::new(kit, spec) else {
                tracing::warn!(
                    tool = spec.name,
                    toolset = spec.toolset,
                    "a tool without a readable schema is not offered"
                );
                continue;
            };
            by_name.insert(spec.name.clone(), tools.len());
            tools.push(tool);
        }
        Self { said, tools, by_name }
    }

    pub fn is_of(&self, said: &[Vec<Spec>]) -> bool {
        self.said == said
    }

    pub fn find(&self, name: &str) -> Option<&CatalogTool> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    pub fn tools(&self) -> impl Iterator<Item = &CatalogTool> {
        self.tools.iter()
    }

    pub fn allowed<'a>(&'a self, toolsets: &'a Toolsets) -> impl Iterator<Item = &'a CatalogTool> {
        self.tools.iter().filter(|tool| toolsets.allows(&tool.spec.name, &tool.spec.toolset))
    }

    /// None if nothing is on.
    pub fn offer(&self, toolsets: &Toolsets) -> Option<Offer> {
        let mut list = String::from("[");
        let mut names = Vec::new();
        for tool in self.allowed(toolsets) {
            if !names.is_empty() {
                list.push(',');
            }
            list.push_str(&tool.entry);
            names.push(tool.spec.name.clone());
        }
        list.push(']');
        (!names.is_empty()).then(|| Offer { list: JsonText::from_valid(list), names })
    }
}

impl CatalogTool {
    /// None if its schema is no JSON object.
    fn new(kit: usize, spec: &Spec) -> Option<Self> {
        let schema: Value = serde_json::from_str(spec.parameters.as_str()).ok()?;
        if !schema.is_object() {
            return None;
        }
        let text = |text: &str| Value::from(text).to_string();
        let mut entry = String::from(r#"{"type":"function","function":{"name":"#);
        let _ = write!(entry, r#"{},"description":{},"#, text(&spec.name), text(&spec.description));
        let _ = write!(entry, r#""parameters":{schema}}}}}"#);
        Some(Self { spec: spec.clone(), kit, schema, entry })
    }
}
