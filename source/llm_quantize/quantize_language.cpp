// SPDX-License-Identifier: MIT
#include "llm_quantize/quantize_language.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <sstream>

#include "core/cpu_limits.h"
#include "core/guard.h"
#include "core/parallel.h"
#include "core/problems.h"
#include "cpu/lapack.h"
#include "llm_quantize/awq.h"
#include "llm_quantize/budget.h"
#include "llm_quantize/gptq.h"
#include "llm_quantize/hessian.h"
#include "llm_quantize/layer_stream.h"
#include "llm_quantize/outputs.h"
#include "llm_quantize/partial_work.h"
#include "llm_quantize/smooth.h"
#include "llm_quantize/targets.h"
#include "oort/tokenizer.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/pnnx/weights.h"
#include "tokenizer/tokenizer_of.h"

namespace oort::llm_quantize {
namespace {

constexpr std::array<std::string_view, 5> kMethodNames = {"search", "imatrix", "gptq", "awq",
                                                          "smooth"};

/// Whether it changes norms, too.
bool Scales(Method method) { return method == Method::kAwq || method == Method::kSmooth; }

bool NeedsText(const LanguageQuantizeOptions& options) {
  if (options.method == Method::kSearch) return false;
  return options.method != Method::kImportance || !options.importance;
}

/// The norm that gives the inputs of a matrix, and of those that are scaled with it alone; empty
/// where something else does.
std::string NormBefore(const std::string& name, const DecoderConfig& config) {
  if (!config.pre_norms || config.block == DecoderConfig::Block::kParallelOneNorm) return "";
  const size_t at = name.find(".self_attn.");
  if (at != name.npos) {
    return name.ends_with(".o_proj.weight") ? "" : name.substr(0, at) + ".input_layernorm";
  }
  const size_t mlp = name.find(".mlp.");
  if (mlp == name.npos || name.ends_with(".down_proj.weight")) return "";
  return name.substr(0, mlp) + "." + std::string(config.FeedForwardNorm());
}

std::vector<std::vector<std::string>> MatricesOfLayer(int64_t layer, bool gated) {
  const std::string name = "model.layers." + std::to_string(layer);
  std::vector<std::string> up = {name + ".mlp.up_proj.weight"};
  if (gated) up.insert(up.begin(), name + ".mlp.gate_proj.weight");
  return {{name + ".self_attn.q_proj.weight", name + ".self_attn.k_proj.weight",
           name + ".self_attn.v_proj.weight"},
          {name + ".self_attn.o_proj.weight"},
          up,
          {name + ".mlp.down_proj.weight"}};
}

/// f32 in the type that it was made of.
StoredMatrix AsBefore(const StoredMatrix& values, WeightFormat format) {
  constexpr float kMostOfF16 = 65504;
  const auto fits = [](float value) { return std::abs(value) <= kMostOfF16; };
  if (format == WeightFormat::kF32) return values;
  if (format == WeightFormat::kF16 && !std::ranges::all_of(values.data.span<float>(), fits)) {
    throw Error(ErrorCode::kUnsupported,
                "f16 has no room for a weight that was scaled: convert the model to bf16 first");
  }
  StoredMatrix stored = AllocateStored({format, 1, DType::kF32}, values.rows, values.columns);
  QuantizeRows(values.data.data<float>(), 0, values.rows, stored);
  return stored;
}

/// Calls `visit` with all matrices of the model as it is and what the text gives them.
template <typename Visit>
void VisitText(const Checkpoint& checkpoint, const LanguageQuantizeOptions& options,
               const Visit& visit) {
  const DecoderConfig& config = checkpoint.config();
  LayerStream stream(
      checkpoint,
      CutIntoWindows(options.tokens, options.window, options.most_tokens, config.vocabulary),
      options.window, options.threads, options.stop);
  uint64_t visited = 0;
  const auto total = static_cast<uint64_t>(4 * config.layers + 1);
  stream.Run([&](std::span<const std::string> names, Tensor& inputs) {
    visit(names, ColumnImportance{MeanSquares(inputs), inputs.dim(0)}, inputs);
    if (options.progress) options.progress({"calibrate", ++visited, total});
  });
}

/// One matrix after the other, with or without what a text shows of them.
class LanguageQuantizer {
 public:
  LanguageQuantizer(const Checkpoint& checkpoint, const LanguageQuantizeOptions& options,
                    bool as_gguf)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        options_(options),
        threads_(options.threads > 0 ? options.threads : AvailableThreads()),
        targets_(options, config_, as_gguf),
        weights_(checkpoint) {
    if (config_.experts.count > 0 || config_.latent.rank > 0 || config_.state_space.heads > 0 ||
        config_.altup.streams > 0) {
      throw Error(
          ErrorCode::kUnsupported,
          "weights of a mixture of experts, of latent attention, of layers with a state, or of "
          "several residual streams cannot be quantized with what a text shows of them; oort "
          "convert --weights int4 rounds them");
    }
    if (options.method == Method::kGptq) lapack::Require();
    if (options.method == Method::kSmooth) RequirePlainWeights();
    std::vector<std::string> names = LayerNames();
    for (const std::string& name : Tables()) names.push_back(name);
    targets_.CheckNames(names);
    for (const std::string& name : names) CheckTarget(name);
    if (options.budget) KeepBudget();
  }

