# SPDX-License-Identifier: MIT
"""Language models: answers, streams, batches, tasks, forms."""
import asyncio
import json
import math
import pathlib
import threading

import numpy
import pytest

import oort

PROMPT = "Once upon a time"
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]


def test_an_answer_and_its_stream_are_the_same(storyteller):
    answer = storyteller.generate(PROMPT, max_tokens=24)
    pieces = list(storyteller.generate(PROMPT, max_tokens=24, stream=True))
    assert "".join(pieces) == answer.text == str(answer)
    assert [piece.token for piece in pieces if piece.token >= 0] == answer.tokens and len(answer.tokens) == 24
    assert answer.finish == "length" and answer.timings.first_token > 0


def test_chat_is_the_template_and_generate(storyteller):
    text = storyteller.format_chat(FOX)
    tokens = storyteller.tokenizer.encode(text, add_special=False)
    assert storyteller.chat(FOX, max_tokens=12).text == storyteller.generate(tokens, max_tokens=12).text
    assert "fox" in storyteller.chat(FOX).text
    with pytest.raises(oort.InvalidArgument, match="messages is a list"):
        storyteller.chat("hello")
    with pytest.raises(oort.InvalidArgument, match="for chat"):
        storyteller.generate(FOX)


def test_a_batch_is_what_each_would_be_alone(storyteller):
    prompts = [PROMPT, "There was a cat", "A small bird", "In the forest"]
    batch = storyteller.generate(prompts, max_tokens=10)
    assert [answer.text for answer in batch] == [storyteller.generate(p, max_tokens=10).text for p in prompts]


def test_tasks_share_one_engine(storyteller):
    async def one(i):
        pieces = []
        stream = storyteller.generate(PROMPT, max_tokens=12, temperature=1.0, seed=i, stream=True)
        async for piece in stream:
            pieces.append(piece)
        return "".join(pieces)

    async def all_of_them():
        return await asyncio.gather(*(one(i) for i in range(40)))

    before = storyteller.stats()
    texts = asyncio.run(all_of_them())
    after = storyteller.stats()
    alone = [storyteller.generate(PROMPT, max_tokens=12, temperature=1.0, seed=i).text for i in range(40)]
    assert texts == alone and len(set(texts)) > 1
    assert after["steps"] - before["steps"] < 12 * 40 / 2  # they ran together

    async def awaited():
        return await storyteller.generate(PROMPT, max_tokens=5, stream=True)

    assert len(asyncio.run(awaited()).tokens) == 5


def test_a_cancelled_task_ends_its_request(storyteller):
    async def leave_early():
        stream = storyteller.generate(PROMPT, max_tokens=400, ignore_end=True, stream=True)

        async def read():
            async for _ in stream:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream.result()

    assert asyncio.run(leave_early()).finish == "cancelled"


def test_threads_stream_at_once(storyteller):
    expected = storyteller.generate(PROMPT, max_tokens=16).text
    wrong = []

    def work():
        if "".join(storyteller.generate(PROMPT, max_tokens=16, stream=True)) != expected:
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pieces_that_come_fast_come_together_and_none_is_lost(storyteller):
    expected = storyteller.generate(PROMPT, max_tokens=200, ignore_end=True).tokens
    stream = storyteller.generate(PROMPT, max_tokens=200, ignore_end=True, stream=True)._stream
    assert stream.rest() == 0  # of a stream that brought nothing yet, the first piece wakes
    tokens = []
    while (taken := stream.take(-1.0)) is not None:
        tokens += [token for _, token, *_ in taken if token >= 0]
        if len(tokens) % 3 == 0:
            stream.rest()
            assert stream.rest() == 0  # once for what came, lest the next piece waits twice
    assert tokens == expected and stream.rest() == 0


def test_a_stream_can_be_left(storyteller):
    with storyteller.generate(PROMPT, max_tokens=400, ignore_end=True, stream=True) as stream:
        assert next(stream)
    result = stream.result()
    assert result.finish == "cancelled" and len(result.tokens) < 400


def test_log_probabilities(storyteller):
    answer = storyteller.generate(PROMPT, max_tokens=4, logprobs=3, prompt_logprobs=1)
    assert len(answer.logprobs) == 4 and all(len(top) == 3 for top in answer.top_logprobs)
    for token, logprob, top in zip(answer.tokens, answer.logprobs, answer.top_logprobs):
        assert top[0] == (token, logprob) and math.exp(logprob) <= 1
    assert len(answer.prompt_logprobs) == len(storyteller.tokenizer.encode(PROMPT)) - 1
    piece = next(storyteller.generate(PROMPT, max_tokens=1, logprobs=2, stream=True))
    assert piece.logprob == answer.logprobs[0] and len(piece.top_logprobs) == 2
    assert next(storyteller.generate(PROMPT, max_tokens=1, stream=True)).logprob is None


def test_answers_keep_to_forms(storyteller):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema["additionalProperties"] = False
    assert isinstance(storyteller.generate("x", json_schema=schema, max_tokens=60).json()["n"], int)
    assert storyteller.generate("x", choices=["fox", "cat"]).text in ("fox", "cat")
    assert storyteller.generate("x", regex="[ab]{3}").text in {a + b + c for a in "ab" for b in "ab" for c in "ab"}
    with pytest.raises(oort.InvalidArgument, match="one of json"):
        storyteller.generate("x", json=True, regex="a")
    with pytest.raises(oort.InvalidArgument):
        storyteller.generate("x", regex="(")


