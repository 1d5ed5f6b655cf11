// SPDX-License-Identifier: MIT
// A small good model, kept in a form that is easy to break.
#pragma once

#include <stdexcept>

#include "kit/zip_builder.h"
#include "oort/oort.h"

namespace oort::testing {

struct Model {
  std::string param =
      "7767517\n"
      "4 3\n"
      "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,2,4,4)f32\n"
      "nn.Conv2d                conv                     1 1 0 1 bias=True dilation=(1,1) groups=1"
      " in_channels=2 kernel_size=(3,3) out_channels=2 padding=(1,1) padding_mode=zeros"
      " stride=(1,1) @bias=(2)f32 @weight=(2,2,3,3)f32 #0=(1,2,4,4)f32 #1=(1,2,4,4)f32\n"
      "nn.ReLU                  relu                     1 1 1 2 #1=(1,2,4,4)f32"
      " #2=(1,2,4,4)f32\n"
      "pnnx.Output              pnnx_output_0            1 0 2 #2=(1,2,4,4)f32\n";
  std::vector<ZipSpec> entries = {{"conv.bias", Numbers(2)}, {"conv.weight", Numbers(36)}};
  ZipOptions zip;
  std::optional<std::string> whole_bin;  // instead of the zip

  static std::string Numbers(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const float value = 0.25f * static_cast<float>(i % 7 - 3);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return bytes;
  }

  std::string Bin() const { return whole_bin ? *whole_bin : BuildZip(entries, zip); }

  /// Replaces the first `from`, which must be there.
  void Replace(const std::string& from, const std::string& to) {
    const size_t at = param.find(from);
    if (at == std::string::npos) throw std::logic_error("the model has no '" + from + "'");
    param.replace(at, from.size(), to);
  }
  /// Adds a line before the output and counts it.
  void AddLine(const std::string& line, int new_operands = 0) {
    param.insert(param.find("pnnx.Output"), line + "\n");
    const int operands = std::stoi(param.substr(10)) + new_operands;
    param.replace(8, 3,
                  std::to_string(std::stoi(param.substr(8)) + 1) + " " + std::to_string(operands));
  }

  Graph Read() const { return ReadPnnx(*ByteSource::Owned(param), ByteSource::Owned(Bin())); }
  std::shared_ptr<const RuntimeGraph> Load() const {
    return RuntimeGraph::Load(*ByteSource::Owned(param), ByteSource::Owned(Bin()));
  }
};

/// Whether operators that the zoo needs are in the registry.
inline bool HasOperator(std::string_view type) {
  return LayerRegistry::Global().Schema(type) != nullptr;
}

}  // namespace oort::testing
