// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/device.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

constexpr int kThreadCounts[] = {1, 2};

/// Operators whose dtypes are swept are converted only if they are real numbers.
bool Convertible(DType dtype) { return IsFloat(dtype); }

/// The dtypes that the schema declares for its first tensor argument, or for a variadic one.
DTypeSet DeclaredDTypes(const OperatorSchema& schema) {
  for (const ArgSpec& spec : schema.args()) {
    if (spec.type == ArgType::kTensor && !spec.attribute) return spec.dtypes;
  }
  return kF32Only;
}

}  // namespace

OperatorCase::OperatorCase(std::string type) : type_(std::move(type)) {}

OperatorCase& OperatorCase::Param(std::string key, std::string text) {
  params_[std::move(key)] = Parameter(std::move(text));
  return *this;
}

OperatorCase& OperatorCase::Attribute(std::string name, Tensor value) {
  attributes_[std::move(name)] = std::move(value);
  return *this;
}

OperatorCase& OperatorCase::Input(Value value, std::string name) {
  inputs_.push_back({std::move(value), std::move(name), false});
  return *this;
}

OperatorCase& OperatorCase::Constant(Tensor value, std::string name) {
  inputs_.push_back({Value(std::move(value)), std::move(name), true});
  return *this;
}

OperatorCase& OperatorCase::Outputs(int count) {
  outputs_ = count;
  return *this;
}

OperatorCase& OperatorCase::Registry(const LayerRegistry* registry) {
  registry_ = registry;
  return *this;
}

OperatorCase& OperatorCase::AlsoOnGpu() {
  also_on_gpu_ = true;
  return *this;
}

Graph OperatorCase::BuildGraph() const {
  Graph graph;
  Operator op;
  op.type = type_;
  op.name = "tested";
  op.params = params_;
  op.attributes = attributes_;
  int number = 0;
  for (const Operand& input : inputs_) {
    const int operand = graph.AddOperand("in" + std::to_string(op.inputs.size()));
    Operator producer;
    producer.outputs = {operand};
    if (input.constant) {
      producer.type = "pnnx.Attribute";
      producer.name = "constant" + std::to_string(op.inputs.size());
      producer.attributes["data"] = input.value.AsTensor();
    } else {
      producer.type = "pnnx.Input";
      producer.name = "pnnx_input_" + std::to_string(number++);
    }
    graph.AddOperator(std::move(producer));
    op.inputs.push_back(operand);
    op.input_names.push_back(input.name);
  }
  Operator sink;
  sink.type = "pnnx.Output";
  sink.name = "pnnx_output_0";
  for (int i = 0; i < outputs_; ++i) {
    op.outputs.push_back(graph.AddOperand("out" + std::to_string(i)));
    sink.inputs.push_back(op.outputs.back());
  }
  graph.AddOperator(std::move(op));
  graph.AddOperator(std::move(sink));
  return graph;
}

std::vector<Value> OperatorCase::RunInputs() const {
  std::vector<Value> inputs;
  for (const Operand& input : inputs_) {
    if (!input.constant) inputs.push_back(input.value);
  }
  return inputs;
}

namespace {

std::shared_ptr<const RuntimeGraph> BuildFor(Isa isa, Graph graph, const LayerRegistry* registry) {
  LoadOptions options;
  options.isa = isa;
  options.registry = registry;
  return RuntimeGraph::Build(std::move(graph), options);
}

std::vector<Tensor> RunWith(int threads, std::shared_ptr<const RuntimeGraph> graph,
                            const std::vector<Value>& inputs) {
  Session session(std::move(graph), {.threads = threads});
  std::vector<Tensor> outputs;
  for (Value& value : session.Run(inputs)) outputs.push_back(value.AsTensor());
  return outputs;
}

}  // namespace

std::vector<Tensor> OperatorCase::RunOn(Isa isa, int threads) const {
  return RunWith(threads, BuildFor(isa, BuildGraph(), registry_), RunInputs());
}

