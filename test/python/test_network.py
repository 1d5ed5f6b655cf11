# SPDX-License-Identifier: MIT
"""Networks: calls, memory, names, options, errors."""
import pathlib
import sys
import threading

import numpy
import pytest
from conftest import chain

import oort

SUM = chain(["pnnx.Expression sum 2 1 a b c expr=add(@0,@1)"], inputs="ab")


def address(array):
    return array.__array_interface__["data"][0]


class Look:
    """Notes where the memory of its input is."""

    seen: list = []

    def __init__(self, params, weights):
        pass

    def forward(self, x):
        Look.seen.append((address(x), x.flags.writeable))
        return x + 1


def test_a_call_gives_what_the_file_promises(digits):
    case = pathlib.Path("models/digits/case")
    inputs = numpy.load(case / "in0.npy")
    assert numpy.allclose(digits(inputs), numpy.load(case / "out0.npy"), atol=1e-4)


def test_inputs_and_results_are_not_copied():
    oort.register("test.Look", Look)
    net = oort.load(chain(["test.Look look 1 1 a b"]))
    x = numpy.arange(4, dtype=numpy.float32)
    result = net(x)
    assert Look.seen == [(address(x), False)]
    assert result.tolist() == [1, 2, 3, 4] and result.flags.writeable and not result.flags.owndata
    kept = numpy.from_dlpack(result)
    assert address(kept) == address(result)
    del result, net
    assert kept.tolist() == [1, 2, 3, 4]


def test_results_are_never_the_input_itself():
    net = oort.load(chain(["torch.flatten f 1 1 a b start_dim=0 end_dim=-1"]))
    x = numpy.ones(4, numpy.float32)
    result = net(x)
    x[:] = 2
    assert result.tolist() == [1, 1, 1, 1]


def test_arrays_that_are_not_dense_are_copied(digits, picture):
    wide = numpy.zeros((1, 1, 28, 56), numpy.float32)
    wide[..., ::2] = picture
    assert numpy.array_equal(digits(wide[..., ::2]), digits(picture))
    bytes_ = bytearray(4 * 784 + 1)
    crooked = numpy.frombuffer(bytes_, numpy.float32, 784, 1).reshape(1, 1, 28, 28)
    crooked[:] = picture
    assert numpy.array_equal(digits(crooked), digits(picture))


def test_results_go_into_arrays_of_the_callers(digits, picture):
    out = numpy.empty((1, 10), numpy.float32)
    where = address(out)
    digits.run_into([picture], [out])
    assert address(out) == where and numpy.array_equal(out, digits(picture))
    with pytest.raises(oort.InvalidArgument, match="buffer for output"):
        digits.run_into([picture], [numpy.empty((1, 11), numpy.float32)])
    with pytest.raises(ValueError, match="not dense"):
        digits.run_into([picture], [numpy.empty((1, 20), numpy.float32)[:, ::2]])
    out.flags.writeable = False
    with pytest.raises(TypeError, match="written"):
        digits.run_into([picture], [out])


def test_inputs_have_names(digits, picture):
    net = oort.load(SUM)
    a, b = numpy.float32([1, 2, 3, 4]), numpy.float32([10, 10, 10, 10])
    assert net(a, b).tolist() == net(in1=b, in0=a).tolist() == net(a, in1=b).tolist() == [11, 12, 13, 14]
    assert list(digits.run({"pnnx_input_0": picture})) == ["pnnx_output_0"]
    assert [port.name for port in net.inputs] == ["in0", "in1"]
    assert digits.inputs[0].shape == (1, 1, 28, 28) and digits.inputs[0].dtype == "float32"
    for arguments, named in (((a, b, b), {}), ((a,), {"in0": a}), ((a,), {})):
        with pytest.raises(oort.InvalidArgument):
            net(*arguments, **named)
    with pytest.raises(oort.NotFound, match="no input 'other'"):
        net(a, other=b)


