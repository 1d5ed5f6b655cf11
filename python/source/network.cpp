// SPDX-License-Identifier: MIT
#include "network.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "cuda/memory.h"
#include "load.h"
#include "oort/profile.h"
#include "options.h"
#include "unlocked.h"

namespace oort::python {
namespace {

using Clock = std::chrono::steady_clock;

/// From here on a run is worth a helper, so that Ctrl-C ends it.
constexpr auto kSlow = std::chrono::milliseconds(30);

std::string Known(const std::vector<Port>& ports) {
  std::string names;
  for (const Port& port : ports) names += (names.empty() ? "" : ", ") + port.name;
  return names;
}

nb::dict DictOf(const Port& port) {
  nb::dict dict;
  dict["name"] = port.name;
  dict["operand"] = port.operand;
  dict["shape"] = port.has_shape ? nb::object(TupleOf(port.shape)) : nb::object(nb::none());
  const std::string_view dtype = NumpyName(port.dtype);
  dict["dtype"] = dtype.empty() ? nb::object(nb::none()) : nb::cast(dtype);
  return dict;
}

/// What a call gives: the array, where there is one alone.
nb::object OneOrAll(const nb::list& results) {
  return results.size() == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
}

nb::list ListOf(const std::vector<Port>& ports) {
  nb::list list;
  for (const Port& port : ports) list.append(DictOf(port));
  return list;
}

nb::dict DictOf(const NodeReport& node) {
  nb::dict dict;
  dict["name"] = node.name;
  dict["type"] = node.type;
  dict["line"] = node.line;
  dict["inputs"] = node.inputs;
  dict["outputs"] = node.outputs;
  dict["flops"] = node.work.flops;
  dict["bytes"] = node.work.bytes;
  dict["algorithm"] = nb::cast(node.work.algorithm);
  dict["sharing"] = node.sharing;
  dict["device"] = node.device.ToString();
  dict["fallback"] = node.fallback;
  return dict;
}

nb::dict DictOf(const MemoryReport& memory) {
  nb::dict dict;
  dict["weights"] = memory.weights;
  dict["activations"] = memory.arena;
  dict["without_reuse"] = memory.without_reuse;
  dict["outputs"] = memory.outputs;
  dict["structures"] = memory.structures;
  dict["device_weights"] = memory.device_weights;
  dict["device_activations"] = memory.device_arena;
  dict["held"] = memory.Held();
  dict["peak"] = memory.Peak();
  return dict;
}

/// What Plan needs: given shapes, or those of the trace.
std::vector<Tensor> MetasOf(const RuntimeGraph& graph, const nb::object& inputs) {
  std::vector<Tensor> metas;
  if (!inputs.is_none()) {
    for (nb::handle input : inputs) {
      metas.push_back(
          Tensor::Meta(DTypeOfObject(input.attr("dtype")), ShapeOfObject(input.attr("shape"))));
    }
    return metas;
  }
  for (const Port& port : graph.inputs()) {
    if (!port.has_shape || !port.shape.IsKnown()) {
      throw Error(ErrorCode::kInvalidArgument, "the file does not say the shape of input '" +
                                                   port.name +
                                                   "': pass arrays such as the network will see");
    }
    metas.push_back(
        Tensor::Meta(port.dtype == DType::kNull ? DType::kF32 : port.dtype, port.shape));
  }
  return metas;
}

}  // namespace

std::unique_ptr<Session> Network::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Session> session = std::move(idle_.back());
      idle_.pop_back();
      return session;
    }
    idle_.reserve(idle_.capacity() + 1);  // so that Give has room
  }
  return std::make_unique<Session>(graph_, options_);
}

void Network::Give(std::unique_ptr<Session> session) noexcept {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(session));
}

std::string Network::NameOfInput(size_t index) const {
  const std::vector<Port>& ports = graph_->inputs();
  return "input '" + (index < ports.size() ? ports[index].name : std::to_string(index)) + "'";
}

