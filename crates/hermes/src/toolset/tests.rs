use super::*;
use crate::config::Config;
use serde_json::Value;
use std::collections::BTreeMap;

fn switches(yaml: &str) -> Switches {
    Config::parse(yaml, &|_| None).unwrap().tools.switches
}

fn allows(yaml: &str, platform: &str, tool: &str, toolset: &str) -> bool {
    Toolsets::for_platform(&switches(yaml), platform).allows(tool, toolset)
}

/// What Hermes 0.19 itself said, by `tests/hermes_toolsets.py`.
struct Peer {
    registered: BTreeMap<String, String>,
    cases: Vec<Case>,
}

struct Case {
    config: String,
    switches: Switches,
    /// Platform, toolsets, tools. None: an error.
    platforms: Vec<(String, Option<Answer>)>,
}

type Answer = (BTreeSet<String>, BTreeSet<String>);

impl Peer {
    fn read() -> Self {
        let json: Value = serde_json::from_str(include_str!("../../tests/toolsets-0.19.json")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let words = |value: &Value| value.as_str().unwrap().split_whitespace().map(str::to_owned).collect();
        let answer = |index: &Value| {
            let answer = &json["answers"][index.as_u64().unwrap() as usize];
            (!answer.is_null()).then(|| (words(&answer["toolsets"]), words(&answer["tools"])))
        };
        let case = |case: &Value| {
            let variables = case["variables"].as_object().unwrap();
            let variable = |name: &str| variables.get(name).map(text);
            let config = text(&case["config"]);
            let switches = Config::parse(&config, &variable).unwrap().tools.switches;
            let platforms = case["platforms"].as_object().unwrap();
            let platforms = platforms.iter().map(|(name, index)| (name.clone(), answer(index))).collect();
            Case { config, switches, platforms }
        };
        let registered = json["registered"].as_object().unwrap();
        Peer {
            registered: registered.iter().map(|(tool, toolset)| (tool.clone(), text(toolset))).collect(),
            cases: json["cases"].as_array().unwrap().iter().map(case).collect(),
        }
    }

    /// The tools that Hermes has, and those that the servers of a case would have.
    fn tools(&self, case: &Case) -> Vec<(String, String)> {
        let servers = case.switches.servers.iter();
        let servers = servers.map(|name| (format!("mcp__{name}__call"), format!("{MCP}{name}")));
        self.registered.clone().into_iter().chain(servers).collect()
    }
}

/// Settings that Hermes forgives, or trips over, and that switch something off here.
fn is_unreadable(case: &Case, platform: &str) -> bool {
    let unreadable_list = match &case.switches.platforms {
        ListSetting::Unreadable(_) => true,
        ListSetting::Entries(lists) => {
            lists.iter().any(|(name, list)| name == platform && matches!(list, ListSetting::Unreadable(_)))
        }
        ListSetting::Absent => false,
    };
    unreadable_list
        || matches!(case.switches.disabled, ListSetting::Unreadable(_))
        || case.config.starts_with("mcp_servers: [") // an error in Hermes, no servers here
        || case.config.contains("perhaps")
}

#[test]
fn p31_every_platform_has_the_tools_that_hermes_would_give_it() {
    let peer = Peer::read();
    let mut compared = 0;
    for case in &peer.cases {
        for (platform, answer) in &case.platforms {
            let ours = Toolsets::for_platform(&case.switches, platform);
            let at = format!("{platform} with {}", case.config);
            let Some((toolsets, tools)) = answer.as_ref().filter(|_| !is_unreadable(case, platform)) else {
                continue;
            };
            // Hermes 0.19 knows no `messaging`, and takes what a job never has away later.
            let known =
                |name: &&str| *name != "messaging" && !(platform == "cron" && NOT_FOR_CRON.contains(name));
            let names: BTreeSet<&str> = ours.names().into_iter().filter(known).collect();
            let theirs: BTreeSet<&str> = toolsets.iter().map(String::as_str).filter(known).collect();
            assert_eq!(names, theirs, "{at}");
            for (tool, toolset) in peer.tools(case) {
                let (here, there) = (ours.allows(&tool, &toolset), tools.contains(&tool));
                // Hermes' API server subtracts names, not tools: the one place where we are stricter.
                let forgotten = platform == "api_server" && ours.off.holds(&tool, &toolset);
                assert!(here == there || (forgotten && !here), "{at}: {tool} is {here} here, {there} there");
                compared += 1;
            }
        }
    }
    assert!(compared > 40_000, "{compared}");
}

#[test]
fn p31_what_cannot_be_read_is_never_more_than_what_hermes_would_give() {
    let peer = Peer::read();
    let mut seen = 0;
    for case in &peer.cases {
        for (platform, answer) in case.platforms.iter().filter(|(name, _)| is_unreadable(case, name)) {
            let ours = Toolsets::for_platform(&case.switches, platform);
            for (tool, toolset) in peer.tools(case) {
                let there = answer.as_ref().is_none_or(|(_, tools)| tools.contains(&tool));
                assert!(there || !ours.allows(&tool, &toolset), "{platform} {tool} with {}", case.config);
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn p31_a_list_that_is_none_leaves_its_platform_without_tools() {
    for yaml in [
        "platform_toolsets: {telegram: web}",
        "platform_toolsets: {telegram: {web: true}}",
        "platform_toolsets: {telegram: [file, {web: true}]}",
        "platform_toolsets: [web]",
        "agent: {disabled_toolsets: memory}",
        "agent: {disabled_toolsets: [memory, [terminal]]}",
    ] {
        for tool in ["read_file", "terminal", "todo"] {
            assert!(!allows(yaml, "telegram", tool, ""), "{yaml} {tool}");
        }
        let config = Config::parse(yaml, &|_| None).unwrap();
        assert!(config.warnings.iter().any(|notice| notice.text.contains("until it is corrected")), "{yaml}");
    }
    assert!(allows("platform_toolsets: {telegram: web}", "cli", "read_file", "file"), "the others go on");
}

#[test]
fn p31_a_toolset_that_is_switched_off_is_off_on_every_platform() {
    for platform in ["cli", "local", "telegram", "discord", "slack", "api_server", "cron", "webhook", "sms"] {
        for (disabled, tool, toolset) in [
            ("terminal", "terminal", "terminal"),
            ("terminal", "process", "terminal"),
            ("file", "write_file", "file"),
            ("memory", "memory", "memory"),
            ("skills", "skill_manage", "skills"),
            ("messaging", "send_message", "messaging"),
            ("github", "mcp__github__push", "mcp-github"),
            ("debugging", "terminal", "terminal"),
        ] {
            let rest = "mcp_servers: {github: {command: x}}\n\
                        platform_toolsets: {cli: [all], telegram: [terminal, file, memory, skills, messaging]}";
            let yaml = format!("agent: {{disabled_toolsets: [{disabled}]}}\n{rest}");
            assert!(!allows(&yaml, platform, tool, toolset), "{tool} at {platform}");
        }
    }
}

#[test]
fn send_message_is_on_in_chats_and_off_where_hermes_0_14_has_it_off() {
    for (platform, expected) in [
        ("cli", true),
        ("telegram", true),
        ("discord", true),
        ("api_server", false),
        ("cron", false),
        ("webhook", false),
    ] {
        assert_eq!(allows("{}", platform, "send_message", "messaging"), expected, "{platform}");
    }
    let asked = "platform_toolsets: {api_server: [messaging], cron: [messaging]}";
    assert!(allows(asked, "api_server", "send_message", "messaging"));
    assert!(!allows(asked, "cron", "send_message", "messaging"), "a job has nobody to speak for");
    assert!(!allows("platform_toolsets: {telegram: [web]}", "telegram", "send_message", "messaging"));
}

#[test]
fn p31_a_server_called_like_a_toolset_switches_nothing_else_on() {
    let yaml = "mcp_servers: {terminal: {command: x}}\nplatform_toolsets: {telegram: [web]}";
    assert!(!allows(yaml, "telegram", "terminal", "terminal"), "Hermes would");
    assert!(allows(yaml, "telegram", "mcp__terminal__run", "mcp-terminal"));
    let off = "mcp_servers: {terminal: {command: x}}\nagent: {disabled_toolsets: [terminal]}";
    assert!(!allows(off, "cli", "terminal", "terminal"));
    assert!(!allows(off, "cli", "mcp__terminal__run", "mcp-terminal"), "either may be meant");
}

#[test]
fn a_child_has_no_more_than_its_parent_and_never_what_no_child_has() {
    let servers = "mcp_servers: {github: {command: x}}\n";
    let parent =
        Toolsets::for_platform(&switches(&format!("{servers}agent: {{disabled_toolsets: [skills]}}")), "cli");
    let child = |toolsets: Option<&[&str]>, may_delegate, inherits_servers| {
        let toolsets = toolsets.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        parent.for_child(Child { toolsets, may_delegate, inherits_servers })
    };
    let all = child(None, false, true);
    assert!(all.allows("terminal", "terminal") && all.allows("mcp__github__push", "mcp-github"));
    for tool in NOT_FOR_CHILDREN {
        assert!(!all.allows(tool, "any"), "{tool}");
    }
    assert!(!all.allows("skills_list", "skills"));
    let files = child(Some(&["file", "skills", "memory"]), true, false);
    assert!(files.allows("read_file", "file"));
    assert!(!files.allows("terminal", "terminal") && !files.allows("skills_list", "skills"));
    assert!(!files.allows("memory", "memory") && !files.allows("mcp__github__push", "mcp-github"));
    assert!(!files.allows("delegate_task", "delegation"), "it may, and its list does not name it");
    assert!(child(Some(&["delegation"]), true, true).allows("delegate_task", "delegation"));
    assert!(child(Some(&["file"]), false, true).allows("mcp__github__push", "mcp-github"));
    assert!(child(Some(&["github"]), false, false).allows("mcp__github__push", "mcp-github"));
    assert!(!child(Some(&[]), true, false).allows("read_file", "file"));
}

#[test]
fn a_name_that_nobody_knows_is_pointed_out() {
    for (yaml, part) in [
        ("platform_toolsets: {cli: [hermes]}", "`platform_toolsets.cli` names `hermes`"),
        ("platform_toolsets: {cli: [web, trminal]}", "did you mean `terminal`?"),
        ("agent: {disabled_toolsets: [memori]}", "did you mean `memory`?"),
        ("agent: {disabled_toolsets: [no_mcp]}", "no effect"),
        ("platform_toolsets: {telegram: [discord]}", "`discord` has no effect on telegram"),
        ("mcp_servers: {web: {command: x}}", "is called like a toolset"),
    ] {
        let config = Config::parse(yaml, &|_| None).unwrap();
        assert!(
            config.warnings.iter().any(|notice| notice.text.contains(part)),
            "{yaml}: {:?}",
            config.warnings
        );
    }
    for yaml in [
        "platform_toolsets: {cli: [hermes-cli, all, no_mcp, web_tools, messaging, github, mcp-github]}\nmcp_servers: {github: {command: x}}",
        "agent: {disabled_toolsets: [hermes-irc, coding, ' memory ']}",
    ] {
        let config = Config::parse(yaml, &|_| None).unwrap();
        assert!(config.warnings.is_empty(), "{yaml}: {:?}", config.warnings);
    }
}