def test_several_outputs_are_a_tuple():
    net = oort.load(chain(["F.relu r 1 1 a b", "F.sigmoid s 1 1 a c"], outputs=["b", "c"]))
    results = net(numpy.zeros(4, numpy.float32))
    assert isinstance(results, tuple) and [r.tolist()[0] for r in results] == [0, 0.5]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_dtypes_pass(dtype):
    short = {"float": "f", "int": "i", "uint": "u"}
    name = dtype if dtype == "bool" else short[dtype.rstrip("0123456789")] + dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    net = oort.load(chain(["torch.flatten f 1 1 a b start_dim=0 end_dim=-1"], dtype=name))
    x = numpy.ones(4, dtype)
    assert net(x).dtype == x.dtype and numpy.array_equal(net(x), x)


def test_what_is_no_array_is_refused_with_what_to_do(digits):
    for wrong in ([1, 2], 3.0, "text", None):
        with pytest.raises(TypeError, match="not an array: pass a numpy array"):
            digits(wrong)
    with pytest.raises(TypeError):
        digits(numpy.zeros((1, 1, 28, 28), ">f4"))


def test_arrays_of_elements_that_no_network_has_are_refused_with_their_dtype(digits):
    for wrong, dtype in (
        (numpy.zeros((1, 1, 28, 28), ">f4"), ">f4"),
        (numpy.array(["text"]), "<U4"),
        (numpy.array([None]), "O"),
    ):
        with pytest.raises(TypeError, match=f"dtype\\('{dtype}'\\), which no network takes: convert it"):
            digits(wrong)
    with pytest.raises(TypeError, match="is a str, not an array"):
        digits("a picture")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"threads": "many"}, "threads cannot be 'many'"),
        ({"memory_limit": -1}, "memory_limit cannot be -1"),
        ({"checksums": 1}, "checksums cannot be 1"),
        ({"precision": 8}, "precision cannot be 8"),
        ({"isa": 5}, "isa cannot be 5"),
        ({"conv": 5}, "conv cannot be 5"),
        ({"without": 5}, "without is a list, not int"),
        ({"without": [5]}, "without\\[0\\] cannot be 5"),
        ({"progress": 5}, "progress cannot be 5"),
        ({"device": 5}, "device '5' is not"),
    ],
)
def test_options_of_other_types_are_refused_by_name(options, words):
    with pytest.raises(oort.InvalidArgument, match=words):
        oort.load("models/digits", **options)


def test_what_is_long_is_not_said_whole():
    with pytest.raises(oort.InvalidArgument) as error:
        oort.load("models/digits", threads="x" * 1000)
    assert len(str(error.value)) < 120


def test_none_is_the_default(digits, picture):
    names = ("device", "precision", "threads", "memory_limit", "isa", "conv", "without", "checksums", "progress")
    net = oort.load("models/digits", **dict.fromkeys(names))
    assert (net.device, net.precision, net.threads) == ("cpu", "f32", 0)
    assert numpy.allclose(net(picture), digits(picture), atol=1e-5)


def test_a_device_may_be_an_object_with_such_a_text():
    class Device:
        def __str__(self):
            return "cpu"

    assert oort.load("models/digits", device=Device()).device == "cpu"


def test_names_of_inputs_are_texts(digits, picture):
    with pytest.raises(oort.InvalidArgument, match="the name of an input cannot be 0"):
        digits.run({0: picture})


def test_dtypes_may_be_names_classes_or_of_torch(digits):
    class OfTorch:
        def __repr__(self):
            return "torch.float32"

    known = str(digits.info())
    for dtype in ("float32", "f32", numpy.float32, numpy.dtype("float32"), OfTorch()):
        assert str(digits.info(oort.Meta((1, 1, 28, 28), dtype))) == known
    for dtype in ("f99", None, 5):
        with pytest.raises(oort.InvalidArgument, match="no dtype of a network"):
            digits.info(oort.Meta((1, 1, 28, 28), dtype))
    with pytest.raises(oort.InvalidArgument, match="a dimension of a shape cannot be None"):
        digits.info(oort.Meta((None, 1, 28, 28), "float32"))