std::vector<Value> Network::Compute(const std::vector<Value>& inputs, RunOptions options) {
  std::vector<Value> results;
  RunUnlocked(slow_, [&](const std::stop_token& stop) {
    const Clock::time_point start = Clock::now();
    options.stop = stop;
    Lease session(*this);
    results = (*session).Run(inputs, options);
    slow_ = Clock::now() - start > kSlow;
  });
  return results;
}

std::vector<nb::handle> Network::InOrder(const nb::args& args, const nb::kwargs& kwargs) const {
  const std::vector<Port>& ports = graph_->inputs();
  std::vector<nb::handle> inputs(ports.size());
  if (args.size() > ports.size()) {
    throw Error(ErrorCode::kInvalidArgument, "the network has " + std::to_string(ports.size()) +
                                                 " inputs (" + Known(ports) + "), got " +
                                                 std::to_string(args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i) inputs[i] = args[i];
  for (const auto& [key, value] : kwargs) {
    const auto name = As<std::string>(key, "the name of an input");
    const int index = FindInput(ports, name);
    if (index < 0) {
      throw Error(ErrorCode::kNotFound,
                  "the network has no input '" + name + "'; its inputs are: " + Known(ports));
    }
    nb::handle& place = inputs[static_cast<size_t>(index)];
    if (place.is_valid()) {
      throw Error(ErrorCode::kInvalidArgument, "input '" + name + "' is given twice");
    }
    place = value;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_valid()) {
      throw Error(ErrorCode::kInvalidArgument, NameOfInput(i) + " is missing");
    }
  }
  return inputs;
}

Network::Given Network::Read(const nb::args& args, const nb::kwargs& kwargs) const {
  Given given;
  given.objects = InOrder(args, kwargs);
  given.held.reserve(given.objects.size());
  given.values.reserve(given.objects.size());
  for (size_t i = 0; i < given.objects.size(); ++i) {
    ArrayInput input = InputOf(given.objects[i], NameOfInput(i));
    given.held.push_back(std::move(input.array));
    given.values.emplace_back(std::move(input.tensor));
  }
  if (!given.objects.empty()) given.framework = FrameworkOf(given.objects[0]);
  return given;
}

nb::object Network::Call(const nb::args& args, const nb::kwargs& kwargs) {
  const Given given = Read(args, kwargs);
  if (given.framework != Framework::kNumpy &&
      given.values[0].AsTensor().device().type == DeviceType::kCuda) {
    return RunBeside(given);
  }
  const std::vector<Value> results = Compute(given.values);
  if (results.size() == 1) return ObjectOf(results[0], given.framework);
  nb::list list;
  for (const Value& result : results) list.append(ObjectOf(result, given.framework));
  return nb::tuple(list);
}

nb::object Network::CallBeside(const nb::args& args, const nb::kwargs& kwargs) {
  return RunBeside(Read(args, kwargs));
}

nb::object Network::RunBeside(const Given& given) {
  const nb::module_ interop = nb::module_::import_("oort._interop");
  const nb::handle first = given.objects.at(0);
  Places places = PlacesBeside(given);
  if (!places.tensors.empty()) {
    RunOptions options;
    options.outputs = places.tensors;
    try {
      Compute(given.values, options);
      return OneOrAll(places.Arrays());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
    }
  }
  const std::vector<Value> results = Compute(given.values);
  // Without places for the results it runs: they did not fit. What was wrong for another reason is
  // so again, and has been thrown.
  if (!places.tensors.empty()) shapes_vary_ = true;
  RememberResults(given.values, results);
  const Framework host = given.framework == Framework::kCupy ? Framework::kNumpy : given.framework;
  nb::list list;
  for (const Value& result : results) {
    const nb::object object = ObjectOf(result, host);
    list.append(result.IsTensor() ? interop.attr("moved_beside")(first, object) : object);
  }
  return OneOrAll(list);
}

Network::Places Network::PlacesBeside(const Given& given) {
  const nb::module_ interop = nb::module_::import_("oort._interop");
  const Device device = given.values.at(0).AsTensor().device();
  Places places;
  for (const Tensor& meta : KnownResults(given.values)) {
    if (given.framework == Framework::kJax) {  // nobody writes into arrays that jax has made
      places.tensors.push_back(device == Device::Cpu()
                                   ? Tensor(meta.dtype(), meta.shape())
                                   : cuda::DeviceTensor(meta.dtype(), meta.shape(), device));
      continue;
    }
    const nb::object array = interop.attr("empty_beside")(given.objects[0], TupleOf(meta.shape()),
                                                          nb::cast(NumpyName(meta.dtype())));
    if (array.is_none()) return {};
    ArrayOutput output = OutputOf(array, "a result");
    places.kept.push_back(std::move(output.array));
    places.tensors.push_back(std::move(output.tensor));
    places.arrays.append(array);
  }
  return places;
}

nb::list Network::Places::Arrays() const {
  if (!kept.empty()) return arrays;
  nb::list made;
  for (const Tensor& tensor : tensors) made.append(ArrayOf(tensor, Framework::kJax));
  return made;
}

std::vector<Tensor> Network::KnownResults(const std::vector<Value>& inputs) {
  const std::lock_guard lock(mutex_);
  if (shapes_vary_ || known_inputs_.size() != inputs.size()) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = inputs[i].AsTensor();
    if (tensor.dtype() != known_inputs_[i].dtype()) return {};
    if (!(tensor.shape() == known_inputs_[i].shape())) return {};
  }
  return known_results_;
}

