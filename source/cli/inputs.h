// SPDX-License-Identifier: MIT
// Inputs of a model: their shapes from the trace or the command line, random ones, files.
#pragma once

#include <string>
#include <vector>

#include "oort/image.h"
#include "oort/oort.h"

namespace CLI {
class App;
}

namespace oort::cli {

/// "1,3,224,224" (also with parentheses or 'x'); throws UsageError.
Shape ParseShape(const std::string& text);

/// Shape and dtype of every input: as traced, unless one of `shapes` ("in0=1,3,320,320", or
/// without a name for the only input) says otherwise. An unknown batch counts as 1.
std::vector<Tensor> InputMetas(const std::vector<Port>& ports,
                               const std::vector<std::string>& shapes);

/// Elements for metas: floats in [0,1), integers 0 or 1 (legal as indices almost everywhere).
std::vector<Tensor> RandomInputs(const std::vector<Tensor>& metas);

/// --mean, --std and --invert.
void AddNormalization(CLI::App& app, Normalization& normalization);
/// Throws UsageError where pixels would be divided by 0.
void CheckNormalization(const Normalization& normalization);

/// One input from a .npy file or a picture; `picture` is set where it is one.
Tensor ReadInput(const Port& port, const std::string& path, const Normalization& normalization,
                 bool& picture);

/// One input for each port from "x.npy", "picture.png", or "name=file" in any order.
std::vector<Tensor> ReadInputs(const std::vector<Port>& ports,
                               const std::vector<std::string>& files,
                               const Normalization& normalization);

/// What `bench` and `profile` measure: how many runs, of which inputs.
struct MeasuredRuns {
  int runs = 20, warmup = 3;
  std::vector<std::string> shapes, files;
  void Add(CLI::App& app, int most);
  /// Of the files, or random ones.
  std::vector<Tensor> Inputs(const std::vector<Port>& ports) const;
};

}  // namespace oort::cli
