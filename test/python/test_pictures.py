# SPDX-License-Identifier: MIT
"""Pictures in chats: a tiny vision-language model answers as transformers does, however a picture comes."""
import base64
import json

import numpy
import pytest
from conftest import ROOT

import oort

FOLDER = ROOT / "test/checkpoints"


@pytest.fixture(scope="module")
def seer():
    return oort.LanguageModel(FOLDER / "smolvlm", exact=True, threads=1)


@pytest.fixture(scope="module")
def answers():
    return json.loads((FOLDER / "smolvlm.json").read_text())["answers"]


def asked(image, question):
    return [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": question}]}]


def tokens(model, messages, **options):
    return model.chat(messages, max_tokens=10, ignore_end=True, **options).tokens


def pixels(path):
    """A PNG of 8 bits RGB without interlacing, as those of the tests are."""
    import struct
    import zlib

    data, at, body, size = path.read_bytes(), 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            size = struct.unpack(">II", chunk[:8])
            assert chunk[8:13] == bytes([8, 2, 0, 0, 0])
        body += chunk if kind == b"IDAT" else b""
    width, height = size
    rows = numpy.frombuffer(zlib.decompress(body), numpy.uint8).reshape(height, 1 + 3 * width)
    out = numpy.zeros((height + 1, 3 * width + 3), numpy.int64)
    for y, row in enumerate(rows.astype(numpy.int64)):
        for x in range(3 * width):
            left, up, corner = out[y + 1, x], out[y, x + 3], out[y, x]
            near = left + up - corner
            paeth = min((left, up, corner), key=lambda value: abs(near - value))
            out[y + 1, x + 3] = (row[1 + x] + (0, left, up, (left + up) // 2, paeth)[row[0]]) % 256
    return out[1:, 3:].reshape(height, width, 3).astype(numpy.uint8)


def test_paths_and_bytes(seer, answers):
    for item in answers:
        path = FOLDER / item["picture"]
        assert list(tokens(seer, asked(path, item["question"]))) == item["tokens"]
        assert list(tokens(seer, asked(str(path), item["question"]))) == item["tokens"]
        assert list(tokens(seer, asked(path.read_bytes(), item["question"]))) == item["tokens"]


def test_arrays(seer, answers):
    for item in answers:
        array = pixels(FOLDER / item["picture"])
        assert list(tokens(seer, asked(array, item["question"]))) == item["tokens"]
        strided = numpy.repeat(array, 2, axis=1)[:, ::2]
        assert list(tokens(seer, asked(strided, item["question"]))) == item["tokens"]
    gray = pixels(FOLDER / "vision_tall.png")[:, :, 0]
    flat = tokens(seer, asked(gray, "no"))
    assert flat == tokens(seer, asked(gray[:, :, None], "no")) == tokens(seer, asked(numpy.stack([gray] * 3, 2), "no"))


def test_urls_of_data(seer, answers):
    item = answers[0]
    url = "data:image/png;base64," + base64.b64encode((FOLDER / item["picture"]).read_bytes()).decode()
    for given in (url, {"url": url}):
        content = [{"type": "image_url", "image_url": given}, {"type": "text", "text": item["question"]}]
        assert list(tokens(seer, [{"role": "user", "content": content}])) == item["tokens"]


def test_streams_and_batches(seer, answers):
    started = [
        seer.chat(asked(FOLDER / item["picture"], item["question"]), max_tokens=10, ignore_end=True, stream=True)
        for item in answers
    ]
    assert [list(stream.result().tokens) for stream in started] == [item["tokens"] for item in answers]


def test_messages_stay_as_they_were(seer):
    messages = asked(FOLDER / "vision_tall.png", "no")
    copy = [dict(messages[0])]
    seer.chat(messages, max_tokens=1)
    assert messages == copy
    assert "<image>" in seer.format_chat(messages)


@pytest.mark.parametrize(
    "image, error",
    [
        (b"no picture", oort.InvalidModel),
        (numpy.zeros((4, 4, 4), numpy.uint8), oort.InvalidArgument),
        (numpy.zeros((4, 4), numpy.float32), oort.InvalidArgument),
        (numpy.zeros((0, 4), numpy.uint8), oort.InvalidArgument),
        (None, oort.InvalidArgument),
        ("there/is/none.png", FileNotFoundError),
    ],
)
def test_what_is_no_picture(seer, image, error):
    with pytest.raises(error):
        seer.chat(asked(image, "What?"), max_tokens=1)


def test_urls_that_would_be_fetched(seer):
    content = [{"type": "image_url", "image_url": "http://example.org/p.png"}, {"type": "text", "text": "What?"}]
    with pytest.raises(oort.InvalidArgument, match="nothing is fetched"):
        seer.chat([{"role": "user", "content": content}])


def test_a_model_of_text(storyteller):
    with pytest.raises(oort.Unsupported, match="text alone"):
        storyteller.chat(asked(FOLDER / "vision_tall.png", "What?"), max_tokens=1)
