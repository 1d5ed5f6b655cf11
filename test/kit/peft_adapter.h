// SPDX-License-Identifier: MIT
// Makes LoRA adapters as PEFT saves them, and the files of models around them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kit/files.h"
#include "kit/zip_builder.h"

namespace oort::testing {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;

  std::string bytes() const {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};
using Matrices = std::map<std::string, Matrix>;

/// Of numbers from -0.25 to 0.25.
inline Matrix RandomMatrix(int64_t rows, int64_t columns, std::mt19937& random) {
  Matrix matrix{rows, columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i) {
    matrix.values.push_back(static_cast<float>(static_cast<int>(random() % 201) - 100) / 400);
  }
  return matrix;
}

/// The bytes of a safetensors file; those of `vectors` have one row and one dimension.
inline std::string SafetensorsOf(const Matrices& matrices,
                                 const std::map<std::string, bool>& vectors = {}) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, matrix] : matrices) {
    nlohmann::json shape = nlohmann::json::array({matrix.rows, matrix.columns});
    if (vectors.contains(name)) shape = nlohmann::json::array({matrix.columns});
    const size_t begin = data.size();
    data += matrix.bytes();
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  return Little(text.size(), 8) + text + data;
}

inline nlohmann::json PeftConfig(int64_t rank, double alpha) {
  return {{"peft_type", "LORA"}, {"r", rank},         {"lora_alpha", alpha},
          {"bias", "none"},      {"use_dora", false}, {"modules_to_save", nullptr}};
}

inline void WritePeft(const std::filesystem::path& folder, const Matrices& tensors,
                      const nlohmann::json& config) {
  std::filesystem::create_directories(folder);
  WriteFile(folder / "adapter_config.json", config.dump());
  WriteFile(folder / "adapter_model.safetensors", SafetensorsOf(tensors));
}

}  // namespace oort::testing