  /// Takes what an earlier run left in that folder, and leaves there what this one does.
  void Resume(const std::filesystem::path& folder, const std::filesystem::path& model) {
    std::error_code ignored;
    std::ostringstream key;
    key << model.string() << ' ' << std::filesystem::file_size(model, ignored) << ' '
        << Name(options_.method) << ' ' << options_.damping << ' ' << options_.act_order << ' '
        << options_.window << ' ' << options_.most_tokens << ' '
        << Fingerprint(options_.tokens.data(), options_.tokens.size() * sizeof(int32_t)) << '\n';
    if (options_.importance) {
      for (const auto& [name, seen] : *options_.importance) {
        const size_t bytes = seen.mean_squares.size() * sizeof(float);
        key << name << ' ' << Fingerprint(seen.mean_squares.data(), bytes) << '\n';
      }
    }
    for (const std::string& name : LayerNames()) {
      if (const auto target = TargetOf(name)) {
        key << name << ' ' << Name(target->format) << ' ' << target->group << '\n';
      }
    }
    partial_.emplace(folder, key.str());
  }

  OverlayCheckpoint& weights() { return weights_; }
  WeightFormat FormatFor(const std::string& name) const {
    const StoredMatrix from = checkpoint_.Matrix(name);
    const auto target = targets_.For(name, from);
    return target ? target->format : from.format;
  }

  LanguageQuantizeResult Run(ModelOutput& output) {
    output_ = &output;
    if (NeedsText(options_)) {
      RunText();
    } else {
      for (int64_t layer = 0; layer < config_.layers; ++layer) {
        for (const auto& names : MatricesOfLayer(layer, config_.gated)) Visit(names, nullptr);
      }
      if (options_.importance) result_.importance = *options_.importance;
    }
    for (const std::string& name : Tables()) {
      if (!head_done_ || name != HeadName()) Quantize(name, ImportanceOf(name), nullptr);
    }
    output.Finish();
    if (partial_) partial_->Remove();
    return std::move(result_);
  }

 private:
  std::string HeadName() const {
    return config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight";
  }
  std::vector<std::string> LayerNames() const {
    std::vector<std::string> all;
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      for (const auto& names : MatricesOfLayer(layer, config_.gated)) {
        all.insert(all.end(), names.begin(), names.end());
      }
    }
    return all;
  }
  void RequirePlainWeights() const {
    for (const std::string& name : LayerNames()) {
      const WeightFormat format = checkpoint_.Matrix(name).format;
      if (LayoutOf(checkpoint_.Matrix(name)).bits == 0) continue;
      throw Error(ErrorCode::kUnsupported,
                  name + " is in " + std::string(Name(format)) +
                      ": smooth scales weights of 16 and 32 bits, which have no groups");
    }
  }
  /// What the text shows of the model as it is decides which matrices get more bits.
  void KeepBudget() {
    BudgetPicker picker(checkpoint_, targets_, threads_);
    const auto try_all = [&](std::span<const std::string> names, const ColumnImportance* seen,
                             const Tensor* inputs) {
      const ThreadLease lease(threads_);
      const std::vector<float> counts =
          seen == nullptr ? std::vector<float>{} : ErrorWeights(*seen);
      for (const std::string& name : names) {
        if (name.starts_with("model.layers.")) picker.Try(name, counts, inputs);
      }
    };
    if (NeedsText(options_)) {
      VisitText(checkpoint_, options_,
                [&](std::span<const std::string> names, const ColumnImportance& seen,
                    const Tensor& inputs) { try_all(names, &seen, &inputs); });
    } else {
      for (const std::string& name : LayerNames()) {
        const auto known = options_.importance ? options_.importance->find(name) : Known{};
        const bool has = options_.importance && known != options_.importance->end();
        try_all({&name, 1}, has ? &known->second : nullptr, nullptr);
      }
    }
    picker.Pick(*options_.budget, targets_);
  }
  using Known = Importance::const_iterator;