void Network::RememberResults(const std::vector<Value>& inputs, const std::vector<Value>& results) {
  std::vector<Tensor> known_inputs, known_results;
  for (const Value& input : inputs) {
    known_inputs.push_back(Tensor::Meta(input.AsTensor().dtype(), input.AsTensor().shape()));
  }
  for (const Value& result : results) {
    if (!result.IsTensor()) return;
    known_results.push_back(Tensor::Meta(result.AsTensor().dtype(), result.AsTensor().shape()));
  }
  const std::lock_guard lock(mutex_);
  known_inputs_ = std::move(known_inputs);
  known_results_ = std::move(known_results);
}

nb::dict Network::Run(const nb::dict& inputs) {
  nb::kwargs named = nb::steal<nb::kwargs>(PyDict_Copy(inputs.ptr()));
  const nb::object results = Call(nb::steal<nb::args>(PyTuple_New(0)), named);
  nb::dict dict;
  const std::vector<Port>& ports = graph_->outputs();
  if (!nb::isinstance<nb::tuple>(results)) {
    dict[nb::str(ports.empty() ? "pnnx_output_0" : ports[0].name.c_str())] = results;
    return dict;
  }
  size_t index = 0;
  for (nb::handle result : results) {
    const std::string name =
        index < ports.size() ? ports[index].name : "pnnx_output_" + std::to_string(index);
    dict[name.c_str()] = result;
    ++index;
  }
  return dict;
}

void Network::RunInto(nb::handle inputs, nb::handle outputs) {
  std::vector<nb::ndarray<nb::ro>> held;
  std::vector<Value> values;
  for (nb::handle object : inputs) {
    ArrayInput input = InputOf(object, NameOfInput(values.size()));
    held.push_back(std::move(input.array));
    values.emplace_back(std::move(input.tensor));
  }
  std::vector<nb::ndarray<>> kept;
  RunOptions options;
  for (nb::handle object : outputs) {
    ArrayOutput output = OutputOf(object, "out[" + std::to_string(kept.size()) + "]");
    kept.push_back(std::move(output.array));
    options.outputs.push_back(std::move(output.tensor));
  }
  if (kept.size() != graph_->outputs().size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the network has " + std::to_string(graph_->outputs().size()) +
                    " outputs, got arrays for " + std::to_string(kept.size()));
  }
  Compute(values, options);
}

