# SPDX-License-Identifier: MIT
"""What a program says with all of the package, for mypy alone: nothing runs it. Each value is used as what it is."""
from typing import Any, Dict, List, Optional, Tuple, Type

import numpy

import oort


def networks(picture: "numpy.ndarray[Any, Any]") -> float:
    net: oort.Network = oort.load("models/digits", threads=1)
    port: oort.Port = net.inputs[0]
    name: str = port.name
    shape: Optional[Tuple[Optional[int], ...]] = port.shape
    scores = net(picture)
    net.run_into([picture], [scores])
    named: Dict[str, Any] = net.run({name: picture})
    info: oort.Info = net.info(picture)
    report: oort.QuantizeReport = oort.quantize("models/digits", "digits.int8.pnnx.param", [picture])
    profile: oort.Profile = oort.profile(net, picture)
    traced: oort.Network = oort.from_torch(object(), picture)
    print(shape, named, info["memory"], report["param"], profile.operators, traced.device, oort.devices(), oort.isas())
    return profile.seconds


class Twice:
    def __init__(self, params: Dict[str, Any], weights: Dict[str, Any]):
        self.factor = params.get("factor", 2)

    def infer(self, x: oort.Meta) -> oort.Meta:
        return x

    def forward(self, x: Any) -> Any:
        return x * self.factor


def models() -> str:
    model = oort.LanguageModel("models/storyteller", ranks=2, split="exact", draft="ngram")
    tokens: List[int] = model.tokenizer.encode("A fox")
    result: oort.Result = model.generate(tokens, max_tokens=4)
    timings: oort.Timings = result.timings
    seconds: float = timings.first_token
    stream: oort.Stream = model.chat([{"role": "user", "content": "Hi"}], tools=[{}], tool_choice="auto", stream=True)
    text = ""
    for piece in stream:
        place: oort.Piece = piece
        text += place.content + place.reasoning
    calls: List[oort.ToolCall] = stream.result().tool_calls
    arguments: Dict[str, Any] = calls[0].arguments
    print(seconds, arguments, stream.result().message()["content"], model.info()["context"], model.stats()["running"])
    return text


async def task(model: oort.LanguageModel) -> oort.Result:
    stream: oort.Stream = model.generate("A fox", stream=True)
    async for piece in stream:
        print(piece.token)
    return await stream


def encoders() -> float:
    vectors = oort.Embedder("test/encoders/mpnet").embed(["a fox", "a cat"])
    place, score = oort.Reranker("test/encoders/bert_reranker").rank("how far", ["it is far"], top=1)[0]
    whole: int = place
    tokenizer: oort.Tokenizer = oort.Tokenizer("models/storyteller")
    end: Optional[int] = tokenizer.eos
    print(vectors.shape, whole, end)
    return score


def failures() -> List[Type[oort.Error]]:
    oort.register("my.Twice", Twice)
    try:
        oort.load("missing.pnnx.param")
    except oort.NotFound as error:
        problems: List[oort.Problem] = list(error.problems)
        code: str = error.code
        print(code, problems[0].message)
    return [
        oort.Cancelled, oort.DeviceError, oort.InternalError, oort.InvalidArgument, oort.InvalidModel, oort.IoError,
        oort.Limit, oort.OutOfMemory, oort.Unsupported,
    ]  # fmt: skip
