// SPDX-License-Identifier: MIT
// What stands between the products and convolutions of a network: pooling, normalization, softmax,
// activations, sums. Most of these are bound by memory: read% is the number to look at.
#include <string>

#include "bench/measure.h"

namespace oort::bench {
namespace {

std::string ShapeText(const Shape& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

void Add(const std::string& name, const OperatorCase& op) {
  ForThreads(name + "/" + ShapeText(op.inputs.front()),
             [op](benchmark::State& state, int threads) { RunOperator(state, op, threads); });
}

void AddPooling() {
  const std::map<std::string, std::string> max = {
      {"kernel_size", Pair(3)}, {"stride", Pair(2)},    {"padding", Pair(1)},
      {"dilation", Pair(1)},    {"ceil_mode", "False"}, {"return_indices", "False"}};
  const std::map<std::string, std::string> average = {
      {"kernel_size", Pair(2)}, {"stride", Pair(2)}, {"padding", Pair(0)}};
  Add("max_pool3x3s2", {"nn.MaxPool2d", max, {}, {{1, 64, 112, 112}}});
  Add("max_pool3x3s2/nhwc", {"nhwc.MaxPool2d", max, {}, {{1, 112, 112, 64}}});
  Add("avg_pool2x2s2", {"nn.AvgPool2d", average, {}, {{1, 128, 56, 56}}});
  Add("global_avg_pool",
      {"nn.AdaptiveAvgPool2d", {{"output_size", "(1,1)"}}, {}, {{1, 512, 7, 7}}});
  Add("global_avg_pool/nhwc",
      {"nhwc.AdaptiveAvgPool2d", {{"output_size", "(1,1)"}}, {}, {{1, 7, 7, 512}}});
}

void AddRows() {
  for (const Shape& shape : {Shape{12, 50, 50}, Shape{3072, 128}, Shape{128, 1000}}) {
    Add("softmax", {"nn.Softmax", {{"dim", "-1"}}, {}, {shape}});
  }
  for (const Shape& shape : {Shape{1, 50, 768}, Shape{1, 197, 768}, Shape{512, 384}}) {
    const int64_t width = shape[shape.rank() - 1];
    Add("layer_norm", {"nn.LayerNorm",
                       {{"normalized_shape", "(" + std::to_string(width) + ")"}, {"eps", "1e-05"}},
                       {{"weight", Filled({width})}, {"bias", Filled({width})}},
                       {shape}});
  }
}

void AddElements() {
  // What fits the L1 cache, a feature map, and what fits no private cache.
  for (const Shape& shape : {Shape{4096}, Shape{1, 64, 56, 56}, Shape{4, 1024, 1024}}) {
    for (const char* type : {"nn.ReLU", "nn.Sigmoid", "nn.SiLU", "nn.Hardswish", "nn.Tanh"}) {
      Add(type, {type, {}, {}, {shape}});
    }
    Add("nn.GELU", {"nn.GELU", {{"approximate", "none"}}, {}, {shape}});
    Add("nn.GELU_tanh", {"nn.GELU", {{"approximate", "tanh"}}, {}, {shape}});
    Add("add", {"pnnx.Expression", {{"expr", "add(@0,@1)"}}, {}, {shape, shape}});
    Add("multiply_add", {"pnnx.Expression", {{"expr", "add(mul(@0,@1),@0)"}}, {}, {shape, shape}});
  }
}

void RegisterAll() {
  AddPooling();
  AddRows();
  AddElements();
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
