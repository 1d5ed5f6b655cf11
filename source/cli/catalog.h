// SPDX-License-Identifier: MIT
// The operators of this build, in families, described from their schemas.
#pragma once

#include <iosfwd>
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

/// Those of which a type has the text in its name, in letters of either case.
std::vector<Family> OperatorsNamed(const std::vector<Family>& families, const std::string& text);

std::string DTypeNames(DTypeSet dtypes);  ///< "f32 f64", "any"
/// The dtypes of the first tensor that it takes, or "" if it takes none.
std::string SupportedDTypes(const OperatorSchema& schema);

/// What an operator takes and makes, for a terminal.
void PrintOperator(std::ostream& out, const std::string& family, const OperatorSchema& schema);
Json CatalogJson(const std::vector<Family>& families);
/// The whole of docs/operators.md.
std::string CatalogMarkdown(const std::vector<Family>& families);

}  // namespace oort::cli
