// SPDX-License-Identifier: MIT
// Small networks for the tests of quantization, with weights that look random.
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "oort/testing.h"

namespace oort::quantize {

/// The graph of a .param text, each of its attributes filled with numbers of its own.
inline Graph NetworkOf(const std::string& lines) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 1;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      tensor = testing::RandomTensor(tensor.dtype(), tensor.shape(), ++seed, -0.5, 0.5);
    }
  }
  return graph;
}

/// An nn.Conv2d of 3x3 that keeps the size of its image.
inline std::string Conv(const std::string& name, int in, int out, const std::string& from,
                        const std::string& to) {
  const std::string channels = std::to_string(out) + "," + std::to_string(in);
  return "nn.Conv2d " + name + " 1 1 " + from + " " + to +
         " bias=True dilation=(1,1) groups=1 in_channels=" + std::to_string(in) +
         " kernel_size=(3,3) out_channels=" + std::to_string(out) +
         " padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(" + std::to_string(out) +
         ")f32 @weight=(" + channels + ",3,3)f32\n";
}

inline std::string Linear(const std::string& name, int in, int out, const std::string& from,
                          const std::string& to) {
  return "nn.Linear " + name + " 1 1 " + from + " " + to +
         " bias=True in_features=" + std::to_string(in) + " out_features=" + std::to_string(out) +
         " @bias=(" + std::to_string(out) + ")f32 @weight=(" + std::to_string(out) + "," +
         std::to_string(in) + ")f32\n";
}

inline std::string Input(const std::string& shape) {
  return "pnnx.Input pnnx_input_0 0 1 x #x=" + shape + "f32\n";
}
inline std::string Output(const std::string& from) {
  return "pnnx.Output pnnx_output_0 1 0 " + from + "\n";
}

/// Two convolutions with a sum around the second, pooling and a linear layer.
inline std::string Residual() {
  return Input("(1,2,8,8)") + Conv("first", 2, 4, "x", "a") + "nn.ReLU act1 1 1 a b\n" +
         Conv("second", 4, 4, "b", "c") + "pnnx.Expression sum 2 1 c b d expr=add(@0,@1)\n" +
         "nn.ReLU act2 1 1 d e\n" +
         "nn.MaxPool2d pool 1 1 e f ceil_mode=False dilation=(1,1) kernel_size=(2,2) "
         "padding=(0,0) return_indices=False stride=(2,2)\n" +
         "torch.flatten flat 1 1 f g end_dim=-1 start_dim=1 $input=f\n" +
         Linear("head", 64, 5, "g", "h") + Output("h");
}

}  // namespace oort::quantize
