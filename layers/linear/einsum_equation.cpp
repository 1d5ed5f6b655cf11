// SPDX-License-Identifier: MIT
#include "layers/linear/einsum_equation.h"

#include <algorithm>
#include <string>

#include "oort/error.h"

namespace oort {
namespace {

[[noreturn]] void ThrowModel(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}
[[noreturn]] void ThrowShape(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string LabelText(EinsumLabel label) {
  return label >= kEllipsis ? "'...'" : "'" + std::string(1, static_cast<char>(label)) + "'";
}

EinsumLabels ParseSubscripts(std::string_view text) {
  EinsumLabels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (Contains(labels, kEllipsis)) ThrowModel("equation has two '...' in one operand");
      labels.push_back(kEllipsis);
      i += 2;
    } else if (IsLetter(text[i])) {
      labels.push_back(text[i]);
    } else {
      ThrowModel("equation has a subscript that is no letter");
    }
  }
  return labels;
}

int Letters(const EinsumLabels& labels) {
  return static_cast<int>(labels.size()) - (Contains(labels, kEllipsis) ? 1 : 0);
}

/// The labels with each axis of the ellipsis named.
EinsumLabels Expanded(const EinsumLabels& labels, int ellipsis_axes) {
  EinsumLabels expanded;
  for (EinsumLabel label : labels) {
    if (label != kEllipsis) {
      expanded.push_back(label);
      continue;
    }
    for (int i = ellipsis_axes; i > 0; --i) expanded.push_back(kEllipsis + i);
  }
  return expanded;
}

/// Without "->": all letters that occur once, in the order of their codes, behind the ellipsis.
EinsumLabels ImplicitOutput(const std::vector<EinsumLabels>& operands) {
  std::map<EinsumLabel, int> counts;
  for (const EinsumLabels& labels : operands) {
    for (EinsumLabel label : labels) ++counts[label];
  }
  EinsumLabels output;
  if (counts.erase(kEllipsis) != 0) output.push_back(kEllipsis);
  for (const auto& [label, count] : counts) {
    if (count == 1) output.push_back(label);
  }
  return output;
}

/// Operands that have more axes than subscripts.
bool LacksEllipsis(const EinsumLabels& labels, const Shape& shape) {
  return !Contains(labels, kEllipsis) && shape.rank() > Letters(labels);
}

/// Whether the equation gives `output` for `shapes`; unknown extents count as equal.
bool Fits(const EinsumEquation& equation, std::span<const Shape> shapes, const Shape* output) {
  try {
    const Shape result = EinsumAxes::Of(equation, shapes).output_shape;
    return output == nullptr || result == *output;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

EinsumEquation EinsumEquation::Parse(std::string_view text, size_t operands) {
  EinsumEquation equation;
  const size_t arrow = text.find("->");
  equation.has_output = arrow != std::string_view::npos;
  std::string_view left = text.substr(0, arrow);
  for (bool more = true; more;) {
    const size_t comma = left.find(',');
    more = comma != std::string_view::npos;
    equation.operands.push_back(ParseSubscripts(left.substr(0, comma)));
    if (more) left.remove_prefix(comma + 1);
  }
  if (equation.operands.size() != operands) {
    ThrowModel("equation names " + std::to_string(equation.operands.size()) +
               " operands, but there are " + std::to_string(operands));
  }
  if (!equation.has_output) return equation;
  equation.output = ParseSubscripts(text.substr(arrow + 2));
  for (EinsumLabel label : equation.output) {
    if (std::count(equation.output.begin(), equation.output.end(), label) != 1) {
      ThrowModel("equation has " + LabelText(label) + " twice in its output");
    }
    const bool known = std::any_of(equation.operands.begin(), equation.operands.end(),
                                   [&](const auto& labels) { return Contains(labels, label); });
    if (!known && label != kEllipsis) {
      ThrowModel("equation has " + LabelText(label) + " in its output, but in no operand");
    }
  }
  return equation;
}

bool EinsumEquation::RestoreEllipsis(std::span<const Shape> shapes, const Shape* traced) {
  std::vector<EinsumLabels*> lacking;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (LacksEllipsis(operands[i], shapes[i])) lacking.push_back(&operands[i]);
  }
  if (lacking.empty()) return true;
  const bool in_output = has_output && !Contains(output, kEllipsis);
  const EinsumEquation original = *this;
  // Every combination of places, counted like the digits of a number; the output's last digit
  // stands for "nowhere", which sums the axes up.
  constexpr int kMostTries = 10000;
  std::vector<size_t> places(lacking.size() + 1, 0);
  for (int tries = 0; tries < kMostTries; ++tries) {
    for (size_t i = 0; i < lacking.size(); ++i) {
      lacking[i]->insert(lacking[i]->begin() + static_cast<std::ptrdiff_t>(places[i]), kEllipsis);
    }
    if (in_output && places.back() <= output.size()) {
      output.insert(output.begin() + static_cast<std::ptrdiff_t>(places.back()), kEllipsis);
    }
    if (Fits(*this, shapes, traced)) return true;
    for (EinsumLabels* labels : lacking) {
      labels->erase(std::find(labels->begin(), labels->end(), kEllipsis));
    }
    output = original.output;
    size_t digit = places.size();
    while (digit-- > 0) {
      const size_t most = digit < lacking.size() ? lacking[digit]->size()
                          : in_output            ? output.size() + 1
                                                 : 0;
      if (places[digit]++ < most) break;
      places[digit] = 0;
      if (digit == 0) return false;
    }
  }
  return false;
}

EinsumAxes EinsumAxes::Of(const EinsumEquation& equation, std::span<const Shape> shapes) {
  EinsumAxes axes;
  int ellipsis_axes = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const EinsumLabels& labels = equation.operands[i];
    const int more = shapes[i].rank() - Letters(labels);
    if (more < 0 || (more > 0 && !Contains(labels, kEllipsis))) {
      ThrowShape("expected operand " + std::to_string(i) + " of rank " +
                 std::to_string(Letters(labels)) + ", got " + shapes[i].ToString());
    }
    ellipsis_axes = std::max(ellipsis_axes, more);
    axes.operands.push_back(Expanded(labels, more));
    std::map<EinsumLabel, int64_t> own;
    for (int axis = 0; axis < shapes[i].rank(); ++axis) {
      const EinsumLabel label = axes.operands[i][static_cast<size_t>(axis)];
      const int64_t extent = shapes[i][axis];
      if (!own.emplace(label, extent).second && own[label] != extent) {
        ThrowShape("operand " + std::to_string(i) + " has different extents for " +
                   LabelText(label) + ": " + shapes[i].ToString());
      }
      int64_t& common = axes.extents.emplace(label, extent).first->second;
      if (common == 1) common = extent;
      if (common != extent && extent != 1) {
        ThrowShape("operands differ in the extent of " + LabelText(label) + ": " +
                   std::to_string(common) + " and " + std::to_string(extent));
      }
    }
  }
  axes.output = Expanded(equation.has_output ? equation.output : ImplicitOutput(equation.operands),
                         ellipsis_axes);
  for (EinsumLabel label : axes.output) axes.output_shape.Append(axes.extents.at(label));
  return axes;
}

}  // namespace oort
