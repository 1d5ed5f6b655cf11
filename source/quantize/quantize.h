// SPDX-License-Identifier: MIT
// A float network and samples in; a network with bytes, the recipe that made it, and a report out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quantize/evaluate.h"
#include "quantize/integer_graph.h"
#include "quantize/recipe.h"
#include "quantize/speed.h"

namespace oort::quantize {

struct QuantizeOptions {
  Recipe recipe;
  /// For ranges and corrections. Every tenth one is held back to judge by, if there are ten.
  Samples samples;
  /// What the result is judged by instead of those held back; none where its count is 0.
  Samples test;
  /// The class of every sample of `test`, or of `samples` without it; empty for none.
  std::vector<int64_t> labels;
  /// Most that may be lost, as a share (see Agreement::Drop): layers go back to float until it is.
  std::optional<double> budget;
  /// Measure the error of each layer, alone and behind all others.
  bool analyse = false;
  /// Measure how long both networks take, if there is a sample.
  bool measure = false;
  int threads = 0;
  Watcher watcher;
};

struct LayerReport {
  std::string name, type;
  bool quantized = false;
  std::string why_float;
  double weight_sqnr = 0;  ///< dB
  ErrorMeter alone;        ///< of the network's outputs, this layer alone in bytes
  ErrorMeter accumulated;  ///< of what it gives, all layers before it in bytes, too
};

struct PointReport {
  std::vector<std::string> operands;  ///< all that share the scale
  double min = 0, max = 0;            ///< as observed; both 0 where a recipe gave the range
  Range range;
  Grid grid;
  double clipped = 0;           ///< share of the values outside of the range
  bool constant = false;        ///< nothing but zeros came
  std::vector<double> outline;  ///< shares of values in equal bins between min and max
};

struct QuantizeReport {
  /// Of the ranges: its name, "recipe" where all were given, "row" where they are dynamic.
  std::string method;
  bool dynamic = false;
  bool corrected = false;
  size_t samples = 0, judged = 0;
  size_t float_weights = 0, weights = 0;  ///< bytes before and after
  Evaluation result;                      ///< of the whole network; empty without samples
  Speed speed;                            ///< where it was measured
  std::vector<LayerReport> layers;
  std::vector<PointReport> points;
  std::vector<std::string> warnings;
};

struct QuantizeResult {
  Graph graph;
  Recipe recipe;
  QuantizeReport report;
};

/// Throws kInvalidArgument where samples are missing, are not finite, or nothing can be quantized.
QuantizeResult Quantize(Graph graph, const QuantizeOptions& options);

}  // namespace oort::quantize
