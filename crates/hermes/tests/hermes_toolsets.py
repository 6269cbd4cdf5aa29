"""Asks Hermes Agent itself which tools are on, for many settings and platforms.

    python hermes_toolsets.py > toolsets-0.19.json    # with the Python of a Hermes 0.19 installation

Each case is a config.yaml, variables, and for each platform the toolsets and the tools that Hermes
resolves (an index into `answers`): through its own functions, up to the point where it would look at
installed programs and keys. `null` instead of an answer: Hermes raised an error.
"""

import json
import os
import sys
import tempfile

os.environ["HERMES_HOME"] = tempfile.mkdtemp()
for name in ("HASS_TOKEN", "XAI_API_KEY", "HERMES_KANBAN_TASK"):
    os.environ.pop(name, None)

import yaml  # noqa: E402
import model_tools  # noqa: E402
from cron.scheduler import _resolve_cron_disabled_toolsets, _resolve_cron_enabled_toolsets  # noqa: E402
from hermes_cli.tools_config import _get_platform_tools, enabled_mcp_server_names  # noqa: E402
from tools.registry import registry  # noqa: E402

PLATFORMS = ["cli", "telegram", "discord", "slack", "api_server", "cron", "webhook", "whatsapp_cloud",
             "feishu", "homeassistant", "sms", "irc", "acp", "nosuch"]

SERVERS = "mcp_servers: {github: {command: x}, files: {url: 'http://x'}, old: {command: x, enabled: false}}\n"

CASES = [
    "{}",
    SERVERS,
    # Lists of toolsets that can be ticked.
    "platform_toolsets: {cli: [web, file], telegram: [terminal], discord: [memory], slack: [skills, todo]}",
    "platform_toolsets: {api_server: [terminal, file, clarify], cron: [web, clarify, cronjob], webhook: [terminal]}",
    "platform_toolsets: {cli: [], telegram: [], api_server: [], cron: [], webhook: []}",
    "platform_toolsets: {cli: [spotify, homeassistant, video], telegram: [x_search]}",
    "platform_toolsets: {discord: [discord, discord_admin, web], telegram: [discord, web]}",
    # Bundles, alone and beside others.
    "platform_toolsets: {cli: [hermes-cli], telegram: [hermes-telegram], discord: [hermes-discord]}",
    "platform_toolsets: {cli: [hermes-telegram], api_server: [hermes-cli], webhook: [hermes-cli], cron: [hermes-cron]}",
    "platform_toolsets: {cli: [hermes-cli, spotify], discord: [hermes-discord, web], telegram: [hermes-discord, file]}",
    "platform_toolsets: {cli: [hermes-gateway], telegram: [hermes-acp], slack: [hermes-sms], feishu: [hermes-feishu]}",
    "platform_toolsets: {cli: [safe], telegram: [debugging], slack: [coding], api_server: [safe, todo]}",
    "platform_toolsets: {cli: [all], telegram: ['*'], api_server: [all, web], cron: [all]}",
    "platform_toolsets: {cli: [hermes-webhook], telegram: [hermes-webhook, memory], irc: [hermes-irc]}",
    # Older and unknown names.
    "platform_toolsets: {cli: [web_tools, file_tools], telegram: [terminal_tools, todo]}",
    "platform_toolsets: {cli: [hermes], telegram: [nosuch, web], slack: [Web], api_server: [12306, file]}",
    "platform_toolsets: {cli: [feishu_doc], feishu: [web], telegram: [kanban, project, yuanbao]}",
    # MCP servers.
    SERVERS + "platform_toolsets: {cli: [web, github], telegram: [web, no_mcp], slack: [no_mcp], api_server: [file]}",
    SERVERS + "platform_toolsets: {cli: [github], telegram: [old], slack: [github, no_mcp], api_server: [files, github]}",
    SERVERS + "platform_toolsets: {cli: [mcp-github], telegram: [mcp-github, no_mcp], cron: [github], discord: []}",
    SERVERS + "agent: {disabled_toolsets: [github]}",
    SERVERS + "agent: {disabled_toolsets: [mcp-github, web]}",
    "mcp_servers: {github: {command: x, enabled: 'no'}, files: {url: x, enabled: 0}}",
    # What is off everywhere.
    "agent: {disabled_toolsets: [memory]}",
    "agent: {disabled_toolsets: [terminal, file, code_execution]}",
    "agent: {disabled_toolsets: [web, browser]}",
    "agent: {disabled_toolsets: [hermes-telegram]}",
    "agent: {disabled_toolsets: [hermes-discord, coding]}\nplatform_toolsets: {discord: [hermes-discord]}",
    "agent: {disabled_toolsets: [hermes-gateway]}\nplatform_toolsets: {discord: [hermes-discord], feishu: [hermes-feishu]}",
    "agent: {disabled_toolsets: [safe]}",
    "agent: {disabled_toolsets: [debugging]}",
    "agent: {disabled_toolsets: [all]}",
    "agent: {disabled_toolsets: [skills_tools, nosuch]}",
    "agent: {disabled_toolsets: [terminal]}\nplatform_toolsets: {cli: [debugging], telegram: [hermes-acp], api_server: [debugging, todo]}",
    "agent: {disabled_toolsets: [memory, skills]}\nplatform_toolsets: {cli: [memory, skills, file], cron: [all]}",
    "agent: {disabled_toolsets: []}",
    "agent: {disabled_toolsets: }\nplatform_toolsets: {cli: , telegram: }",
    "agent: {disabled_toolsets: [clarify, delegation, session_search, todo, messaging]}",
    # Other keys around them.
    "toolsets: [web]",
    "context: {engine: lcm}",
    "context: {engine: lcm}\nplatform_toolsets: {cli: [], telegram: [web]}",
    # Not what Hermes expects.
    "platform_toolsets: {cli: web, telegram: {web: true}, slack: true}",
    "platform_toolsets: [web]",
    "platform_toolsets: web",
    "agent: {disabled_toolsets: memory}",
    "agent: {disabled_toolsets: {memory: true}}",
    "mcp_servers: [github]",
    "mcp_servers: {github: {command: x, enabled: perhaps}, files: text}",
]

