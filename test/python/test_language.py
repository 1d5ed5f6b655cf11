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


def test_a_batch_may_be_larger_than_what_waits_elsewhere(storyteller):
    answers = storyteller.generate(["A"] * 3000, max_tokens=1)
    assert len(answers) == 3000 and all(len(answer.tokens) == 1 for answer in answers)


def test_a_batch_in_parts_keeps_its_order(storyteller, monkeypatch):
    prompts = [PROMPT, "There was a cat", "A small bird", "In the forest", "A fox"]
    expected = [storyteller.generate(prompt, max_tokens=6).text for prompt in prompts]
    monkeypatch.setattr(oort._language, "_MOST_UNDER_WAY", 2)
    assert [answer.text for answer in storyteller.generate(prompts, max_tokens=6)] == expected
    assert [a.finish for a in storyteller.generate(prompts, max_tokens=6, timeout=0.0)] == ["deadline"] * 5


def test_who_bounds_the_queue_gets_its_limit():
    model = oort.LanguageModel("models/storyteller", threads=1, most_running=1, most_waiting=2)
    assert len(model.generate(["A"] * 20, max_tokens=2)) == 20  # a batch waits for its own
    started = []
    with pytest.raises(oort.Limit):
        for _ in range(400):
            started.append(model.generate("A", max_tokens=400, ignore_end=True, stream=True))
    for stream in started:
        stream.cancel()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"threads": "many"}, "threads cannot be 'many'"),
        ({"memory_limit": -1}, "memory_limit cannot be -1"),
        ({"kv": 5}, "kv cannot be 5"),
        ({"exact": "yes"}, "exact cannot be 'yes'"),
        ({"weights": 8}, "weights cannot be 8"),
        ({"adapters": 5}, "adapters is a dictionary, not int"),
        ({"progress": 5}, "progress cannot be 5"),
        ({"draft": "both"}, "draft 'both' is not"),
        ({"draft": "model"}, "go together"),
        ({"draft": "ngram", "draft_model": "models/storyteller"}, "go together"),
        ({"draft": "heads"}, "go together"),
        ({"draft": "ngram", "draft_heads": "models/storyteller/heads"}, "go together"),
        ({"swap_bytes": -1}, "swap_bytes cannot be -1"),
    ],
)
def test_options_of_other_types_are_refused_by_name(options, words):
    with pytest.raises(oort.InvalidArgument, match=words):
        oort.LanguageModel("models/storyteller", **options)


def test_none_is_the_default(storyteller):
    model = oort.LanguageModel(
        "models/storyteller", device=None, weights=None, group=None, exact=None, threads=None, cache_tokens=None,
        kv=None, memory_limit=None, deterministic=None, adapters=None,
    )  # fmt: skip
    options = ("max_tokens", "temperature", "top_k", "top_p", "seed", "stop", "stop_tokens", "n", "beams", "adapter")
    answer = model.generate(PROMPT, **{**dict.fromkeys(options), "max_tokens": 6})
    assert answer.text == storyteller.generate(PROMPT, max_tokens=6).text
    with pytest.raises(oort.InvalidArgument, match="threads cannot be 'x'"):
        oort.Embedder("test/encoders/tiny_bert", threads="x")
    with pytest.raises(oort.InvalidArgument, match="max_tokens cannot be 'x'"):
        oort.Reranker("test/encoders/bert_reranker", max_tokens="x")
    none = dict.fromkeys(("max_tokens", "threads", "precision", "device"))
    assert oort.Embedder("test/encoders/tiny_bert", pooling=None, normalize=None, **none).max_tokens == 24
    assert oort.Reranker("test/encoders/bert_reranker", raw_scores=None, **none).max_tokens == 40


@pytest.mark.parametrize(
    "request_, words",
    [
        ({"stop": 5}, "stop is a list, not int"),
        ({"stop": ["a", 5]}, "stop\\[1\\] cannot be 5"),
        ({"stop_tokens": ["x"]}, "stop_tokens\\[0\\] cannot be 'x'"),
        ({"choices": [1]}, "choices\\[0\\] cannot be 1"),
        ({"regex": 5}, "regex cannot be 5"),
        ({"logit_bias": 5}, "logit_bias is a dictionary, not int"),
        ({"logit_bias": {"x": 1.0}}, "logit_bias\\[0\\] cannot be"),
        ({"early_stopping": "soon"}, "early_stopping cannot be 'soon'"),
        ({"timeout": "soon"}, "timeout cannot be 'soon'"),
        ({"cache_salt": 5}, "cache_salt cannot be 5"),
    ],
)
def test_requests_of_other_types_are_refused_by_name(storyteller, request_, words):
    with pytest.raises(oort.InvalidArgument, match=words):
        storyteller.generate(PROMPT, **request_)