  std::vector<std::string> Tables() const {
    std::vector<std::string> names = {"model.embed_tokens.weight"};
    if (!config_.tied_head) names.emplace_back("lm_head.weight");
    return names;
  }

  void CheckTarget(const std::string& name) {
    const StoredMatrix from = checkpoint_.Matrix(name);
    try {
      if (const auto target = targets_.For(name, from)) WeightGrid(*target, from.columns);
    } catch (const Error& error) {
      throw error.WithContext(name + ": ");
    }
    total_ += static_cast<uint64_t>(from.rows * from.columns);
  }

  void RunText() {
    std::vector<int32_t> tokens =
        CutIntoWindows(options_.tokens, options_.window, options_.most_tokens, config_.vocabulary);
    result_.tokens = static_cast<int64_t>(tokens.size());
    // Importance is that of the model as it was, as in llama.cpp; the others see what is left of
    // it, so that a layer can make good what those before it lost.
    const bool as_it_was = options_.method == Method::kImportance;
    LayerStream stream(as_it_was ? checkpoint_ : weights_, std::move(tokens), options_.window,
                       options_.threads, options_.stop);
    stream.Run(
        [this](std::span<const std::string> names, Tensor& inputs) { Visit(names, &inputs); });
  }

  void Visit(std::span<const std::string> names, Tensor* inputs) {
    const ThreadLease lease(threads_);
    if (inputs != nullptr) {
      ColumnImportance seen{MeanSquares(*inputs), inputs->dim(0)};
      for (const std::string& name : names) result_.importance[name] = seen;
    }
    const bool is_head = names.front() == HeadName();
    head_done_ = head_done_ || is_head;
    if (Scales(options_.method) && inputs != nullptr) Scale(names, *inputs);
    std::optional<GptqRounder> rounder;
    const bool wanted = std::ranges::any_of(
        names, [&](const std::string& name) { return TargetOf(name) && !Resumed(name); });
    if (options_.method == Method::kGptq && inputs != nullptr && wanted) {
      rounder.emplace(HessianOf(*inputs, threads_), inputs->dim(1),
                      GptqOptions{options_.damping, options_.act_order, threads_});
    }
    for (const std::string& name : names) {
      Quantize(name, ImportanceOf(name), rounder ? &*rounder : nullptr);
    }
    if (names.front().ends_with(".mlp.down_proj.weight")) output_->FinishLayer(layer_++);
  }

  /// What an earlier run made of a matrix.
  std::optional<RoundedMatrix> Resumed(const std::string& name) const {
    const StoredMatrix from = checkpoint_.Matrix(name);
    const auto target = targets_.For(name, from);
    if (!partial_ || !target) return std::nullopt;
    return partial_->Load(name, *target, from.rows, from.columns);
  }
  RoundedMatrix Rounded(const std::string& name, const StoredMatrix& from,
                        const QuantizeOptions& target, std::span<const float> importance,
                        const GptqRounder* rounder, MatrixReport& report) const {
    if (auto before = Resumed(name)) {
      report.resumed = true;
      return std::move(*before);
    }
    RoundedMatrix rounded = rounder != nullptr ? rounder->Round(from, target, importance)
                                               : RoundToNearest(from, target, importance, threads_);
    if (partial_) partial_->Save(name, rounded);
    return rounded;
  }

  std::optional<QuantizeOptions> TargetOf(const std::string& name) const {
    return targets_.For(name, checkpoint_.Matrix(name));
  }

  /// What an error in each column of that matrix weighs; empty where nothing is known.
  std::vector<float> ImportanceOf(const std::string& name) const {
    if (options_.method == Method::kSearch) return {};
    const Importance& known = options_.importance && options_.method == Method::kImportance
                                  ? *options_.importance
                                  : result_.importance;
    const auto at = known.find(name);
    return at == known.end() ? std::vector<float>{} : ErrorWeights(at->second);
  }

