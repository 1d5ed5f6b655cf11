// SPDX-License-Identifier: MIT
// Language models in fewer bits, layer by layer, by what a text shows of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "llm_quantize/importance.h"
#include "llm_quantize/language_recipe.h"
#include "oort/pnnx.h"
#include "weights/weight_format.h"

namespace oort::llm_quantize {

enum class Method : unsigned char {
  kSearch,      ///< scales with the least error of the weights themselves; needs no text
  kImportance,  ///< the same, where errors weigh by the inputs of their columns
  kGptq,        ///< and what rounding loses in one column is made good in those behind it
  kAwq,         ///< columns with large inputs are made larger first, and the norm before smaller
  kSmooth,      ///< the same by powers of two, and nothing is rounded: for products of bytes
};
/// "search", "imatrix", "gptq", "awq" or "smooth"; throws kInvalidArgument for others, which names
/// these.
Method MethodNamed(std::string_view name);
std::string_view Name(Method method);

struct LanguageQuantizeOptions {
  /// "int4" or "int8", a type of GGUF that can be written ("q4_0", "q4_k", …), or a mixture of such
  /// ("q4_k_m"). A GGUF has its own types alone: there int4 and int8 are Q4_0 and Q8_0, or Q4_1
  /// where it is asymmetric. With kSmooth matrices keep their types: nothing is said of any.
  std::string weights = "int4";
  std::optional<int64_t> group;  ///< of int4 and int8: weights that share a scale (32)
  bool asymmetric = false;       ///< of int4 and int8: groups have a minimum, too
  /// Most bits of a weight of the layers: each matrix gets the type with which all together lose
  /// least. Embeddings and head, which do not count, are as without.
  std::optional<double> budget;
  std::vector<MatrixRule> rules;  ///< what becomes of some matrices, whatever else is said
  std::map<std::string, MatrixType> picked;  ///< what an earlier run made of each
  Method method = Method::kGptq;
  /// The text, as tokens of the model; not for kSearch, nor for kImportance with `importance`.
  std::vector<int32_t> tokens;
  int64_t most_tokens = 16384;
  int64_t window = 512;
  std::optional<Importance> importance;  ///< instead of a text
  double damping = 0.01;
  bool act_order = true;
  int threads = 0;
  /// Rounded matrices are kept in OUTPUT.partial until all are done, and a run that finds them
  /// there takes them from there. Not for kAwq and kSmooth.
  bool resume = false;
  std::stop_token stop;
  ProgressFunction progress;
};

struct MatrixReport {
  std::string name;
  WeightFormat format{};
  int64_t weights = 0;
  uint64_t bytes = 0;
  int64_t group = 0;     ///< of Oort's own formats
  bool kept = false;     ///< it is what it was
  bool resumed = false;  ///< an earlier run has rounded it
  /// Squared error of what the matrix gives for the text, by what it should give. Without a text:
  /// of the weights themselves; by kImportance columns count by their inputs, each for itself.
  double relative_error = 0;
  double seconds = 0;
};

struct LanguageQuantizeResult {
  std::vector<MatrixReport> matrices;
  Importance importance;  ///< what the text showed, or what was given
  int64_t tokens = 0;     ///< of the text that were used
  double BitsPerWeight() const;
  double LayerBitsPerWeight() const;  ///< without embeddings and head
};

/// `output` ends in .gguf, for a model that is a GGUF, or in .param, whose .bin goes beside it.
/// Throws before anything is computed where options make no sense for the model. Nothing appears
/// unless it is whole. The same options and text give the same bytes, whatever the threads.
LanguageQuantizeResult QuantizeLanguage(const std::filesystem::path& model,
                                        const std::filesystem::path& output,
                                        const LanguageQuantizeOptions& options);

/// A text as tokens of a model, of which only the tokenizer is read.
std::vector<int32_t> EncodeText(const std::filesystem::path& model, std::string_view text);

/// The importance of a model's columns for a text alone; nothing is quantized.
Importance MeasureImportance(const std::filesystem::path& model,
                             const LanguageQuantizeOptions& options);

}  // namespace oort::llm_quantize
