// SPDX-License-Identifier: MIT
// Finding, loading and feeding a model: what most commands have in common.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/device_option.h"
#include "oort/oort.h"
#include "oort/precision_choice.h"

namespace oort::cli {

/// The two files of a model; `bin` is empty where there is none.
struct ModelFiles {
  std::filesystem::path param, bin;

  std::shared_ptr<const ByteSource> OpenParam() const { return ByteSource::File(param); }
  /// Null where there is no .bin. Throws kNotFound if the operators of `graph` need one.
  std::shared_ptr<const ByteSource> OpenBin(const Graph& graph) const;
};

/// `model` is a .param file or a folder with model.pnnx.param or exactly one *.pnnx.param.
/// Throws kNotFound, also when `bin` is given and not there.
ModelFiles FindModel(const std::string& model, const std::string& bin = "");

/// What MODEL may be.
inline constexpr const char* kNetwork = "A .pnnx.param file, or a folder that holds one";
inline constexpr const char* kAnyModel =
    "A .pnnx.param file or a folder that holds one; or a language model: a GGUF file, a folder of "
    "Hugging Face, a llama2.c checkpoint";

/// Options that several commands share, and the model they lead to.
struct ModelOptions {
  std::string model, bin, isa, precision = "f32", conv;
  DeviceOption device;
  int threads = 0;
  bool no_passes = false;
  std::vector<std::string> without;
  bool no_checksums = false;

  /// MODEL and --bin.
  void AddModel(CLI::App& app, const char* what = kNetwork);
  /// --device, --isa, --no-passes, --without and --no-checksums.
  void AddLoad(CLI::App& app);
  void AddThreads(CLI::App& app);
  /// --conv
  void AddConv(CLI::App& app);

  /// Whether the precision is to be found by trying (--precision auto); Load() then says f32.
  bool IsAuto() const;
  LoadOptions Load() const;
  /// The model in the precision that IsAuto finds, which it tells on stderr.
  PrecisionChoice ChooseModel(const ModelFiles& files, LoadOptions options) const;
  SessionOptions ForSession() const { return {.threads = threads}; }
  std::shared_ptr<const RuntimeGraph> LoadModel() const;
};

/// Reads and builds; shows progress on a terminal when it takes long.
std::shared_ptr<const RuntimeGraph> LoadModel(const ModelFiles& files, LoadOptions options);

/// The outputs as tensors: numbers become tensors of rank 0, lists are flattened.
std::vector<Tensor> Forward(Session& session, const std::vector<Tensor>& inputs,
                            const RunOptions& options = {});

/// "pnnx_input_0 (1,3,224,224)f32"
std::string Describe(const Port& port);

}  // namespace oort::cli
