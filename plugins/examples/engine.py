#!/usr/bin/env python3
"""A context engine: the middle of a long conversation becomes one message, written by the user's own summariser.

The first exchange and the last ones stay as they are. Where the host offers no model, or it fails, what people asked
is listed instead: an engine that always answers is worth more than one that sometimes writes well.
"""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "python"))
import throughline_plugin as throughline  # noqa: E402  (in a plugin of yours it lies beside this file)

KEPT_FIRST, KEPT_LAST = 2, 6
MARK = "[Earlier in this conversation] "


class Digest(throughline.Engine):
    name = "digest"
    options = ("focus", "keep_last")

    def start(self):
        self.compressions = {}

    def should_compress(self, scope, usage, window):
        return usage["expected_tokens"] > 0.7 * window

    def has_content(self, scope, messages):
        first, last = self.borders(messages, KEPT_LAST)
        return first < last

    def compress(self, scope, messages, tokens, window, focus=None, keep_last=None):
        first, last = self.borders(messages, keep_last or KEPT_LAST)
        if first >= last:
            raise throughline.Nothing("The conversation is too short to compress.")
        text, remark = self.summary(messages[first:last], focus)
        session = scope["session"]
        self.compressions[session] = self.compressions.get(session, 0) + 1
        return messages[:first] + [{"role": "user", "content": MARK + text}] + messages[last:], remark

    def borders(self, messages, kept):
        """What lies between is replaced. It neither begins nor ends between a tool call and its result."""
        first, last = min(KEPT_FIRST, len(messages)), max(0, len(messages) - kept)
        while first < len(messages) and messages[first]["role"] == "tool":
            first += 1
        while last > first and messages[last : last + 1] and messages[last]["role"] == "tool":
            last -= 1
        return first, last

    def summary(self, messages, focus):
        spoken = [(message["role"], message["content"]) for message in messages if isinstance(message.get("content"), str)]
        prompt = "Summarise this conversation for the one who goes on with it. Keep names, numbers and decisions.\n"
        if focus:
            prompt += f"Above all keep what concerns: {focus}\n"
        try:
            transcript = "\n\n".join(f"{role}: {content}" for role, content in spoken)
            return self.plugin.ask_model(f"{prompt}\n{transcript}", max_tokens=1000), None
        except throughline.Failed as failure:
            asked = [content[:200] for role, content in spoken if role == "user"]
            return "People said:\n- " + "\n- ".join(asked), f"No model wrote this summary: {failure}"

    def status(self, scope):
        return f"{self.compressions.get(scope['session'], 0)} compressions since the start"


if __name__ == "__main__":
    throughline.Plugin("digest", version="1.0", engine=Digest()).serve()
