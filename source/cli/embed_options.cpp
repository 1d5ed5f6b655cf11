// SPDX-License-Identifier: MIT
#include "cli/embed_options.h"

namespace oort::cli {

void PoolingOptions::Add(CLI::App& app) {
  app.add_option("--pooling", pooling,
                 "How hidden states become one vector: mean, cls or auto (as the model says)")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "mean", "cls"}));
  app.add_flag("--no-normalize", raw, "Leave vectors as they are, instead of making them length 1");
}

void PoolingOptions::Apply(EmbedderOptions& options) const {
  options.pooling = pooling == "mean"  ? Pooling::kMean
                    : pooling == "cls" ? Pooling::kCls
                                       : Pooling::kAuto;
  options.normalize = !raw;
}

}  // namespace oort::cli
