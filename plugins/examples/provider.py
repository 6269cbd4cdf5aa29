#!/usr/bin/env python3
"""A memory provider: every turn in one SQLite table, found again by its words.

A turn's key is its primary key, so a turn that is handed over twice stands there once. What people said is theirs:
a recall finds what was said in the same chat, or to the same user, and nothing else.
"""

import os
import re
import sqlite3
import sys
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk", "python"))
import throughline_plugin as throughline  # noqa: E402  (in a plugin of yours it lies beside this file)


class Diary(throughline.Provider):
    name = "diary"
    prompt = "A diary of earlier conversations is searched before you answer. Use diary_search to look further."

    def __init__(self):
        words = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
        self.tools = [throughline.Tool("diary_search", "Searches earlier turns.", words, self.search, repeatable=True)]
        self.guard = threading.Lock()

    def start(self):
        path = os.path.join(self.plugin.directory, "diary.db")
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS turn (key TEXT PRIMARY KEY, owner TEXT, at REAL, said TEXT, replied TEXT)"
        )

    def retain(self, turn):
        said = "\n".join(turn["said"])
        row = (turn["key"], owner(turn["scope"]), turn["at"], said, turn["replied"])
        with self.guard:
            # On the disk when this returns: what is answered is kept.
            self.database.execute("INSERT INTO turn VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING", row)

    def recall(self, scope, query):
        found = self.find(scope, query, limit=5)
        return "From earlier conversations:\n" + "\n".join(found) if found else ""

    def search(self, scope, words):
        return "\n".join(self.find(scope, words, limit=20)) or "Nothing was found."

    def find(self, scope, query, limit):
        words = {word for word in re.findall(r"\w{3,}", query.lower())}
        with self.guard:
            rows = self.database.execute(
                "SELECT said, replied FROM turn WHERE owner = ? ORDER BY at DESC LIMIT 2000", (owner(scope),)
            ).fetchall()
        scored = [(len(words & set(re.findall(r"\w{3,}", f"{said} {replied}".lower()))), said, replied) for said, replied in rows]
        best = sorted((row for row in scored if row[0]), key=lambda row: -row[0])[:limit]
        return [f"- they said: {said} / you answered: {replied}" for _, said, replied in best]


def owner(scope):
    return f"{scope.get('platform', '')}:{scope.get('user') or scope.get('chat_key') or scope['session']}"


if __name__ == "__main__":
    throughline.Plugin("diary", version="1.0", provider=Diary()).serve()
