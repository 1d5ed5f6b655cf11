// SPDX-License-Identifier: MIT
#include <iostream>

#include "cli/catalog.h"
#include "cli/command.h"

namespace oort::cli {
namespace {

struct OperatorsArguments {
  bool markdown = false, json = false;
};

int Operators(const OperatorsArguments& options) {
  const std::vector<Family> families = Catalog();
  if (options.markdown) {
    std::cout << CatalogMarkdown(families);
  } else if (options.json) {
    Print(std::cout, CatalogJson(families));
  } else {
    Table table({{"operator"}, {"family"}, {"dtypes"}, {"what it does"}});
    for (const Family& family : families) {
      for (const OperatorSchema* schema : family.schemas) {
        table.Row({Join(schema->types(), " "), family.name, SupportedDTypes(*schema),
                   SingleLine(schema->doc())});
      }
    }
    table.Print(std::cout);
  }
  return 0;
}

}  // namespace

Action AddOperators(CLI::App& app) {
  auto options = std::make_shared<OperatorsArguments>();
  CLI::Option* markdown = app.add_flag("--markdown", options->markdown, "Print docs/operators.md");
  app.add_flag("--json", options->json, "Print JSON")->excludes(markdown);
  app.footer(
      "Everything is read off the declarations that also check a model when it is loaded.\n"
      "Example: all arguments of one operator\n"
      "  oort operators --json | jq '.[] | select(.types[] == \"nn.Conv2d\")'");
  return [options] { return Operators(*options); };
}

}  // namespace oort::cli