void OperatorCase::ExpectOutputsOnGpu(const std::vector<Tensor>& expected,
                                      Tolerance tolerance) const {
  std::string reason;
  if (cuda::Devices(&reason).empty()) return;
  SCOPED_TRACE(type_ + " on the GPU");
  Graph graph = BuildGraph();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].value.IsTensor()) continue;
    // Layers of the GPU refuse by what was traced.
    oort::Operand& operand = graph.operands[i];
    operand.dtype = inputs_[i].value.AsTensor().dtype();
    operand.has_shape = true;
    operand.shape = inputs_[i].value.AsTensor().shape();
  }
  LoadOptions options;
  options.registry = registry_;
  options.device = Device::Cuda(0);
  const auto built = RuntimeGraph::Build(std::move(graph), options);
  std::vector<Tensor> inputs;
  for (const Value& input : RunInputs()) inputs.push_back(input.AsTensor());
  for (const NodeReport& node : built->Plan(inputs).nodes) EXPECT_EQ(node.fallback, "");
  Session session(built);
  // Step by step, recorded, and replayed.
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> outputs = session.Forward(inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      ExpectNear(outputs[i], expected[i], tolerance);
    }
  }
}

std::vector<Tensor> OperatorCase::Run() const { return RunOn(DefaultIsa(), 1); }

void OperatorCase::ExpectOutputs(const std::vector<Tensor>& expected, Tolerance tolerance) const {
  int configurations = 0;
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(type_ + " on " + std::string(Name(isa)));
    std::shared_ptr<const RuntimeGraph> graph;  // as an application has it: one for all sessions
    ASSERT_NO_THROW(graph = BuildFor(isa, BuildGraph(), registry_));
    for (int threads : kThreadCounts) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      std::vector<Tensor> outputs;
      ASSERT_NO_THROW(outputs = RunWith(threads, graph, RunInputs()));
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t i = 0; i < outputs.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i));
        ExpectNear(outputs[i], expected[i], tolerance);
      }
      ++configurations;
    }
  }
  EXPECT_GT(configurations, 0) << type_ << " ran nowhere";
  if (also_on_gpu_) ExpectOutputsOnGpu(expected, tolerance);
}

void OperatorCase::ExpectLike(const Reference& reference, Tolerance tolerance) const {
  const LayerRegistry& registry = registry_ ? *registry_ : LayerRegistry::Global();
  const OperatorSchema* schema = registry.Schema(type_);
  ASSERT_NE(schema, nullptr) << type_ << " is not registered";
  const DTypeSet declared = DeclaredDTypes(*schema);
  int configurations = 0;
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (!declared.Contains(dtype) || !Convertible(dtype)) continue;
    SCOPED_TRACE("dtype " + std::string(Name(dtype)));
    OperatorCase converted = *this;
    std::vector<Tensor> wide;
    for (Operand& input : converted.inputs_) {
      if (!input.value.IsTensor()) continue;
      if (IsFloat(input.value.AsTensor().dtype())) input.value = input.value.AsTensor().To(dtype);
      const Tensor& tensor = input.value.AsTensor();
      wide.push_back(IsFloat(tensor.dtype()) ? tensor.To(DType::kF64) : tensor);
    }
    std::vector<Tensor> expected = reference(wide);
    for (Tensor& tensor : expected) {
      if (tensor.dtype() == DType::kF64) tensor = tensor.To(dtype);
    }
    converted.ExpectOutputs(expected, tolerance);
    ++configurations;
  }
  EXPECT_GT(configurations, 0) << type_ << " declares no dtype that could be tested";
}

void OperatorCase::ExpectError(ErrorCode code, std::string_view text) const {
  for (Isa isa : SupportedIsas()) {
    try {
      RunOn(isa, 1);
      ADD_FAILURE() << type_ << ": expected an error with '" << text << "', but it ran";
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(code)) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos)
          << "expected '" << text << "' in: " << error.what();
    }
  }
}

namespace {

std::vector<Tensor> ReadNumbered(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const std::filesystem::path path = folder / (prefix + std::to_string(i) + ".npy");
    if (!std::filesystem::exists(path)) return tensors;
    tensors.push_back(ReadNpy(path));
  }
}

}  // namespace

void ExpectCasePasses(const std::filesystem::path& folder) {
  SCOPED_TRACE(folder.string());
  const std::vector<Tensor> inputs = ReadNumbered(folder, "in");
  const std::vector<Tensor> expected = ReadNumbered(folder, "out");
  ASSERT_FALSE(expected.empty()) << "no out0.npy";
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    LoadOptions options;
    options.isa = isa;
    std::vector<Tensor> outputs;
    try {
      Session session(
          RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin", options));
      outputs = session.Forward(inputs);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      return;
    }
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      ExpectNear(outputs[i], expected[i], {1e-4, 1e-3});
    }
  }
}

}  // namespace oort::testing