  /// Moves factors from the norm before some matrices into their columns; with kSmooth also from
  /// the product that a gate is multiplied with.
  void Scale(std::span<const std::string> names, Tensor& inputs) {
    const std::string norm = NormBefore(names.front(), config_);
    const auto target = TargetOf(names.front());
    const bool smooth = options_.method == Method::kSmooth;
    const std::string_view down = ".down_proj.weight";
    const bool behind_gate = smooth && config_.gated && names.front().ends_with(down);
    if ((norm.empty() && !behind_gate) || (!target && !smooth)) return;
    std::vector<StoredMatrix> matrices;
    for (const std::string& name : names) matrices.push_back(checkpoint_.Matrix(name));
    ColumnImportance& seen = result_.importance[names.front()];
    const std::vector<float> factors =
        smooth ? SmoothFactors(matrices, inputs)
               : AwqFactors(matrices, *target, seen.mean_squares, threads_);
    for (size_t i = 0; i < names.size(); ++i) {
      scaled_[names[i]] = ScaleColumns(matrices[i], factors);
      if (smooth) scaled_[names[i]] = AsBefore(scaled_[names[i]], matrices[i].format);
    }
    if (behind_gate) {
      const std::string up =
          names.front().substr(0, names.front().size() - down.size()) + ".up_proj";
      DivideRows(up + ".weight", factors);
      DivideVector(up + ".bias", factors);
    } else {
      for (const char* part : {".weight", ".bias"}) DivideVector(norm + part, factors);
    }
    const int64_t columns = inputs.dim(1);
    float* x = inputs.data<float>();
    for (int64_t row = 0; row < inputs.dim(0); ++row) {
      for (int64_t k = 0; k < columns; ++k) *x++ /= factors[static_cast<size_t>(k)];
    }
    const ColumnImportance now{MeanSquares(inputs), inputs.dim(0)};
    for (const std::string& name : names) result_.importance[name] = now;
  }

  void DivideVector(const std::string& name, std::span<const float> factors) {
    if (!checkpoint_.Has(name)) return;
    Tensor vector = checkpoint_.Vector(name).Clone();
    for (size_t k = 0; k < factors.size(); ++k) vector.data<float>()[k] /= factors[k];
    weights_.SetVector(name, vector);
  }
  /// Of a matrix of this layer that is done already.
  void DivideRows(const std::string& name, std::span<const float> factors) {
    const StoredMatrix from = weights_.Matrix(name);
    const std::vector<float> none(static_cast<size_t>(from.columns), 1);
    StoredMatrix divided = ScaleColumns(from, none);
    float* values = divided.data.data<float>();
    for (const float factor : factors) {
      for (int64_t column = 0; column < from.columns; ++column) *values++ /= factor;
    }
    weights_.SetMatrix(name, AsBefore(divided, from.format));
  }

  void Quantize(const std::string& name, std::span<const float> importance,
                const GptqRounder* rounder) {
    pnnx::CheckStop(options_.stop);
    const auto start = std::chrono::steady_clock::now();
    const auto scaled = scaled_.find(name);
    const StoredMatrix from = scaled == scaled_.end() ? checkpoint_.Matrix(name) : scaled->second;
    const auto target = TargetOf(name);
    MatrixReport report{name, from.format, from.rows * from.columns, 0, 0, !target, false, 0, 0};
    if (target) {
      try {
        RoundedMatrix rounded = Rounded(name, from, *target, importance, rounder, report);
        report.format = target->format;
        report.relative_error = rounded.relative_error;
        weights_.SetMatrix(name, std::move(rounded.matrix));
      } catch (const Error& error) {
        throw error.WithContext(name + ": ");
      }
    }
    if (!target && scaled != scaled_.end()) weights_.SetMatrix(name, scaled->second);
    if (scaled != scaled_.end()) scaled_.erase(scaled);
    const StoredMatrix made = weights_.Matrix(name);
    report.bytes = made.data.bytes() + made.scale.bytes() + made.minimum.bytes();
    report.group = made.scale.defined() ? OptionsOf(made).group : 0;
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result_.matrices.push_back(report);
    done_ += static_cast<uint64_t>(report.weights);
    if (options_.progress) options_.progress({"quantize", done_, total_});
  }

