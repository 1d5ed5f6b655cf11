// SPDX-License-Identifier: MIT
// The test kit for operator authors, on top of GoogleTest. Link oort::testing.
// See docs/adding-an-operator.md.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/oort.h"

namespace oort::testing {

/// Allowed difference: |got - want| <= absolute + relative * |want|, element by element.
/// Negative values stand for the default of the dtype that is tested (f32: 1e-5 and 1e-4).
struct Tolerance {
  double absolute = -1;
  double relative = -1;
};

/// Uniform in [low, high) (integers: [low, high]; bool: either), the same for the same seed.
Tensor RandomTensor(DType dtype, Shape shape, uint64_t seed = 1, double low = -2, double high = 2);
/// 0, 1, 2, …: i * step + start.
Tensor RangeTensor(DType dtype, Shape shape, double start = 0, double step = 1);

/// Lengths around which vector kernels break: 0, 1, tile-1, tile, tile+1, odd, large.
std::vector<int64_t> EdgeLengths();

/// Fails the current test, naming the worst element, unless shapes and dtypes are the same and
/// all elements are near; NaN equals NaN, integers must be exact.
void ExpectNear(const Tensor& got, const Tensor& want, Tolerance tolerance = {});

/// One operator with its parameters and inputs, run as a graph of its own.
///
///   OperatorCase("nn.LeakyReLU").Param("negative_slope", "0.1").Input(x)
///       .ExpectOutputs({expected});
///
/// Each expectation runs on every instruction set of the machine and on one and two threads, and
/// fails if a configuration ran nowhere.
class OperatorCase {
 public:
  explicit OperatorCase(std::string type);
  OperatorCase& Param(std::string key, std::string text);
  OperatorCase& Attribute(std::string name, Tensor value);
  /// The next input operand; `name` is its `$name`, if any.
  OperatorCase& Input(Value value, std::string name = "");
  /// An input whose value is part of the model (as pnnx.Attribute would make it).
  OperatorCase& Constant(Tensor value, std::string name = "");
  OperatorCase& Outputs(int count);  ///< default 1
  OperatorCase& Registry(const LayerRegistry* registry);
  /// ExpectOutputs and ExpectLike also run on a GPU where the machine has one, and the operator
  /// must have a layer there. All inputs are tensors.
  OperatorCase& AlsoOnGpu();

  /// Exactly these outputs, dtypes included.
  void ExpectOutputs(const std::vector<Tensor>& expected, Tolerance tolerance = {}) const;
  /// What `reference` computes in f64. Runs for every dtype that the schema declares for the first
  /// tensor: floating-point inputs and attributes are converted to it, and the reference sees
  /// them converted back, so that only the operator's own error counts. Integer inputs of an
  /// operator that also takes floats are converted likewise when all inputs are tensors.
  using Reference = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
  void ExpectLike(const Reference& reference, Tolerance tolerance = {}) const;
  /// Load or run fails with this code and a message that contains `text`.
  void ExpectError(ErrorCode code, std::string_view text) const;
  /// Runs once with the default instruction set and returns the outputs.
  std::vector<Tensor> Run() const;

 private:
  struct Operand {
    Value value;
    std::string name;
    bool constant = false;
  };
  Graph BuildGraph() const;
  std::vector<Value> RunInputs() const;
  std::vector<Tensor> RunOn(Isa isa, int threads) const;
  void ExpectOutputsOnGpu(const std::vector<Tensor>& expected, Tolerance tolerance) const;
  std::string type_;
  std::map<std::string, Parameter> params_;
  std::map<std::string, Tensor> attributes_;
  std::vector<Operand> inputs_;
  int outputs_ = 1;
  const LayerRegistry* registry_ = nullptr;
  bool also_on_gpu_ = false;
};

/// Runs a folder with model.pnnx.param, model.pnnx.bin, in0.npy …, out0.npy … on every
/// instruction set and compares with the tolerances of `oort verify`.
void ExpectCasePasses(const std::filesystem::path& folder);

}  // namespace oort::testing
