// SPDX-License-Identifier: MIT
// How long a network takes in bytes and in floats, taken by turns on this machine.
#pragma once

#include <string>
#include <vector>

#include "quantize/calibrate.h"

namespace oort::quantize {

struct LayerSpeed {
  std::string name;
  double float_seconds = 0, seconds = 0;  ///< least of all turns; 0 where it ran inside another
};

struct Speed {
  int threads = 0;
  double float_seconds = 0;  ///< of one forward; 0 where nothing was measured
  double seconds = 0;        ///< of one forward with bytes
  std::string float_name;    ///< which floats were the fastest: f32, bf16 or f16
  std::vector<LayerSpeed> layers;

  bool measured() const { return float_seconds > 0 && seconds > 0; }
  /// Above 1 where bytes are faster.
  double Ratio() const { return measured() ? float_seconds / seconds : 0; }
  /// Layers that take longer in bytes than in floats, those first that lose most.
  std::vector<std::string> Slower() const;
};

/// Zeros of the sizes that a network was traced with; nothing where its file does not tell.
std::vector<Tensor> TracedInputs(const Graph& graph);

/// Runs both on one sample. `names` are the layers to look at.
Speed MeasureSpeed(const Graph& exact, const Graph& rough, const std::vector<Tensor>& inputs,
                   const std::vector<std::string>& names, int threads, const Watcher& watcher);

}  // namespace oort::quantize