  const Checkpoint& checkpoint_;
  const DecoderConfig& config_;
  const LanguageQuantizeOptions& options_;
  int threads_;
  Targets targets_;
  std::optional<PartialWork> partial_;
  OverlayCheckpoint weights_;
  ModelOutput* output_ = nullptr;
  LanguageQuantizeResult result_;
  std::map<std::string, StoredMatrix> scaled_;  ///< by AWQ, of the matrices at hand
  int64_t layer_ = 0;
  bool head_done_ = false;
  uint64_t done_ = 0, total_ = 0;
};

void CheckOptions(const LanguageQuantizeOptions& options) {
  if (NeedsText(options) && options.tokens.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the method " + Quote(Name(options.method)) +
                    " needs a text to calibrate with; 'search' does without");
  }
  if (options.resume && Scales(options.method)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a run of " + std::string(Name(options.method)) +
                    ", which changes norms, too, cannot go on later: take gptq or imatrix");
  }
  const bool has_types = options.group || options.asymmetric || options.budget ||
                         !options.rules.empty() || !options.picked.empty();
  if (options.method == Method::kSmooth && has_types) {
    throw Error(ErrorCode::kInvalidArgument,
                "smooth rounds nothing: leave out groups, minimums, a budget and rules");
  }
  if (!(options.damping > 0 && options.damping <= 1)) {
    throw Error(ErrorCode::kInvalidArgument, "a damping is above 0 and at most 1");
  }
}

void RequireOtherFile(const std::filesystem::path& model, const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(model, output, ignored)) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the output would overwrite the model itself: " + Quote(output.string()));
}

}  // namespace

Method MethodNamed(std::string_view name) {
  const auto at = std::ranges::find(kMethodNames, name);
  if (at != kMethodNames.end()) return static_cast<Method>(at - kMethodNames.begin());
  throw Error(ErrorCode::kInvalidArgument,
              "there is no method " + Quote(name) +
                  " for language models: there are search, imatrix, gptq, awq and smooth");
}

std::string_view Name(Method method) { return kMethodNames[static_cast<size_t>(method)]; }

namespace {

double BitsOf(const std::vector<MatrixReport>& matrices, std::string_view prefix) {
  double bytes = 0, weights = 0;
  for (const MatrixReport& matrix : matrices) {
    if (!matrix.name.starts_with(prefix)) continue;
    bytes += static_cast<double>(matrix.bytes);
    weights += static_cast<double>(matrix.weights);
  }
  return weights > 0 ? 8 * bytes / weights : 0;
}

}  // namespace

double LanguageQuantizeResult::BitsPerWeight() const { return BitsOf(matrices, ""); }
double LanguageQuantizeResult::LayerBitsPerWeight() const {
  return BitsOf(matrices, "model.layers.");
}

LanguageQuantizeResult QuantizeLanguage(const std::filesystem::path& model,
                                        const std::filesystem::path& output,
                                        const LanguageQuantizeOptions& options) {
  return Guarded([&] {
    const bool as_gguf = output.extension() == ".gguf";
    if (!as_gguf && output.extension() != ".param") {
      throw Error(ErrorCode::kInvalidArgument,
                  "the output ends in .gguf or .pnnx.param, not as " + Quote(output.string()));
    }
    RequireOtherFile(model, output);
    CheckOptions(options);
    const auto checkpoint = Checkpoint::Open(model);
    LanguageQuantizer quantizer(*checkpoint, options, as_gguf);
    if (options.resume) quantizer.Resume(output.string() + ".partial", model);
    const auto made =
        as_gguf ? MakeGgufOutput(model, output, quantizer.weights(),
                                 [&](const std::string& name) { return quantizer.FormatFor(name); })
                : MakeParamOutput(output, quantizer.weights());
    return quantizer.Run(*made);
  });
}

std::vector<int32_t> EncodeText(const std::filesystem::path& model, std::string_view text) {
  return Guarded(
      [&] { return tokenizer::TokenizerOf(Checkpoint::Open(model)->tokenizer()).Encode(text); });
}

Importance MeasureImportance(const std::filesystem::path& model,
                             const LanguageQuantizeOptions& options) {
  return Guarded([&] {
    Importance importance;
    VisitText(*Checkpoint::Open(model), options,
              [&](std::span<const std::string> names, const ColumnImportance& seen, const Tensor&) {
                for (const std::string& name : names) importance[name] = seen;
              });
    return importance;
  });
}

}  // namespace oort::llm_quantize
