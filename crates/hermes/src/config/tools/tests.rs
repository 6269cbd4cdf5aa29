use super::*;
use crate::config::Config;
use crate::toolset::Toolsets;

fn parse(yaml: &str) -> Config {
    parse_with(yaml, &[])
}

fn parse_with(yaml: &str, variables: &[(&str, &str)]) -> Config {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Config::parse(yaml, &variable).unwrap()
}

fn off(config: &Config) -> Vec<&'static str> {
    config.tools.switches.off.iter().map(|off| off.toolset).collect()
}

fn value<T: Clone>(given: &Option<Given<T>>) -> Option<T> {
    given.as_ref().map(|given| given.value.clone())
}

#[test]
fn what_was_not_written_is_absent() {
    let tools = parse("{}").tools;
    assert_eq!(tools.approvals, ApprovalSettings::default());
    assert_eq!(tools.terminal, TerminalSettings::default());
    assert_eq!(tools.skills, SkillSettings::default());
    assert_eq!(tools.switches, Switches::default());
    assert!(tools.servers.is_empty());
}

#[test]
fn the_settings_of_tools_are_read_as_written() {
    let config = parse(
        "approvals: {mode: smart, timeout: 30, cron_mode: Approve, deny: ['rm *', 'curl *']}\n\
         command_allowlist: [recursive delete, 'git push']\n\
         terminal: {backend: ssh, ssh_host: box, ssh_user: me, ssh_port: '2222', timeout: 5, env_passthrough: [A, B]}\n\
         skills: {external_dirs: ~/skills, disabled: [a], platform_disabled: {telegram: [b, c]}, inline_shell: yes}\n\
         memory: {memory_enabled: false, memory_char_limit: 100}\n\
         delegation: {max_iterations: 7, max_spawn_depth: 2, api_key: sk-secret}\n\
         agent: {clarify_timeout: 60}\n\
         tool_output: {max_bytes: 1000}\n\
         security: {redact_secrets: false}\n",
    );
    let [warning] = config.warnings.as_slice() else { panic!("{:?}", config.warnings) };
    assert!(
        warning.text.contains("file tools are off"),
        "files of this machine are not that box's: {warning:?}"
    );
    let tools = &config.tools;
    assert_eq!(value(&tools.approvals.mode), Some(ApprovalMode::Smart));
    assert_eq!(value(&tools.approvals.cron_approves), Some(true));
    assert_eq!(tools.approvals.deny, ["rm *", "curl *"]);
    assert_eq!(tools.approvals.allowlist, ["recursive delete", "git push"]);
    assert_eq!(value(&tools.terminal.backend), Some(Backend::Ssh));
    assert_eq!(value(&tools.terminal.ssh.port), Some(2222));
    assert_eq!(tools.terminal.env_passthrough, ["A", "B"]);
    assert_eq!(tools.skills.external_dirs, ["~/skills"]);
    assert_eq!(
        tools.skills.platform_disabled,
        [("telegram".to_owned(), vec!["b".to_owned(), "c".to_owned()])]
    );
    assert_eq!(value(&tools.skills.inline_shell), Some(true));
    assert_eq!(value(&tools.memory.memory_enabled), Some(false));
    assert_eq!(value(&tools.delegation.max_iterations), Some(7));
    assert_eq!(value(&tools.clarify_timeout), Some(60));
    assert_eq!(value(&tools.output.max_bytes), Some(1000));
    assert_eq!(value(&tools.security.redact_secrets), Some(false));
    assert_eq!(tools.approvals.timeout.as_ref().unwrap().by, By::File(Place { line: 1, column: 35 }));
    assert!(!format!("{tools:?}").contains("sk-secret"));
}

#[test]
fn the_words_for_how_commands_are_approved_are_hermes_own() {
    for (yaml, expected, warned) in [
        ("approvals: {mode: off}", Some(ApprovalMode::Off), false),
        ("approvals: {mode: 'off'}", Some(ApprovalMode::Off), false),
        ("approvals: {mode: on}", Some(ApprovalMode::Manual), false),
        ("approvals: {mode: SMART}", Some(ApprovalMode::Smart), false),
        ("approvals: {mode: ''}", None, false),
        ("approvals: {mode: auto}", Some(ApprovalMode::Manual), true),
        ("approvals: {mode: [off]}", Some(ApprovalMode::Manual), true),
        ("approvals: {mode: 0}", Some(ApprovalMode::Manual), true),
    ] {
        let config = parse(yaml);
        assert_eq!(value(&config.tools.approvals.mode), expected, "{yaml}");
        assert_eq!(!config.warnings.is_empty(), warned, "{yaml}: {:?}", config.warnings);
    }
}