def test_several_answers_stops_and_limits(storyteller):
    answer = storyteller.generate(PROMPT, max_tokens=8, temperature=1.0, n=3, seed=5)
    assert len(answer.others) == 2
    full = storyteller.generate(PROMPT, max_tokens=30).text
    word = full.split()[3]
    stopped = storyteller.generate(PROMPT, max_tokens=30, stop=word)
    assert stopped.finish == "stop" and stopped.stop == word and word not in stopped.text
    assert storyteller.generate(PROMPT, timeout=0.0).finish == "deadline"
    for wrong in ({"temperature": -1}, {"top_p": 2}, {"n": 0}, {"max_tokens": "many"}, {"adapter": "none"}):
        with pytest.raises(oort.InvalidArgument):
            storyteller.generate(PROMPT, **wrong)
    with pytest.raises(oort.Error):
        storyteller.generate([10**6])
    with pytest.raises(oort.Error):
        storyteller.generate([5] * 5000)
    assert storyteller.generate(PROMPT, max_tokens=2).finish == "length"  # it goes on behind all that


def test_tokenizer(storyteller):
    tokenizer = oort.Tokenizer("models/storyteller")
    tokens = tokenizer.encode("The fox runs. ü 🦊")
    assert tokens == storyteller.tokenizer.encode("The fox runs. ü 🦊")
    assert tokenizer.decode(tokens) == "The fox runs. ü 🦊" and len(tokenizer) == storyteller.info()["vocabulary"]
    assert tokenizer.id_of(tokenizer.piece(tokens[-1])) == tokens[-1]


def test_encoders_embed():
    known = json.loads(pathlib.Path("test/encoders/tiny_bert/answers.json").read_text(encoding="utf-8"))
    encoder = oort.LanguageModel("test/encoders/tiny_bert", threads=1)
    one, two = encoder.embed(["The fox runs.", "A longer text about a cat and a bird."])
    assert numpy.allclose(encoder.embed("The fox runs."), one, atol=1e-5)
    assert numpy.isclose(numpy.linalg.norm(two), 1, atol=1e-5)
    for pooling in ("mean", "cls"):
        embedder = oort.Embedder("test/encoders/tiny_bert", pooling=pooling, normalize=False)
        vectors = embedder.embed([entry["text"] for entry in known])
        assert numpy.allclose(vectors, [entry[pooling] for entry in known], atol=1e-4)
    assert embedder.dimensions == len(one) and embedder.tokenizer().encode(known[0]["text"]) == known[0]["ids"]
    assert oort.Embedder("test/encoders/tiny_bert", max_tokens=4).max_tokens == 4
    with pytest.raises(oort.Unsupported, match="encoder"):
        encoder.generate("x")


def test_rerankers_score():
    known = json.loads(pathlib.Path("test/encoders/xlm_roberta_reranker/answers.json").read_text(encoding="utf-8"))
    query = known[0]["query"]
    pairs = [entry for entry in known if entry["query"] == query]
    texts = [entry["document"] for entry in pairs]
    reranker = oort.Reranker("test/encoders/xlm_roberta_reranker", threads=1)
    scores = reranker.score(query, texts)
    assert numpy.allclose(scores, [entry["score"] for entry in pairs], atol=1e-4)
    best = reranker.rank(query, texts, top=2)
    assert len(best) == 2 and best[0] == (int(numpy.argmax(scores)), max(scores)) and best[0][1] >= best[1][1]
    raw = oort.Reranker("test/encoders/xlm_roberta_reranker", raw_scores=True, max_tokens=40, threads=1)
    assert numpy.allclose(raw.score(query, texts), [entry["logit"] for entry in pairs], atol=1e-4)
    assert raw.max_tokens == 40 and raw.score(query, []) == [] and len(raw.tokenizer()) > 0
    with pytest.raises(oort.Unsupported, match="reranker"):
        oort.Reranker("test/encoders/tiny_bert")


def test_folders_of_hugging_face_embed():
    known = json.loads(pathlib.Path("test/encoders/mpnet/answers.json").read_text(encoding="utf-8"))
    embedder = oort.Embedder("test/encoders/mpnet", normalize=False, threads=1)
    vectors = embedder.embed([entry["text"] for entry in known])
    assert numpy.allclose(vectors, [entry["mean"] for entry in known], atol=1e-4)


def test_decoders_do_not_embed(storyteller):
    with pytest.raises(oort.Unsupported, match="encoder"):
        storyteller.embed(["a"])
    with pytest.raises(oort.NotFound):
        oort.LanguageModel("no/such/model")


def test_a_stream_goes_on_where_it_was_left(storyteller):
    whole = storyteller.generate(PROMPT, max_tokens=8)
    stream = storyteller.generate(PROMPT, max_tokens=8, stream=True)
    pieces = [next(stream)]
    for piece in stream:
        pieces.append(piece)
        break
    pieces += stream
    assert "".join(pieces) == whole.text and not list(stream)
    assert [piece.token for piece in pieces if piece.token >= 0] == whole.tokens


def test_a_piece_knows_its_token_wherever_it_goes():
    import pickle

    piece = pickle.loads(pickle.dumps(oort.Piece("fox", 7, -0.5, [(7, -0.5)], 1)))
    assert (piece, piece.token, piece.logprob, piece.top_logprobs, piece.answer) == ("fox", 7, -0.5, [(7, -0.5)], 1)
    assert (oort.Piece("fox").token, oort.Piece("fox").answer) == (-1, 0)
