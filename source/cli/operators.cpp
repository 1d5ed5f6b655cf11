// SPDX-License-Identifier: MIT
#include <iostream>
#include <utility>

#include "cli/catalog.h"
#include "cli/command.h"

namespace oort::cli {
namespace {

struct OperatorsArguments {
  bool markdown = false, json = false;
  std::string name;
};

int Operators(const OperatorsArguments& options) {
  std::vector<Family> families = Catalog();
  if (!options.name.empty()) {
    families = OperatorsNamed(families, options.name);
    if (families.empty()) {
      throw Error(ErrorCode::kNotFound, "no operator has '" + options.name +
                                            "' in its name: 'oort operators' lists them");
    }
  }
  if (options.markdown) {
    std::cout << CatalogMarkdown(families);
  } else if (options.json) {
    Print(std::cout, CatalogJson(families));
  } else if (!options.name.empty()) {
    const char* gap = "";
    for (const Family& family : families) {
      for (const OperatorSchema* schema : family.schemas) {
        PrintOperator(std::cout << std::exchange(gap, "\n"), family.name, *schema);
      }
    }
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
  app.add_option("name", options->name, "Only operators with this in their name, with arguments")
      ->type_name("NAME");
  CLI::Option* markdown = app.add_flag("--markdown", options->markdown, "Print docs/operators.md");
  markdown->excludes(app.get_option("name"));
  app.add_flag("--json", options->json, "Print JSON")->excludes(markdown);
  app.footer(
      "Everything is read off the declarations that also check a model when it is loaded.\n"
      "Example: all arguments of one operator\n"
      "  oort operators nn.Conv2d");
  return [options] { return Operators(*options); };
}

}  // namespace oort::cli