#[test]
fn p31_a_setting_that_cannot_be_read_switches_its_toolset_off() {
    for (yaml, toolset, tool, elsewhere) in [
        ("approvals: {deny: {rm: 1}}", "terminal", "terminal", "read_file"),
        ("approvals: {deny: [[rm]]}", "terminal", "terminal", "read_file"),
        ("approvals: {timeout: soon}", "terminal", "process", "read_file"),
        ("approvals: always", "terminal", "terminal", "read_file"),
        ("terminal: {timeout: [1]}", "terminal", "terminal", "todo"),
        ("terminal: {env_passthrough: PATH}", "terminal", "terminal", "todo"),
        ("terminal: docker", "terminal", "terminal", "todo"),
        ("terminal: {backend: docker, docker_network: perhaps}", "terminal", "terminal", "todo"),
        ("terminal: {backend: [local]}", "terminal", "terminal", "todo"),
        ("skills: {disabled: {a: 1}}", "skills", "skill_view", "terminal"),
        ("skills: {platform_disabled: [a]}", "skills", "skill_view", "terminal"),
        ("skills: {inline_shell: perhaps}", "skills", "skill_view", "terminal"),
        ("memory: {memory_enabled: perhaps}", "memory", "memory", "terminal"),
        ("delegation: {max_spawn_depth: deep}", "delegation", "delegate_task", "terminal"),
        ("agent: {clarify_timeout: -1}", "clarify", "clarify", "terminal"),
    ] {
        let config = parse(yaml);
        let toolsets = Toolsets::for_platform(&config.tools.switches, "cli");
        assert!(off(&config).contains(&toolset), "{yaml}: {:?}", off(&config));
        assert!(!toolsets.allows(tool, toolset), "{yaml}");
        assert!(toolsets.allows(elsewhere, ""), "{yaml}: only what it is about");
        let part = format!("the toolset `{toolset}` is off until it is corrected");
        assert!(
            config.warnings.iter().any(|notice| notice.text.contains(&part)),
            "{yaml}: {:?}",
            config.warnings
        );
    }
}

#[test]
fn what_only_limits_output_is_not_worth_a_tool() {
    for yaml in ["tool_output: {max_bytes: many}", "command_allowlist: {a: 1}"] {
        let config = parse(yaml);
        assert!(off(&config).is_empty(), "{yaml}");
        assert_eq!(config.warnings.len(), 1, "{yaml}");
        assert!(config.tools.approvals.allowlist.is_empty());
    }
}

#[test]
fn p31_a_backend_that_is_not_there_is_not_replaced_by_the_machine_itself() {
    for (yaml, part) in [
        ("terminal: {backend: modal}", "`terminal.backend: modal` is not supported"),
        ("terminal: {env_type: daytona}", "`terminal.backend: daytona` is not supported"),
        ("terminal: {backend: ssh, ssh_host: box}", "needs `terminal.ssh_host` and `terminal.ssh_user`"),
    ] {
        let config = parse(yaml);
        assert!(
            config.warnings.iter().any(|notice| notice.text.contains(part)),
            "{yaml}: {:?}",
            config.warnings
        );
        let toolsets = Toolsets::for_platform(&config.tools.switches, "telegram");
        for (tool, toolset) in [("terminal", "terminal"), ("process", "terminal"), ("write_file", "file")] {
            assert!(!toolsets.allows(tool, toolset), "{yaml} {tool}");
        }
        assert!(toolsets.allows("todo", "todo"));
    }
    let by_variable = parse_with("{}", &[("TERMINAL_ENV", "singularity")]);
    assert!(off(&by_variable).contains(&"terminal"));
    assert!(
        off(&parse_with("terminal: {backend: local}", &[("TERMINAL_ENV", "modal")])).is_empty(),
        "the file wins"
    );
}

