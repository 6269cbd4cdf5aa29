//! Keys that Hermes once read, and how far two names are apart.
//!
//! Nothing here refuses anything: Hermes takes any key, and so do we.

use super::support;
use super::tree::{Node, Notice};

/// Keys that Hermes once read, and what to write now.
const OBSOLETE: [(&str, &str); 17] = [
    ("provider", "write it as `model.provider`"),
    ("base_url", "write it as `model.base_url`"),
    ("api_base", "write it as `model.base_url`"),
    ("context_length", "write it as `model.context_length`"),
    ("max_turns", "write it as `agent.max_turns`"),
    ("model.api_base", "write it as `model.base_url`"),
    ("model.model", "write it as `model.default`"),
    ("model.name", "write it as `model.default`"),
    ("compression.summary_model", "write it as `auxiliary.compression.model`"),
    ("compression.summary_provider", "write it as `auxiliary.compression.provider`"),
    ("compression.summary_base_url", "write it as `auxiliary.compression.base_url`"),
    ("memory.write_mode", "write `memory.write_approval: true` or `false`"),
    ("skills.write_mode", "write `skills.write_approval: true` or `false`"),
    ("delegation.max_async_children", "write it as `delegation.max_concurrent_children`"),
    ("display.busy_text_mode", "write it as `display.busy_input_mode`"),
    ("logging.memory_monitor", "remove it: Hermes 0.19 has no such setting"),
    ("auxiliary.session_search", "remove it: Hermes 0.19 has no such task"),
];

/// What a reader of this file should know about its keys.
pub(super) fn notices(root: &Node) -> Vec<Notice> {
    let mut notices = support::unknown(root);
    for (key, instead) in OBSOLETE {
        let found = match key.rsplit_once('.') {
            Some((section, name)) => root.get(section).and_then(|node| node.entry(name)),
            None => root.entry(key),
        };
        if let Some(entry) = found {
            notices.retain(|notice| notice.place != entry.place);
            let text = format!("`{key}` is obsolete: {instead}");
            notices.push(Notice { place: entry.place, text });
        }
    }
    notices
}