nb::dict Network::Measure(const nb::list& inputs, int runs) {
  std::vector<Value> values;
  std::vector<Tensor> tensors;
  for (nb::handle object : inputs) {
    tensors.push_back(CopyOf(object, NameOfInput(tensors.size())));
    values.emplace_back(tensors.back());
  }
  std::vector<Profile> profiles(static_cast<size_t>(runs));
  std::vector<double> walls;
  PlanReport plan;
  RunUnlocked(true, [&](const std::stop_token& stop) {
    Lease session(*this);
    RunOptions options;
    options.stop = stop;
    (*session).Run(values, options);
    for (Profile& profile : profiles) {
      const Clock::time_point start = Clock::now();
      (*session).Run(values, options);
      walls.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      RunOptions profiled = options;
      profiled.profile = &profile;
      (*session).Run(values, profiled);
    }
    plan = graph_->Plan(tensors, (*session).threads());
  });
  nb::list nodes;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    nb::dict node = DictOf(plan.nodes[i]);
    nb::list seconds;
    for (const Profile& profile : profiles) {
      double sum = 0;
      for (const Profile::Slice& slice : profile.steps) {
        if (static_cast<size_t>(slice.node) == i) sum += slice.seconds();
      }
      seconds.append(sum);
      if (i < profile.work.size()) {
        node["flops"] = profile.work[i].flops;
        node["bytes"] = profile.work[i].bytes;
        node["algorithm"] = nb::cast(profile.work[i].algorithm);
      }
    }
    node["seconds"] = seconds;
    nodes.append(node);
  }
  nb::dict report;
  report["operators"] = nodes;
  report["seconds"] = walls;
  return report;
}

nb::dict Network::Info(const nb::object& inputs) const {
  const std::vector<Tensor> metas = MetasOf(*graph_, inputs);
  PlanReport plan;
  RunUnlocked(false, [&](const std::stop_token&) {
    plan = graph_->Plan(metas, options_.threads == 0 ? 1 : options_.threads);
  });
  nb::dict info;
  info["inputs"] = ListOf(graph_->inputs());
  info["outputs"] = ListOf(graph_->outputs());
  info["device"] = graph_->device().ToString();
  info["isa"] = nb::cast(Name(graph_->isa()));
  info["precision"] = nb::cast(Name(graph_->precision()));
  nb::list nodes;
  double flops = 0, bytes = 0;
  for (const NodeReport& node : plan.nodes) {
    nodes.append(DictOf(node));
    flops += node.work.flops;
    bytes += node.work.bytes;
  }
  info["operators"] = nodes;
  info["flops"] = flops;
  info["bytes"] = bytes;
  info["memory"] = DictOf(plan.memory);
  return info;
}

void BindNetwork(nb::module_& module) {
  nb::class_<Network>(module, "Network")
      .def(
          "__init__",
          [](Network* self, nb::object param, nb::object bin, const nb::dict& options) {
            auto [graph, session] = LoadNetwork(param, bin, options);
            new (self) Network(std::move(graph), session);
          },
          nb::arg("param"), nb::arg("bin").none(), nb::arg("options"))
      .def("__call__", &Network::Call)
      .def("_call_beside", &Network::CallBeside)
      .def("run", &Network::Run, nb::arg("inputs"),
           "Runs the network on {name: array}, and gives {name: array} of its outputs.")
      .def("_run_into", &Network::RunInto, nb::arg("inputs"), nb::arg("out"))
      .def("_measure", &Network::Measure, nb::arg("inputs"), nb::arg("runs"))
      .def("_info", &Network::Info, nb::arg("inputs").none())
      .def_prop_ro("_inputs", [](const Network& self) { return ListOf(self.graph()->inputs()); })
      .def_prop_ro("_outputs", [](const Network& self) { return ListOf(self.graph()->outputs()); })
      .def_prop_ro(
          "device", [](const Network& self) { return self.graph()->device().ToString(); },
          "Where it runs: \"cpu\", \"cuda:0\", …")
      .def_prop_ro(
          "precision", [](const Network& self) { return Name(self.graph()->precision()); },
          "What products multiply: \"f32\", \"bf16\", …")
      .def_prop_ro("threads", &Network::threads,
                   "Threads of one call; 0 for as many as the process may use.");
}

}  // namespace oort::python