def test_threads_share_one_network(digits, picture):
    pictures = [numpy.roll(picture, shift, axis=3) for shift in range(16)]
    expected = [digits(x) for x in pictures]
    wrong = []

    def work(i):
        for _ in range(20):
            if not numpy.array_equal(digits(pictures[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_say_code_operator_and_line():
    with pytest.raises(oort.NotFound) as missing:
        oort.load("no/such.pnnx.param")
    assert isinstance(missing.value, FileNotFoundError) and missing.value.code == "not_found"
    with pytest.raises(oort.Error) as unknown:
        oort.load(chain(["nn.NoSuchThing op 1 1 a b"]))
    assert unknown.value.operator == "op" and unknown.value.type == "nn.NoSuchThing" and unknown.value.line == 4
    assert len(unknown.value.problems) == 1 and "NoSuchThing" in str(unknown.value)
    with pytest.raises(oort.InvalidModel):
        oort.load(b"nonsense")
    for options in ({"device": "gpu"}, {"precision": "f8"}, {"isa": "mmx"}, {"threads": -1}, {"without": ["nothing"]}):
        with pytest.raises(oort.InvalidArgument):
            oort.load("models/digits", **options)
    with pytest.raises(oort.Limit):
        oort.load("models/digits", memory_limit=10)(numpy.zeros((1, 1, 28, 28), numpy.float32))


def test_options_reach_the_engine(picture, digits):
    phases = []
    net = oort.load("models/digits", precision="bf16", progress=lambda phase, done, total: phases.append(phase))
    assert net.precision == "bf16" and phases
    assert numpy.allclose(net(picture), digits(picture), atol=0.5)
    with pytest.raises(oort.Cancelled, match="progress: ZeroDivisionError") as error:
        oort.load("models/digits", progress=lambda *_: 1 / 0)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    with pytest.raises(SystemExit, match="3"):
        oort.load("models/digits", progress=lambda *_: sys.exit(3))
    plain = oort.load("models/digits", without=["all"])
    assert len(plain.info()["operators"]) > len(net.info()["operators"])


def test_bytes_are_as_good_as_files(picture, digits):
    folder = pathlib.Path("models/digits")
    param, bin_ = ((folder / f"digits.pnnx.{kind}").read_bytes() for kind in ("param", "bin"))
    assert numpy.array_equal(oort.load(param, bin_, threads=1)(picture), digits(picture))
    assert numpy.array_equal(oort.load(folder / "digits.pnnx.param", threads=1)(picture), digits(picture))


def test_info_and_profile_print_themselves(digits, picture):
    info = digits.info()
    assert info["operators"] and "nhwc.Conv2d" in str(info) and "<table>" in info._repr_html_()
    assert digits.info(numpy.zeros((1, 1, 28, 28), numpy.float32)).keys() == info.keys()
    found = oort.profile(digits, picture, runs=2)
    assert len(found.operators) == len(info["operators"]) and found.fastest <= found.seconds
    assert "FLOP/s" in str(found) and "<td" in found._repr_html_() and "nhwc.Conv2d" in found.by_type()
    with pytest.raises(TypeError, match="a network that oort.load made, not a str"):
        oort.profile("models/digits", picture)


def test_quantized_networks_are_smaller_and_answer_alike(tmp_path, digits):
    pictures = [numpy.load(file)[:1] for file in sorted(pathlib.Path("models/digits/case").glob("in0.npy"))]
    pictures += [numpy.random.default_rng(i).random((1, 1, 28, 28), numpy.float32) for i in range(12)]
    report = oort.quantize("models/digits", tmp_path / "d.pnnx.param", pictures)
    assert report["bytes"] < report["float_bytes"] / 2 and report["cosine"] > 0.95 and "8 bits" in str(report)
    net = oort.load(report["param"])
    assert net(pictures[0]).argmax() == digits(pictures[0]).argmax()
    again = oort.quantize("models/digits", tmp_path / "e.pnnx.param", recipe=report["recipe"])
    assert pathlib.Path(again["bin"]).read_bytes() == pathlib.Path(report["bin"]).read_bytes()
    with pytest.raises(oort.InvalidArgument):
        oort.quantize("models/digits", tmp_path / "f.pnnx.param", method="best")
    with pytest.raises(ValueError, match="overwrite"):
        oort.quantize("models/digits", "models/digits/digits.pnnx.param", pictures)
    for options in ({"threads": "many"}, {"labels": ["one"]}, {"dynamic": 1}, {"budget": "small"}, {"method": 5}):
        with pytest.raises(oort.InvalidArgument, match=f"{next(iter(options))}.* cannot be"):
            oort.quantize("models/digits", tmp_path / "f.pnnx.param", pictures, **options)


def test_results_can_be_arrays_of_the_library_of_the_input(digits, picture):
    """As for arrays of torch and cupy on a GPU: from the second run on, the library allocates what is written into."""
    for shift in range(3):
        turned = numpy.roll(picture, shift, axis=2)
        result = digits._call_beside(turned)
        assert numpy.array_equal(result, digits(turned)) and (result.flags.owndata or shift == 0)
    two = numpy.concatenate([picture, picture])
    assert digits._call_beside(two).shape == digits._call_beside(two).shape == (2, 10)
    pair = oort.load(chain(["F.relu r 1 1 a b", "torch.neg n 1 1 a c"], outputs=["b", "c"]))
    for _ in range(2):
        first, second = pair._call_beside(numpy.float32([1, -2, 3, -4]))
        assert first.tolist() == [1, 0, 3, 0] and second.tolist() == [-1, 2, -3, 4]


def test_results_for_jax_are_memory_of_the_engine(digits, picture):
    """As on a GPU: nobody writes into arrays that jax has made."""
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):  # where there is a GPU, too
        array = jax.numpy.asarray(picture)
        for turned in (array, jax.numpy.roll(array, 1, axis=2), jax.numpy.concatenate([array, array])):
            for result in (digits._call_beside(turned), digits(turned)):
                assert isinstance(result, jax.Array) and result.devices() == array.devices()
                assert numpy.array_equal(result, digits(numpy.asarray(turned)))
        varying = oort.load(chain(["torch.nonzero z 1 1 a b"]))
        for x in ([1, 0, 0, 2], [0, 0, 0, 2], [1, 1, 1, 2]):
            result = varying._call_beside(jax.numpy.asarray(x, "float32"))
            assert isinstance(result, jax.Array) and result.tolist() == numpy.argwhere(x).tolist()


def test_results_whose_shapes_depend_on_elements_are_moved():
    net = oort.load(chain(["torch.nonzero z 1 1 a b"]))
    for x in ([1, 0, 0, 2], [0, 0, 0, 2], [1, 1, 1, 2], [1, 0, 0, 2]):
        assert net._call_beside(numpy.float32(x)).tolist() == numpy.argwhere(x).tolist()
    pair = oort.load(chain(["torch.matmul m 2 1 a a b"], shape="(2,2)"))
    pair._call_beside(numpy.ones((2, 2), numpy.float32))
    with pytest.raises(oort.InvalidArgument):  # what is wrong for another reason is told
        pair._call_beside(numpy.ones((2, 3), numpy.float32))


class Picky:
    """Takes no negative numbers."""

    def __init__(self, params, weights):
        pass

    def forward(self, x):
        if x.min() < 0:
            raise ValueError("a negative number")
        return x


def test_a_run_that_failed_for_another_reason_changes_nothing_for_the_next():
    oort.register("test.Picky", Picky)
    net = oort.load(chain(["test.Picky p 1 1 a b"]))
    x = numpy.ones(4, numpy.float32)
    net._call_beside(x)
    assert net._call_beside(x).flags.owndata
    with pytest.raises(oort.InvalidArgument, match="a negative number"):
        net._call_beside(-x)
    assert net._call_beside(x).flags.owndata


def test_classes_of_programs_are_of_the_library_of_their_bases():
    from oort import _interop

    class OfCupy:
        __module__ = "cupy.core"

    class Mine(OfCupy):
        pass

    class Array(numpy.ndarray):
        pass

    assert _interop.library_of(Mine()) == "cupy"
    assert _interop.library_of(numpy.zeros(2).view(Array)) == "numpy" == _interop.library_of(numpy.zeros(2))
    assert _interop.library_of(Picky({}, {})) == __name__.partition(".")[0]
