"""What is shown of a system prompt: its words, and none of the template's around them."""

from __future__ import annotations

from sinkchat import locations
from sinkchat.chat.document import document
from sinkchat.chat.journal import Journal
from sinkchat.chat.rendering import to_markdown
from sinkchat.chat.session import ChatSession
from sinkchat.tui.engine_thread import OpenSession
from sinkchat.tui.text.passage import Sight
from tests.fakes import SPECIAL, FakeEngine, FakeTemplate, words
from tests.tui.conftest import Chat, Play

OWN = "keep the light"


class Headed(FakeTemplate):
    """Writes `[sys] system keep the light [/sys] [user]`, where `system` is a token like any other."""

    def __init__(self) -> None:
        super().__init__()
        self.own_system = OWN

    def opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        head = (SPECIAL + 1, *words(f"system {OWN if system is None else system}"), SPECIAL + 2)
        return (*head, SPECIAL + 3, SPECIAL + 4), len(head)


def headed(engine: FakeEngine) -> OpenSession:
    return lambda _progress: ChatSession(
        engine, Headed(), Journal.create(locations.sessions_dir()), sampling=engine.sampling
    )


def test_a_templates_own_system_prompt_is_shown_in_its_words_and_recorded_in_its_tokens(play: Play) -> None:
    engine = FakeEngine()

    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        passage = chat.transcript.passages[0]
        assert (passage.label, passage.text) == ("system prompt", OWN)
        assert passage.tokens == 6
        # [sys], system and keep are sinks: of what is shown, only the last of them is.
        assert passage.kept(Sight(0, 3, 3)) == len("keep")
        assert f"> {OWN}\n" in to_markdown(chat.session.conversation)
        assert "> system" not in to_markdown(chat.session.conversation)
        message = document(chat.session.conversation)["messages"][0]
        assert message["text"] == OWN
        assert [token["id"] for token in message["tokens"]] == engine.fed[:6]
        assert "".join(token["text"] for token in message["tokens"]) == f"system {OWN}"

    play(scenario, engine, open_session=headed(engine))


def test_a_given_prompt_is_shown_in_its_words_however_often_they_stand_in_the_frame(play: Play) -> None:
    engine = FakeEngine()

    async def scenario(chat: Chat) -> None:
        await chat.send("/system s")
        await chat.say("hello")
        passage = next(passage for passage in chat.transcript.passages if passage.voice == "system")
        assert passage.text == "s"
        assert passage.kept(Sight(passage.sequence, 2, 2)) == 0
        assert passage.kept(Sight(passage.sequence, 3, 3)) == 1

    play(scenario, engine, open_session=headed(engine))
