"""The command palette: the same table of commands, found by any word of a name or its help."""

from __future__ import annotations

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from sinkchat.tui.commands import COMMANDS, Command
from sinkchat.tui.screens.chat import ChatScreen


class CommandProvider(Provider):
    async def discover(self) -> Hits:
        for command in COMMANDS:
            yield DiscoveryHit(_title(command), lambda command=command: self._do(command), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            score = matcher.match(f"{command.name} {command.help}")
            if score > 0:
                yield Hit(score, _title(command), lambda command=command: self._do(command), help=command.help)

    def _do(self, command: Command) -> None:
        screen = self.screen
        if isinstance(screen, ChatScreen):
            screen.pick(command)


def _title(command: Command) -> Content:
    hint = f" {command.hint}" if command.hint else ""
    key = f"  {command.key}" if command.key else ""
    return Content.assemble(f"/{command.name}", (hint + key, "$muted"))
