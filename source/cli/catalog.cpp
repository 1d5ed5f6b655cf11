// SPDX-License-Identifier: MIT
#include "cli/catalog.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "cli/families.h"
#include "text/utf8.h"

namespace oort::cli {
namespace {

constexpr int64_t kLongestLine = 120;  // of docs/operators.md, as of all pages

/// What pnnx calls a string or a list, in a form that reads well in a table.
std::string DefaultText(const ArgSpec& arg) {
  if (arg.variadic) return "";
  if (arg.required) return "required";
  return arg.fallback.IsNone() ? "None" : arg.fallback.ToString();
}

std::string KindText(const ArgSpec& arg) {
  if (arg.attribute) return "weight";
  if (arg.type == ArgType::kTensor) return arg.variadic ? "inputs" : "input";
  return arg.dynamic ? "parameter or input" : "parameter";
}

std::string BareName(const ArgSpec& arg) {
  return arg.name.starts_with('@') ? arg.name.substr(1) : arg.name;
}

std::string LimitsOf(const ArgSpec& arg, bool with_choices) {
  std::vector<std::string> parts;
  if (!arg.dtypes.empty()) parts.push_back(DTypeNames(arg.dtypes));
  if (arg.length >= 0) parts.push_back("length " + std::to_string(arg.length));
  if (std::isfinite(arg.min)) parts.push_back("≥ " + FormatNumber(arg.min, 12));
  if (std::isfinite(arg.max)) parts.push_back("≤ " + FormatNumber(arg.max, 12));
  if (!arg.choices.empty()) {
    parts.push_back(with_choices ? Join(arg.choices, " / ") : "one of those below");
  }
  if (arg.nullable) parts.push_back("may be None");
  return Join(parts, ", ");
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Code(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back("`" + name + "`");
  return Join(quoted, ", ");
}

/// Names as code, as many to a text as it may have characters; at least one.
std::vector<std::string> CodeInParts(const std::vector<std::string>& names, int64_t most) {
  std::vector<std::string> parts;
  std::vector<std::string> part;
  for (const std::string& name : names) {
    part.push_back(name);
    if (part.size() > 1 && text::CountCodePoints(Code(part)) > most) {
      part.pop_back();
      parts.push_back(Code(part));
      part = {name};
    }
  }
  parts.push_back(Code(part));
  return parts;
}

/// Whether Markdown would take a line that begins so for an item of a list, a heading or a row.
bool BeginsBlock(std::string_view word) {
  constexpr std::string_view kMarks = "+-*>#|=";
  return kMarks.find(word.front()) != kMarks.npos ||
         (std::isdigit(static_cast<unsigned char>(word.front())) != 0 && word.back() == '.');
}

/// In lines that fit a page, broken at spaces.
std::string Wrapped(const std::string& text) {
  std::string lines;
  std::string line;
  std::istringstream words(text);
  std::string next;
  for (bool more = static_cast<bool>(words >> next); more;) {
    std::string piece = next;  // a word, and what must not begin a line behind it
    while ((more = static_cast<bool>(words >> next)) && BeginsBlock(next)) piece += " " + next;
    if (!line.empty() &&
        text::CountCodePoints(line) + 1 + text::CountCodePoints(piece) > kLongestLine) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + piece;
  }
  return lines + line + "\n";
}

std::string Title(std::string family) {
  std::replace(family.begin(), family.end(), '_', ' ');
  if (!family.empty())
    family[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(family[0])));
  return family;
}

std::string OutputsText(const OperatorSchema& schema) {
  if (schema.max_outputs() < 0) return "any number";
  const std::string most = std::to_string(schema.max_outputs());
  return schema.min_outputs() == schema.max_outputs()
             ? most
             : std::to_string(schema.min_outputs()) + " to " + most;
}

std::string ArgRow(const ArgSpec& arg, bool with_choices) {
  return "| `" + BareName(arg) + "` | " + KindText(arg) + " | " + std::string(Name(arg.type)) +
         " | " + Escaped(DefaultText(arg)) + " | " + Escaped(LimitsOf(arg, with_choices)) + " |";
}

/// A table of the arguments; choices that are too many for a row stand below it.
void WriteArgs(std::ostream& out, const OperatorSchema& schema) {
  out << "\n| argument | kind | type | default | accepts |\n|---|---|---|---|---|\n";
  std::string below;
  for (const ArgSpec& arg : schema.args()) {
    if (arg.ignored) continue;
    const std::string row = ArgRow(arg, true);
    const bool fits = arg.choices.empty() || text::CountCodePoints(row) <= kLongestLine;
    out << (fits ? row : ArgRow(arg, false)) << "\n";
    if (!fits) below += "\n" + Wrapped("`" + BareName(arg) + "`: " + Join(arg.choices, ", ") + ".");
  }
  out << below;
}

std::vector<std::string> NotesOf(const OperatorSchema& schema) {
  std::vector<std::string> ignored, notes;
  for (const ArgSpec& arg : schema.args()) {
    if (arg.ignored) ignored.push_back(arg.name);
  }
  if (schema.max_outputs() != 1 || schema.min_outputs() != 1) {
    notes.push_back("Outputs: " + OutputsText(schema) + ".");
  }
  if (!ignored.empty()) notes.push_back("Accepted without effect: " + Code(ignored) + ".");
  if (schema.random()) notes.push_back("Gives another result every time.");
  if (schema.free_inputs()) notes.push_back("Inputs are matched by what they are.");
  if (schema.open()) notes.push_back("Other parameters and weights are accepted.");
  return notes;
}

void WriteSection(std::ostream& out, const OperatorSchema& schema) {
  const std::vector<std::string> names = CodeInParts(schema.types(), kLongestLine - 4);
  out << "\n### " << names.front() << "\n\n";
  if (names.size() > 1) {
    out << Wrapped("Also " + Join(std::vector(names.begin() + 1, names.end()), ", ") + ".") << "\n";
  }
  out << Wrapped(schema.doc());
  const auto ignored = [](const ArgSpec& arg) { return arg.ignored; };
  if (!std::ranges::all_of(schema.args(), ignored)) WriteArgs(out, schema);
  const std::vector<std::string> notes = NotesOf(schema);
  if (!notes.empty()) out << "\n" << Wrapped(Join(notes, " "));
}

/// The operators of a family in a table, then each with its arguments.
void WriteFamily(std::ostream& out, const Family& family) {
  out << "\n## " << Title(family.name)
      << "\n\n| operators | dtypes of the first input |\n|---|---|\n";
  for (const OperatorSchema* schema : family.schemas) {
    const std::string dtypes = SupportedDTypes(*schema);
    const auto most = kLongestLine - 7 - static_cast<int64_t>(dtypes.size());
    for (const std::string& names : CodeInParts(schema->types(), most)) {
      out << "| " << names << " | " << dtypes << " |\n";
    }
  }
  for (const OperatorSchema* schema : family.schemas) WriteSection(out, *schema);
}

size_t CountTypes(const Family& family) {
  size_t types = 0;
  for (const OperatorSchema* schema : family.schemas) types += schema->types().size();
  return types;
}

/// As GitHub and mkdocs name the place of a heading.
std::string Anchor(std::string family) {
  std::replace(family.begin(), family.end(), '_', '-');
  return family;
}

std::vector<std::string> TraitNames(const OperatorSchema& schema) {
  std::vector<std::string> names;
  for (const Trait trait : {Trait::kRandom, Trait::kElementwise, Trait::kProduct,
                            Trait::kKeepsDType, Trait::kF16OnCpu}) {
    if (schema.Has(trait)) names.emplace_back(Name(trait));
  }
  return names;
}

std::string Lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Json ArgJson(const ArgSpec& arg) {
  Json json = {{"name", BareName(arg)},
               {"kind", KindText(arg)},
               {"type", Name(arg.type)},
               {"required", arg.required}};
  if (!arg.required) json["default"] = arg.fallback.ToString();
  if (!arg.dtypes.empty()) json["dtypes"] = DTypeNames(arg.dtypes);
  if (arg.length >= 0) json["length"] = arg.length;
  if (std::isfinite(arg.min)) json["min"] = arg.min;
  if (std::isfinite(arg.max)) json["max"] = arg.max;
  if (!arg.choices.empty()) json["choices"] = arg.choices;
  json["nullable"] = arg.nullable;
  json["ignored"] = arg.ignored;
  json["dynamic"] = arg.dynamic;
  return json;
}

}  // namespace

std::vector<Family> Catalog() {
  std::map<std::string, std::string> family_of;  // by type
  for (const LayerFile& file : LayerFiles()) {
    LayerRegistry one;
    file.add(one);
    for (const std::string& type : one.Types()) family_of[type] = file.family;
  }
  const LayerRegistry& registry = LayerRegistry::Global();
  std::map<std::string, Family> families;
  std::set<const OperatorSchema*> seen;
  for (const std::string& type : registry.Types()) {
    const OperatorSchema* schema = registry.Schema(type);
    if (!seen.insert(schema).second) continue;
    const auto found = family_of.find(schema->types().front());
    const std::string name = found == family_of.end() ? "other" : found->second;
    families[name].name = name;
    families[name].schemas.push_back(schema);
  }
  std::vector<Family> result;
  for (auto& [name, family] : families) {
    std::sort(
        family.schemas.begin(), family.schemas.end(),
        [](const OperatorSchema* a, const OperatorSchema* b) { return a->types() < b->types(); });
    result.push_back(std::move(family));
  }
  return result;
}

std::vector<Family> OperatorsNamed(const std::vector<Family>& families, const std::string& text) {
  const std::string wanted = Lowered(text);
  std::vector<Family> result;
  for (const Family& family : families) {
    Family found{family.name, {}};
    for (const OperatorSchema* schema : family.schemas) {
      const auto has = [&](const std::string& type) {
        return Lowered(type).find(wanted) != std::string::npos;
      };
      if (std::ranges::any_of(schema->types(), has)) found.schemas.push_back(schema);
    }
    if (!found.schemas.empty()) result.push_back(std::move(found));
  }
  return result;
}

void PrintOperator(std::ostream& out, const std::string& family, const OperatorSchema& schema) {
  const std::string dtypes = SupportedDTypes(schema);
  out << Join(schema.types(), ", ") << "\n  " << SingleLine(schema.doc()) << " (" << family
      << (dtypes.empty() ? "" : ": " + dtypes) << ")\n";
  Table table({{"argument"}, {"kind"}, {"type"}, {"default"}, {"accepts"}});
  bool any = false;
  for (const ArgSpec& arg : schema.args()) {
    if (arg.ignored) continue;
    any = true;
    table.Row({BareName(arg), KindText(arg), std::string(Name(arg.type)), DefaultText(arg),
               LimitsOf(arg, true)});
  }
  if (any) table.Print(out, "  ");
  for (const std::string& note : NotesOf(schema)) out << "  " << note << "\n";
}

std::string DTypeNames(DTypeSet dtypes) {
  std::vector<std::string> names;
  bool all = true;
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtypes.Contains(dtype)) {
      names.emplace_back(Name(dtype));
    } else {
      all = false;
    }
  }
  return all ? "any" : Join(names, " ");
}

