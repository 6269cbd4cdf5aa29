"""What Hermes' own status module makes of a home: who runs it, and how far that one is."""

import json
import os
import sys
from pathlib import Path

told = json.load(sys.stdin)
home = Path(os.environ["HERMES_HOME"])

from gateway import status  # noqa: E402

state = status.read_runtime_status() or {}
channels = None
try:
    channels = json.loads((home / "channel_directory.json").read_text())
except FileNotFoundError:
    pass
answer = {
    "running_pid": status.get_running_pid(cleanup_stale=False),
    "state": state,
    "channels": channels,
}
if hasattr(status, "get_runtime_status_running_pid"):
    answer["pid_by_state"] = status.get_runtime_status_running_pid(state)
    answer["busy"] = status.derive_gateway_busy(
        gateway_running=True,
        gateway_state=state.get("gateway_state"),
        active_agents=state.get("active_agents"),
    )
if told.get("lock"):
    acquired, _ = status.acquire_scoped_lock(*told["lock"])
    answer["acquired"] = acquired
print(json.dumps(answer))