/// How many letters must be changed, added, dropped or swapped to get from one word to the other.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let mut cost = last[column] + usize::from(letter != other);
            cost = cost.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *letter == to[column - 1] && from[row - 1] == *other {
                cost = cost.min(before[column - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::parse;

    fn texts(yaml: &str) -> Vec<String> {
        notices(&parse(yaml).unwrap().root).into_iter().map(|notice| notice.text).collect()
    }

    #[test]
    fn an_unknown_key_is_pointed_out_with_the_nearest_known_name() {
        for (yaml, expected) in [
            ("compresion: {enabled: true}", Some("did you mean `compression`?")),
            ("compression: {treshold: 0.5}", Some("did you mean `compression.threshold`?")),
            ("agent: {max-turns: 3}", Some("did you mean `agent.max_turns`?")),
            ("agent: {mxa_turns: 3}", Some("did you mean `agent.max_turns`?")),
            ("busy_input_mode: queue", Some("did you mean `display.busy_input_mode`?")),
            ("display: {frobnicate: 1}", Some("has no effect")),
            ("auxiliary: {vision: {modle: x}}", Some("did you mean `auxiliary.vision.model`?")),
            ("OPENAI_API_KEY: x", None),
            ("_test: {anything: 1}", None),
            ("display: {platforms: {telegram: {tool_progress: off}, matrix: {streaming: true}}}", None),
            ("platforms: {api_server: {extra: {port: 1}}}", None),
            ("platforms: {api_server: {port: 1}}", Some("write it as `platforms.api_server.extra.port`")),
            ("api_server: {port: 1}", Some("write it as `platforms.api_server.extra.port`")),
            ("auxiliary: {my_plugin_task: {model: x}}", None),
            ("model: some/model", None),
            ("throughline: {anything: 1}", None),
        ] {
            let texts = texts(yaml);
            match expected {
                Some(part) => assert!(texts.iter().any(|text| text.contains(part)), "{yaml}: {texts:?}"),
                None => assert!(texts.is_empty(), "{yaml}: {texts:?}"),
            }
        }
    }

    #[test]
    fn p31_a_mistyped_key_is_named_wherever_it_stands() {
        for (yaml, path, meant) in [
            ("memory: {nudge_intervall: 3}", "memory.nudge_intervall", "memory.nudge_interval"),
            ("memory: {memory_enabledd: false}", "memory.memory_enabledd", "memory.memory_enabled"),
            ("sessions: {auto_prunee: true}", "sessions.auto_prunee", "sessions.auto_prune"),
            ("checkpoints: {enable: true}", "checkpoints.enable", "checkpoints.enabled"),
            ("lsp: {server: {}}", "lsp.server", "lsp.servers"),
            ("webhook: {prot: 1}", "webhook.prot", "webhook.port"),
            ("telegram: {tokenn: x}", "telegram.tokenn", "telegram.token"),
            (
                "discord: {allow_mentions: {everyon: false}}",
                "discord.allow_mentions.everyon",
                "discord.allow_mentions.everyone",
            ),
            ("platforms: {telegram: {tokenn: x}}", "platforms.telegram.tokenn", "platforms.telegram.token"),
            (
                "platforms: {slack: {extra: {reactionss: x}}}",
                "platforms.slack.extra.reactionss",
                "platforms.slack.extra.reactions",
            ),
            ("platforms: {matrixx: {enabled: true}}", "platforms.matrixx", "platforms.matrix"),
            (
                "gateway: {platforms: {telegrm: {}}}",
                "gateway.platforms.telegrm",
                "gateway.platforms.telegram",
            ),
            (
                "platform_toolsets: {telegrm: [web]}",
                "platform_toolsets.telegrm",
                "platform_toolsets.telegram",
            ),
            ("reset_by_platform: {slak: {mode: idle}}", "reset_by_platform.slak", "reset_by_platform.slack"),
            ("reset_by_type: {dmm: {mode: idle}}", "reset_by_type.dmm", "reset_by_type.dm"),
            (
                "gateway: {session_reset: {mdoe: idle}}",
                "gateway.session_reset.mdoe",
                "gateway.session_reset.mode",
            ),
            (
                "skills: {platform_disabled: {telegrm: [a]}}",
                "skills.platform_disabled.telegrm",
                "skills.platform_disabled.telegram",
            ),
            (
                "display: {platforms: {telegram: {streeming: true}}}",
                "display.platforms.telegram.streeming",
                "display.platforms.telegram.streaming",
            ),
            ("providers: {mine: {base_ur: x}}", "providers.mine.base_ur", "providers.mine.base_url"),
            (
                "custom_providers: [{name: a}, {nmae: b}]",
                "custom_providers[1].nmae",
                "custom_providers[1].name",
            ),
            ("mcp_servers: {travel: {comand: x}}", "mcp_servers.travel.comand", "mcp_servers.travel.command"),
            (
                "mcp_servers: {travel: {oauth: {scop: x}}}",
                "mcp_servers.travel.oauth.scop",
                "mcp_servers.travel.oauth.scope",
            ),
            ("quick_commands: {up: {typ: exec}}", "quick_commands.up.typ", "quick_commands.up.type"),
            (
                "profile_routes: [{platfrom: telegram}]",
                "profile_routes[0].platfrom",
                "profile_routes[0].platform",
            ),
            (
                "hooks: {pre_tool_call: [{comand: x}]}",
                "hooks.pre_tool_call[0].comand",
                "hooks.pre_tool_call[0].command",
            ),
            (
                "webhook: {routes: {push: {secrett: x}}}",
                "webhook.routes.push.secrett",
                "webhook.routes.push.secret",
            ),
            ("plugins: {enable: [a]}", "plugins.enable", "plugins.enabled"),
            ("honcho: {base-url: x}", "honcho.base-url", "honcho.base_url"),
        ] {
            let expected = format!("`{path}` is not a key of Hermes; did you mean `{meant}`?");
            assert_eq!(texts(yaml), [expected], "{yaml}");
        }
    }

    #[test]
    fn p31_a_value_where_keys_are_expected_is_named() {
        for (yaml, path, expected) in [
            ("agent: 5", "agent", "a mapping of settings, and this is a number"),
            ("telegram: yes please", "telegram", "a mapping of settings, and this is text"),
            ("platforms: [telegram]", "platforms", "a mapping of settings, and this is a list"),
            (
                "platforms: {telegram: true}",
                "platforms.telegram",
                "a mapping of settings, and this is a yes or no",
            ),
            (
                "auxiliary: {compression: gpt}",
                "auxiliary.compression",
                "a mapping of settings, and this is text",
            ),
            ("providers: [a]", "providers", "a mapping of settings, and this is a list"),
            ("quick_commands: {up: uptime}", "quick_commands.up", "a mapping of settings, and this is text"),
            ("profile_routes: {platform: telegram}", "profile_routes", "a list, and this is a mapping"),
        ] {
            assert_eq!(texts(yaml), [format!("`{path}` takes {expected}: it has no effect")], "{yaml}");
        }
        for yaml in [
            "agent:",
            "agent: ''",
            "model: some/model",
            "checkpoints: true",
            "agent: {personalities: {kind: Be kind.}}",
        ] {
            assert_eq!(texts(yaml), [""; 0], "{yaml}");
        }
    }

    #[test]
    fn p31_names_that_a_user_chooses_are_not_reported() {
        for yaml in [
            "providers: {mine: {base_url: x, models: {any/model: {context_length: 1}}}}",
            "custom_providers: [{name: mine, extra_headers: {X-Any: 1}}]",
            "mcp_servers: {travel: {command: x, env: {ANY: 1}}, mail: {url: x, headers: {Any: 1}}}",
            "quick_commands: {up: {type: exec, command: uptime}}",
            "agent: {personalities: {pirate: {tone: salty}}, reasoning_overrides: {any: low}}",
            "moa: {presets: {mine: {reference_models: []}}}",
            "plugins: {my-plugin: {anything: 1}, enabled: [my-plugin]}",
            "memory: {provider: my-memory, my-memory: {anything: 1}}",
            "memory: {provider: 'hermes:my-memory', my-memory: {anything: 1}}",
            "webhook: {routes: {any-name: {secret: x, deliver_extra: {chat_id: 1}}}}",
            "telegram: {channel_prompts: {'-100': hello}, dm_topics: {'42': [{name: a}]}}",
            "lsp: {servers: {any: {command: x}}}",
            "auxiliary: {my_task: {model: x}}",
            "platforms: {matrix: {extra: {anything: 1}}, signal: {enabled: true}}",
            "matrix: {require_mention: true, allow_from: ['@a:b']}",
            "monitoring: {gateway_health_export: {resource_attributes: {service.name: x, team: y}}}",
            "terminal: {docker_env: {ANY: 1}}",
        ] {
            assert_eq!(texts(yaml), [""; 0], "{yaml}");
        }
    }

    #[test]
    fn what_its_reader_says_of_a_key_is_not_said_twice() {
        let warnings = |yaml: &str| crate::config::Config::parse(yaml, &|_| None).unwrap().warnings;
        for (yaml, path) in [
            ("memory: 5", "memory"),
            ("custom_providers: 5", "custom_providers"),
            ("mcp_servers: {a: 5}", "mcp_servers.a"),
        ] {
            let about =
                warnings(yaml).into_iter().filter(|notice| notice.text.starts_with(&format!("`{path}`")));
            assert_eq!(about.count(), 1, "{yaml}: {:?}", warnings(yaml));
        }
    }

    #[test]
    fn obsolete_keys_are_said_to_be_so() {
        for (yaml, part) in [
            ("max_turns: 3", "`max_turns` is obsolete: write it as `agent.max_turns`"),
            ("compression: {summary_model: x}", "auxiliary.compression.model"),
        ] {
            let texts = texts(yaml);
            assert!(texts.len() == 1 && texts[0].contains(part), "{yaml}: {texts:?}");
        }
    }

    #[test]
    fn letters_are_counted_once() {
        for (from, to, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("max_turn", "max_turns", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }
}