#[test]
fn what_another_backend_would_have_used_does_no_harm() {
    let config = parse("terminal: {backend: local, docker_volumes: text, container_cpu: many}");
    assert!(off(&config).is_empty(), "{:?}", off(&config));
    assert_eq!(config.warnings.len(), 2, "but it is pointed out");
}

#[test]
fn variables_speak_where_the_file_is_silent() {
    let variables = [
        ("TERMINAL_ENV", "docker"),
        ("TERMINAL_TIMEOUT", "9"),
        ("TERMINAL_DOCKER_VOLUMES", r#"["/a:/b", "/c:/d"]"#),
        ("TERMINAL_DOCKER_ENV", r#"{"TOKEN": "hidden", "N": 1}"#),
        ("TERMINAL_DOCKER_NETWORK", "false"),
        ("DELEGATION_MAX_CONCURRENT_CHILDREN", "5"),
    ];
    let config = parse_with("terminal: {timeout: 3}", &variables);
    let terminal = &config.tools.terminal;
    assert_eq!(terminal.backend, Some(Given { value: Backend::Docker, by: By::Variable("TERMINAL_ENV") }));
    assert_eq!(value(&terminal.timeout), Some(3));
    assert_eq!(terminal.docker.volumes, ["/a:/b", "/c:/d"]);
    assert_eq!(terminal.docker.env[0], ("TOKEN".to_owned(), Secret::new("hidden")));
    assert_eq!(value(&terminal.docker.network), Some(false));
    assert_eq!(value(&config.tools.delegation.max_concurrent_children), Some(5));
    assert_eq!(off(&config), ["file"], "files of this machine are not the container's");
    for wrong in ["not json", "[1, {}]", "{", "'"] {
        let config = parse_with("{}", &[("TERMINAL_ENV", "docker"), ("TERMINAL_DOCKER_VOLUMES", wrong)]);
        assert!(off(&config).contains(&"terminal"), "{wrong}");
        assert!(config.warnings[0].text.contains("TERMINAL_DOCKER_VOLUMES"), "{:?}", config.warnings);
    }
}

#[test]
fn mcp_servers_are_read_with_their_secrets_hidden() {
    let yaml = "mcp_servers:\n  github:\n    command: npx\n    args: [-y, server, 7]\n    env: {TOKEN: '${GH}', OTHER: '${env:GH}'}\n    \
                timeout: 20\n    tools: {include: [a, b], resources: false}\n  \
                remote:\n    url: https://x.example/${GH}\n    headers: {Authorization: 'Bearer ${GH}'}\n    transport: sse\n    ssl_verify: /ca.pem\n  \
                plain:\n    url: http://x.example\n    enabled: 'no'\n";
    let config = parse_with(yaml, &[("GH", "hidden")]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let [github, remote, plain] = config.tools.servers.as_slice() else {
        panic!("{:?}", config.tools.servers)
    };
    let secrets = |words: &[&str]| words.iter().map(|word| Secret::new(*word)).collect::<Vec<_>>();
    let Transport::Stdio { command, args, env, .. } = &github.transport else { panic!("{github:?}") };
    assert_eq!((command.as_str(), args), ("npx", &secrets(&["-y", "server", "7"])));
    assert_eq!(
        *env,
        [("TOKEN".to_owned(), Secret::new("hidden")), ("OTHER".to_owned(), Secret::new("hidden"))]
    );
    assert_eq!(
        (value(&github.timeout), github.include.len(), value(&github.resources)),
        (Some(20.0), 2, Some(false))
    );
    let Transport::Sse(address) = &remote.transport else { panic!("{remote:?}") };
    assert_eq!(address.url.expose(), "https://x.example/hidden");
    assert_eq!(address.headers[0].1.expose(), "Bearer hidden");
    assert_eq!((address.verify, address.authority.as_deref()), (None, Some("/ca.pem")));
    assert!(matches!(plain.transport, Transport::Http(_)) && !plain.enabled);
    assert_eq!(config.tools.switches.servers, ["github", "remote"]);
    assert!(!format!("{:?}", config.tools).contains("hidden"));
}

#[test]
fn how_to_log_in_to_a_server_is_read_as_hermes_reads_it() {
    let yaml = "mcp_servers:\n  far:\n    url: https://x.example/mcp\n    auth: OAuth\n    oauth: {client_id: id, client_secret: '${S}', \
                scope: read write, redirect_port: 8765, redirect_host: localhost, timeout: 60}\n  \
                any:\n    url: https://x.example/mcp\n    oauth: {redirect_port: 0}\n";
    let config = parse_with(yaml, &[("S", "hidden")]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let [far, any] = config.tools.servers.as_slice() else { panic!("{:?}", config.tools.servers) };
    let (Transport::Http(far), Transport::Http(any)) = (&far.transport, &any.transport) else {
        panic!("{far:?} {any:?}")
    };
    assert_eq!(far.auth.as_deref(), Some("oauth"));
    assert_eq!(
        far.oauth,
        McpOAuth {
            client_id: Some("id".into()),
            client_secret: Some(Secret::new("hidden")),
            scope: Some("read write".into()),
            redirect_host: Some("localhost".into()),
            redirect_port: Some(8765),
            timeout: Some(60.0),
            ..McpOAuth::default()
        }
    );
    assert_eq!(any.oauth, McpOAuth::default());
    assert!(!format!("{:?}", config.tools).contains("hidden"));
}

#[test]
fn p31_a_server_that_cannot_be_read_is_off_and_its_neighbours_are_not() {
    for yaml in [
        "{command: x, enabled: perhaps}",
        "{command: x, tools: {include: {a: 1}}}",
        "{command: x, tools: all}",
        "{command: [x]}",
        "{command: x, env: [A=1]}",
        "{url: http://x, headers: text}",
        "{command: x, timeout: long}",
        "{}",
        "text",
    ] {
        let config = parse(&format!("mcp_servers:\n  bad: {yaml}\n  good: {{command: x}}\n"));
        assert_eq!(config.tools.switches.servers, ["good"], "{yaml}");
        assert!(
            config.warnings.iter().any(|notice| notice.text.contains("off")),
            "{yaml}: {:?}",
            config.warnings
        );
    }
    let unset = parse("mcp_servers: {a: {command: '${NOBODY}'}}");
    assert_eq!(unset.tools.switches.servers, ["a"], "Hermes tries it as well");
    assert!(unset.warnings.iter().any(|notice| notice.text.contains("`${NOBODY}`, which is not set")));
}

#[test]
fn what_holds_is_shown_with_who_said_so_and_no_secret() {
    let yaml = "approvals: {mode: off}\nterminal: {backend: modal}\nplatform_toolsets: {telegram: [file, todo]}\n\
                agent: {disabled_toolsets: [memory]}\nmcp_servers: {a: {url: 'http://x?token=hidden'}}\n\
                delegation: {api_key: hidden, max_iterations: 3}\ncommand_allowlist: [git push, rm]\n";
    let rows = parse_with(yaml, &[("TERMINAL_TIMEOUT", "9")]).tools.rows();
    let shown = |name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.map(|row| {
            (
                row.value.clone(),
                row.by.map(|by| match by {
                    By::File(place) => place.line,
                    By::Variable(_) => 0,
                }),
            )
        })
    };
    let row = |value: &str, line: Option<usize>| Some((value.to_owned(), line));
    assert_eq!(shown("tools on telegram"), row("a, todo", Some(3)), "files are off with the backend");
    assert_eq!(shown("toolset terminal").unwrap().1, Some(2));
    assert!(
        shown("toolset terminal").unwrap().0.starts_with("off: `terminal.backend: modal` is not supported")
    );
    assert_eq!(shown("agent.disabled_toolsets"), row("memory", Some(4)));
    assert_eq!(shown("approvals.mode"), row("off", Some(1)));
    assert_eq!(shown("terminal.timeout"), row("9", Some(0)));
    assert_eq!(shown("mcp_servers.a"), row("on, http", Some(5)));
    assert_eq!(shown("command_allowlist"), row("git push, rm", Some(7)));
    assert_eq!(shown("delegation.max_iterations"), row("3", Some(6)));
    assert!(!format!("{rows:?}").contains("hidden"));
    assert!(shown("skills.disabled").is_none(), "what nobody wrote is a default, and not known here");
}
