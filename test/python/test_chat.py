# SPDX-License-Identifier: MIT
"""Chats with tools and reasoning: what answers consist of."""
import asyncio
import json

import pytest

import oort

HI = [{"role": "user", "content": "Hi"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"today": {"type": "boolean"}}, "required": ["today"]}}}  # fmt: skip
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}

# As models have it that know tools; with `think` an answer begins in the middle of reasoning.
TEMPLATE = (
    "{% if tools %}<tool_call>{% for tool in tools %} {{ tool.function.name }}{% endfor %}{% endif %}"
    "{% for message in messages %}{{ '|' + message.role + ':' + (message.content or '') }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '[' + call.function.name + (call.function.arguments | tojson) + ']' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}|assistant:{% if think %}<think>{% endif %}{% endif %}"
)


@pytest.fixture
def caller(storyteller_with):
    return storyteller_with(TEMPLATE)


def test_a_call_is_told_apart_and_goes_back(caller):
    answer = caller.chat(HI, tools=[WEATHER, NOW], tool_choice="weather", max_tokens=80)
    (call,) = answer.tool_calls
    assert call.name == "weather" and call.id and isinstance(call.arguments["today"], bool)
    assert answer.content == "" and "<tool_call>" in answer.text
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    text = caller.format_chat([*HI, answer.message(), result], tools=[WEATHER])
    assert f"[weather{json.dumps(call.arguments)}]|tool:sunny" in text


def test_a_choice_of_a_tool_is_kept_to(caller):
    named = {"type": "function", "function": {"name": "now"}}
    assert caller.chat(HI, tools=[WEATHER, NOW], tool_choice=named, max_tokens=80).tool_calls[0].name == "now"
    one = caller.chat(HI, tools=[NOW], tool_choice="required", parallel_tool_calls=False, max_tokens=200)
    assert [call.name for call in one.tool_calls] == ["now"]
    assert one.tool_calls[0].arguments == {}
    none = caller.chat(HI, tools=[NOW], tool_choice="none", max_tokens=8)
    assert none.text == caller.chat(HI, max_tokens=8).text and none.tool_calls == []
    for options, words in [
        ({"tool_choice": "required"}, "there are none"),
        ({"tools": [NOW], "tool_choice": "clock"}, "none of the tools"),
        ({"tools": [NOW], "tool_choice": {}}, "tool_choice"),
        ({"tools": [{"name": "now"}]}, "tools is a list"),
        ({"tools": [NOW], "tool_choice": "now", "regex": "a+"}, "no other form"),
    ]:
        with pytest.raises(oort.InvalidArgument, match=words):
            caller.chat(HI, **options)


def test_a_template_without_tools_gets_a_message(storyteller):
    text = storyteller.format_chat(HI, tools=[NOW])
    assert "<tools>" in text and '"name":"now"' in text
    assert storyteller.chat(HI, tools=[NOW], tool_choice="now", max_tokens=80).tool_calls[0].name == "now"
    with pytest.raises(oort.InvalidArgument, match="message 0"):
        storyteller.chat([{"role": "user", "content": 1}], tools=[NOW])


def test_calls_may_be_null(caller, storyteller):
    said = {"role": "assistant", "content": "Hello", "tool_calls": None}  # as clients of OpenAI's API write it
    assert "|assistant:Hello" in caller.format_chat([*HI, said])
    result = {"role": "tool", "tool_call_id": "1", "content": "sunny"}
    assert "|assistant:Hello|tool:sunny" in caller.format_chat([*HI, said, result], tools=[NOW])
    assert "Hello" in storyteller.format_chat([*HI, said, *HI], tools=[NOW])


def test_reasoning_is_told_apart(caller):
    begun = {"variables": {"think": True}, "max_tokens": 40, "ignore_end": True}
    answer = caller.chat(HI, **begun)
    assert answer.reasoning == answer.text.strip() and answer.content == ""  # it never ends here
    pieces = list(caller.chat(HI, stream=True, **begun))
    assert "".join(pieces) == answer.text
    assert "".join(piece.reasoning for piece in pieces) == answer.reasoning
    assert "".join(piece.content for piece in pieces) == ""
    # One that is held to a form begins with that.
    assert caller.chat(HI, choices=["day"], variables={"think": True}).content == "day"


def test_streams_tell_content_from_calls(caller):
    wanted = {"tools": [NOW], "tool_choice": "now", "max_tokens": 80}
    stream = caller.chat(HI, stream=True, **wanted)
    assert "".join(piece.content for piece in stream) == "" and stream.result().tool_calls[0].name == "now"
    assert stream.result().tool_calls[0].id == stream.result().message()["tool_calls"][0]["id"]

    async def awaited():
        return await caller.chat(HI, stream=True, **wanted)

    assert asyncio.run(awaited()).tool_calls[0].name == "now"
    plain = list(caller.chat(HI, stream=True, tools=[NOW], max_tokens=12))
    assert "".join(piece.content for piece in plain) == caller.chat(HI, tools=[NOW], max_tokens=12).content


def test_answers_that_are_no_chat_are_content(storyteller):
    answer = storyteller.generate("<think>no</think>", max_tokens=6)
    assert answer.content == answer.text and answer.reasoning == "" and answer.tool_calls == []
    piece = next(storyteller.generate("Once", max_tokens=2, stream=True))
    assert piece.content == piece and piece.reasoning == ""


def test_arguments_that_were_cut_off_say_so():
    assert oort.ToolCall("1", "now", '{"a": 1}').arguments == {"a": 1}
    with pytest.raises(ValueError):
        oort.ToolCall("1", "now", '{"a": ').arguments


def test_ranks_of_one_process_answer_as_one_does(storyteller):
    alone = storyteller.generate("A fox", max_tokens=8).text
    for split in ("exact", "pipeline"):  # these two have the bits of one rank
        pair = oort.LanguageModel("models/storyteller", threads=1, ranks=2, split=split, rank_deadline=60)
        assert pair.generate("A fox", max_tokens=8).text == alone
    for options, words in [
        ({"ranks": 1000000}, "ranks, not 1000000"),
        ({"ranks": "two"}, "ranks cannot be"),
        ({"ranks": 2, "split": "half"}, "split 'half'"),
        ({"ranks": 2, "exchange": "mpi"}, "exchange 'mpi'"),
        ({"ranks": 2, "rank_deadline": "soon"}, "rank_deadline cannot be"),
    ]:
        with pytest.raises(oort.Error, match=words):
            oort.LanguageModel("models/storyteller", threads=1, **options)