VARIABLES = [({}, range(len(CASES))), ({"HASS_TOKEN": "x"}, [0, 2, 7, 9]), ({"XAI_API_KEY": "x"}, [0, 2, 4, 7])]

wanted = set()
answers = []


def index(found):
    """Most answers are given many times: they are kept once."""
    if found not in answers:
        answers.append(found)
    return answers.index(found)


def capture(names, **_):
    wanted.clear()
    wanted.update(names)
    return []


registry.get_definitions = capture


def register_servers(config):
    """As a connection would: the tools of a server, its toolset, and its name for it."""
    try:
        servers = enabled_mcp_server_names(config)
    except Exception:
        return
    for name in servers:
        tool = f"mcp__{name}__call"
        if tool not in registry._tools:
            registry.register(name=tool, toolset=f"mcp-{name}", schema={"name": tool}, handler=lambda args: "")
            registry.register_toolset_alias(name, f"mcp-{name}")


def forget_servers():
    for tool in [name for name in registry._tools if name.startswith("mcp__")]:
        registry.deregister(tool)
    registry._toolset_aliases.clear()


def answer(config, platform):
    try:
        disabled = (config.get("agent") or {}).get("disabled_toolsets") or None
        if platform == "cron":
            toolsets = _resolve_cron_enabled_toolsets({}, config)
            disabled = _resolve_cron_disabled_toolsets(config)
        else:
            toolsets = sorted(_get_platform_tools(config, platform))
        if platform == "api_server":
            disabled = None  # as its adapter does
        model_tools._compute_tool_definitions(toolsets, disabled, True, skip_tool_search_assembly=True)
        tools = sorted(tool for tool in wanted if tool in registry._tools)
        return {"toolsets": " ".join(toolsets or ()), "tools": " ".join(tools)}
    except Exception:
        return None


def case(text, variables):
    os.environ.update(variables)
    config = yaml.safe_load(text) or {}
    register_servers(config)
    found = {platform: index(answer(config, platform)) for platform in PLATFORMS}
    forget_servers()
    for name in variables:
        del os.environ[name]
    return {"config": text, "variables": variables, "platforms": found}


_get_platform_tools({}, "cli")  # loads what Hermes loads on demand
registered = {entry.name: entry.toolset for entry in registry._tools.values()}
cases = [case(CASES[i], variables) for variables, indexes in VARIABLES for i in indexes]
json.dump({"registered": registered, "answers": answers, "cases": cases}, sys.stdout, indent=0, sort_keys=True)
print()