std::string SupportedDTypes(const OperatorSchema& schema) {
  for (const ArgSpec& arg : schema.args()) {
    if (!arg.dtypes.empty() && !arg.attribute) return DTypeNames(arg.dtypes);
  }
  return "";
}

Json CatalogJson(const std::vector<Family>& families) {
  Json list = Json::array();
  for (const Family& family : families) {
    for (const OperatorSchema* schema : family.schemas) {
      Json args = Json::array();
      for (const ArgSpec& arg : schema->args()) args.push_back(ArgJson(arg));
      list.push_back({{"types", schema->types()},
                      {"family", family.name},
                      {"doc", schema->doc()},
                      {"outputs", OutputsText(*schema)},
                      {"random", schema->random()},
                      {"traits", TraitNames(*schema)},
                      {"nhwc_form", schema->nhwc_form().type},
                      {"open", schema->open()},
                      {"arguments", args}});
    }
  }
  return list;
}

std::string CatalogMarkdown(const std::vector<Family>& families) {
  size_t types = 0, schemas = 0;
  for (const Family& family : families) {
    schemas += family.schemas.size();
    types += CountTypes(family);
  }
  std::ostringstream out;
  out << "# Operators\n\n"
         "<!-- Written by `oort operators --markdown`; a test compares it. Do not edit. -->\n\n"
      << Wrapped(
             std::to_string(types) + " operator types in " + std::to_string(schemas) +
             " declarations. An argument is looked for as an input `$name`, then by position, "
             "then as a parameter `name=`; else the default counts. Anything that is not listed "
             "is an error when the model is loaded. For example, a line of a `.pnnx.param` file "
             "with a parameter:")
      << "\n"
         "```text\nnn.LeakyReLU  act  1 1 x y negative_slope=0.1\n```\n\n"
         "A family is a folder of `layers/`. `oort operators NAME` tells of one.\n\n"
         "| family | operator types |\n|---|---|\n";
  for (const Family& family : families) {
    out << "| [" << Title(family.name) << "](#" << Anchor(family.name) << ") | "
        << CountTypes(family) << " |\n";
  }
  for (const Family& family : families) WriteFamily(out, family);
  return out.str();
}

}  // namespace oort::cli
