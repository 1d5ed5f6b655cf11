// SPDX-License-Identifier: MIT
// The operators of this build, in families, described from their schemas.
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "oort/layer.h"

namespace oort::cli {

struct Family {
  std::string name;  ///< the folder in layers/; "other" for what is not from there
  std::vector<const OperatorSchema*> schemas;
};

/// Every schema of LayerRegistry::Global() once; sorted.
std::vector<Family> Catalog();

std::string DTypeNames(DTypeSet dtypes);  ///< "f32 f64", "any"
/// The dtypes of the first tensor that it takes, or "" if it takes none.
std::string SupportedDTypes(const OperatorSchema& schema);

Json CatalogJson(const std::vector<Family>& families);
/// The whole of docs/operators.md.
std::string CatalogMarkdown(const std::vector<Family>& families);

}  // namespace oort::cli
