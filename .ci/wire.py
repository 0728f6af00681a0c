"""Checks captured requests against the types of the official SDKs: no unknown field, no wrong type.

    python3 .ci/wire.py FOLDER

FOLDER holds what fake model servers received, as CAIRN_CAPTURE has them write it: files of JSON lines, each with `wire` (chat,
responses, messages), `server` (whose the fake stands in for), `beta` (a header of that name) and `body`. Needs openai, anthropic
and pydantic; `.ci/soak wire` installs them. Exits 1 on a fault, 2 where there is nothing to check.
"""

import collections
import json
import pathlib
import sys
import typing
import warnings

import pydantic
import typing_extensions

# The SDKs declare lists as iterables, of which pydantic checks an element only when somebody takes it out.
typing.Iterable = typing.List
typing_extensions.Iterable = typing.List

import anthropic  # noqa: E402
import openai  # noqa: E402
from anthropic.types import message_create_params as messages  # noqa: E402
from anthropic.types.beta import message_create_params as beta_messages  # noqa: E402
from openai.types.chat import completion_create_params as chat  # noqa: E402
from openai.types.responses import response_create_params as responses  # noqa: E402

# The types of a request by its wire format, whole and streamed.
TYPES = {
    "chat": (chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming),
    "responses": (responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming),
    "messages": (messages.MessageCreateParamsNonStreaming, messages.MessageCreateParamsStreaming),
    "messages, beta": (
        beta_messages.MessageCreateParamsNonStreaming,
        beta_messages.MessageCreateParamsStreaming,
    ),
}

# What other servers document beside OpenAI's fields: the fields that are sent to them alone. A path is one of keys; `*` is any
# element of a list.
EXTENSIONS = {
    # Servers of chat completions that are none of OpenAI's: what the others here take, and what the configuration adds.
    "compatible": [
        ("messages", "*", "reasoning_content"),
        ("messages", "*", "reasoning_details"),
        ("messages", "*", "tool_calls", "*", "extra_content"),
        ("messages", "*", "extra_content"),
        ("top_k",),
        ("provider",),
    ],
    # https://api-docs.deepseek.com/guides/thinking_mode and https://platform.moonshot.ai/docs
    "deepseek": [("messages", "*", "reasoning_content")],
    "kimi": [("messages", "*", "reasoning_content")],
    # https://ai.google.dev/gemini-api/docs/openai
    "gemini": [("messages", "*", "tool_calls", "*", "extra_content"), ("messages", "*", "extra_content")],
}

# Faults of one request that are shown.
SHOWN = 6

# Some of the types take further fields by themselves.
warnings.simplefilter("ignore")


def forbid_unknown_fields():
    """Sets what pydantic is to make of the SDKs' types, before it looks at them."""
    # Pictures may be open files, too, of which pydantic knows nothing.
    config = pydantic.ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for kind in vars(module).values():
                if typing_extensions.is_typeddict(kind):
                    kind.__pydantic_config__ = config


def without(value, path):
    """The value without what stands at a path."""
    if isinstance(value, list) and path[0] == "*":
        return [without(item, path[1:]) for item in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = dict(value)
    if len(path) == 1:
        del rest[path[0]]
    else:
        rest[path[0]] = without(rest[path[0]], path[1:])
    return rest


def is_type(part):
    """Whether a part of a place names a type of a union, not a field."""
    return isinstance(part, str) and (part == "str" or part[:1].isupper() or "[" in part)


def faults(error):
    """What is wrong. Each type of a union says why it does not fit: told is what the one says that fits best."""
    by_type = collections.defaultdict(lambda: collections.defaultdict(list))
    for fault in error.errors():
        types = tuple(part for part in fault["loc"] if is_type(part))
        place = tuple(part for part in fault["loc"] if not is_type(part))
        by_type[place[:2]][types].append((place, fault["msg"], fault["type"] == "literal_error"))
    for of_place in by_type.values():
        # The fewest faults, none of them that it is of another kind, and the deepest.
        best = min(of_place, key=lambda types: (any(fault[2] for fault in of_place[types]), len(of_place[types]), -len(types)))
        for place, message, _ in of_place[best][:SHOWN]:
            yield f"{'.'.join(str(part) for part in place)}: {message}" + (f" ({best[-1]})" if best else "")


def fields(body):
    """Its fields, and the kinds of what it is made of, by which one sees what was checked."""
    yield from body
    for message in body.get("messages", []) + (body["input"] if isinstance(body.get("input"), list) else []):
        kind = message.get("role") or message.get("type")
        yield from (f"{kind}.{key}" for key in message if key not in ("role", "type"))
        for part in message["content"] if isinstance(message.get("content"), list) else []:
            yield f"{kind}:{part.get('type')}"
            yield from (f"{part.get('type')}.{key}" for key in part if key != "type")


def main(folder):
    forbid_unknown_fields()
    adapters = {
        (wire, streamed): pydantic.TypeAdapter(kind)
        for wire, kinds in TYPES.items()
        for streamed, kind in zip((False, True), kinds)
    }
    checked = collections.Counter()
    seen = collections.defaultdict(set)
    wrong = 0
    for file in sorted(pathlib.Path(folder).rglob("*.jsonl")):
        for n, line in enumerate(file.open(encoding="utf-8"), 1):
            request = json.loads(line)
            wire, server, body = request["wire"], request["server"], request["body"]
            wire += ", beta" if request.get("beta") else ""
            for path in EXTENSIONS.get(server, []):
                body = without(body, path)
            checked[wire, server] += 1
            seen[wire].update(fields(body))
            try:
                adapters[wire, body.get("stream") is True].validate_python(body)
            except pydantic.ValidationError as error:
                wrong += 1
                print(f"{file}:{n}: a request of {wire} to {server} is not what the SDK's types allow:")
                for fault in faults(error):
                    print(f"    {fault}")
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}, pydantic {pydantic.__version__}")
    for (wire, server), n in sorted(checked.items()):
        print(f"{wire:<16} {server:<12} {n:>7} requests")
    for wire, names in sorted(seen.items()):
        print(f"{wire}: {', '.join(sorted(names))}")
    if not checked:
        print(f"{folder} holds no captured requests", file=sys.stderr)
        return 2
    print(f"{wrong} of {sum(checked.values())} are wrong" if wrong else "all are as the SDKs' types allow")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