def test_prompts_are_texts_and_tokens_of_any_kind(storyteller):
    tokens = storyteller.tokenizer.encode(PROMPT)
    expected = storyteller.generate(tokens, max_tokens=6).text
    for prompt in (numpy.array(tokens), tuple(tokens), list(numpy.array(tokens)), (token for token in tokens)):
        assert storyteller.generate(prompt, max_tokens=6).text == expected
    for batch in (numpy.array([tokens, tokens]), [numpy.array(tokens), PROMPT], (p for p in [PROMPT, tokens])):
        assert [answer.text for answer in storyteller.generate(batch, max_tokens=6)] == [expected] * 2
    for wrong in (5, None, b"text", 2.5):
        with pytest.raises(oort.InvalidArgument, match="prompt is a text, tokens, or a list of these"):
            storyteller.generate(wrong)
        with pytest.raises(oort.InvalidArgument, match="prompt"):
            storyteller.generate([PROMPT, wrong])
    with pytest.raises(oort.InvalidArgument, match="for chat"):
        storyteller.generate(FOX[0])
    with pytest.raises(oort.InvalidArgument, match="prompt\\[1000\\] cannot be 'x'") as error:
        storyteller.generate([5] * 1000 + ["x"])
    assert len(str(error.value)) < 100


def test_encoders_refuse_what_says_how_to_answer():
    with pytest.raises(oort.InvalidArgument, match="there is no weights, kv, most_running: it takes device"):
        oort.LanguageModel("test/encoders/tiny_bert", weights="int8", kv="f16", most_running=4, threads=1)
    assert oort.LanguageModel("test/encoders/tiny_bert", weights=None, kv="", threads=1).embed("A fox").shape == (32,)


def test_beams_have_lengths_and_ends(storyteller):
    options = {"max_tokens": 6, "ignore_end": True, "beams": 3}
    plain = storyteller.generate(PROMPT, length_penalty=0.0, **options)
    divided = storyteller.generate(PROMPT, length_penalty=1.0, **options)
    assert plain.tokens == divided.tokens and plain.score < divided.score < 0
    for early in (True, False, "never", None):
        assert len(storyteller.generate(PROMPT, early_stopping=early, **options).tokens) == 6


def test_prompts_are_shared_with_the_same_salt_alone(storyteller):
    prompt = "The salt of the sea and the pepper of the land. " * 8
    assert len(storyteller.tokenizer.encode(prompt)) > 32
    salts = ("a", "a", "b")
    reused = [storyteller.generate(prompt, max_tokens=1, cache_salt=salt).reused_tokens for salt in salts]
    assert reused[0] == reused[2] == 0 and reused[1] >= 16


def test_prompts_are_read_in_chunks_of_the_callers():
    model = oort.LanguageModel(
        "models/storyteller", threads=1, prompt_chunk=8, step_tokens=64, step_seconds=0, reserve_cache=True,
        swap_bytes=0, most_waiting_tokens=100000,
    )  # fmt: skip
    tokens = model.tokenizer.encode("The fox and the cat and the bird and the frog went into the forest. " * 4)
    before = model.stats()["steps"]
    assert len(model.generate(tokens, max_tokens=1).tokens) == 1
    assert model.stats()["steps"] - before >= len(tokens) // 8


def test_guesses_change_no_answer(storyteller):
    expected = storyteller.generate(PROMPT, max_tokens=24).text
    for options in (
        {"draft": "ngram"},
        {"draft_model": "models/storyteller", "draft_tokens": 2},
        {"draft_heads": "models/storyteller/heads", "draft_tokens": 2},
    ):
        model = oort.LanguageModel("models/storyteller", threads=1, **options)
        assert model.generate(PROMPT, max_tokens=24).text == expected
        assert model.generate(PROMPT, max_tokens=24, most_draft_tokens=1).text == expected
