// SPDX-License-Identifier: MIT
// An operator is declared once. Validation, argument matching, docs/operators.md and the support
// table all come from that declaration.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/graph.h"
#include "oort/value.h"

namespace oort {

enum class ArgType {
  kTensor,
  kInt,
  kIntList,
  kFloat,
  kFloatList,
  kBool,
  kString,
  kNumber,
  kDType,
  kAny
};
std::string_view Name(ArgType type);

/// One argument: an input operand, a `key=value` parameter, or an `@attribute`.
struct ArgSpec {
  std::string name;
  ArgType type = ArgType::kAny;
  bool required = true;
  Value fallback;          ///< used when it is absent and not required
  bool nullable = false;   ///< None is a legal value
  bool attribute = false;  ///< comes from `@name` (or, for shared weights, from an input)
  bool dynamic = false;    ///< may be computed at run time: `$name=operand` instead of `name=…`
  bool variadic = false;   ///< takes all inputs that are left
  bool ignored = false;    ///< changes nothing here; only documented
  DTypeSet dtypes;         ///< for tensors
  int length = -1;         ///< for lists: the number of elements; one number stands for all
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices;  ///< for strings; a number is also accepted if `type` allows it
};

/// What a pass may know about an operator without knowing its name. An operator states its traits
/// where it is declared, so that a new one takes part in all passes without touching any.
enum class Trait {
  kRandom,       ///< gives another result every time: it is neither folded nor merged
  kElementwise,  ///< makes each element of those at its place: it runs in every memory layout
  kProduct,      ///< multiplies matrices: its inputs are rounded where a network has 16-bit floats
  kKeepsDType,   ///< gives floats of the dtype that it is given: it stays in 16 bits
  kF16OnCpu,     ///< on the CPU it computes in f16 or only moves elements: nothing is converted
};
std::string_view Name(Trait trait);

/// Whether one operator of a graph meets a condition; only its parameters and names are looked at.
using OperatorTest = bool (*)(const Operator& op);

/// How an operator takes part where images keep NHWC layout from one operator to the next.
enum class NhwcRole {
  kNone,     ///< it does not: it reads and gives NCHW
  kBegins,   ///< it is worth converting an image for, as a convolution is
  kFollows,  ///< it runs in NHWC where one of its inputs is in NHWC already
  kEnds,     ///< it follows, but what it gives is no image and the same in both layouts
};

/// The operator that does to images (…, H, W, C) what another one does to (…, C, H, W).
struct NhwcForm {
  std::string type;  ///< empty where there is none
  /// The role of one operator, whose first input has this rank (-1: not known); null: kFollows.
  NhwcRole (*role)(const Operator& op, int rank) = nullptr;
};

/// Declares an operator. The order of the arguments is torch's own, so that inputs without a
/// `$name` (and leftover `aten::` operators) match by position. Modifiers apply to the argument
/// declared last:
///
///   OperatorSchema({"nn.LeakyReLU", "F.leaky_relu"}, "x if x > 0 else negative_slope * x")
///       .Tensor("input", kFloats)
///       .Float("negative_slope", 0.01)
class OperatorSchema {
 public:
  OperatorSchema(std::vector<std::string> types, std::string doc);
  OperatorSchema(const OperatorSchema&);
  OperatorSchema(OperatorSchema&&) noexcept;
  OperatorSchema& operator=(const OperatorSchema&);
  OperatorSchema& operator=(OperatorSchema&&) noexcept;
  ~OperatorSchema();

  // Tensors. `Tensor` is an input; `Attribute` a weight stored with the operator.
  OperatorSchema& Tensor(std::string name, DTypeSet dtypes);
  OperatorSchema& OptionalTensor(std::string name, DTypeSet dtypes);
  OperatorSchema& Tensors(std::string name, DTypeSet dtypes);  ///< all inputs that are left
  OperatorSchema& Attribute(std::string name, DTypeSet dtypes = kFloats);
  OperatorSchema& OptionalAttribute(std::string name, DTypeSet dtypes = kFloats);

  // Parameters; without a default they are required.
  OperatorSchema& Int(std::string name, std::optional<int64_t> fallback = {});
  OperatorSchema& Ints(std::string name, int length = -1, std::optional<Value> fallback = {});
  OperatorSchema& Float(std::string name, std::optional<double> fallback = {});
  OperatorSchema& Floats(std::string name, int length = -1, std::optional<Value> fallback = {});
  OperatorSchema& Bool(std::string name, std::optional<bool> fallback = {});
  OperatorSchema& String(std::string name, std::optional<std::string> fallback = {});
  OperatorSchema& Number(std::string name, std::optional<Value> fallback = {});
  OperatorSchema& DTypeName(std::string name, std::optional<Value> fallback = {});
  OperatorSchema& Any(std::string name, std::optional<Value> fallback = {});
  /// A parameter that pnnx writes and that changes nothing here (`in_channels`, `memory_format`).
  OperatorSchema& Ignored(std::string name);

  // Modifiers of the argument declared last.
  OperatorSchema& Nullable();  ///< None is legal, and is the default if there is no other
  OperatorSchema& Dynamic();   ///< may be an input computed at run time
  OperatorSchema& AtLeast(double min);
  OperatorSchema& AtMost(double max);
  OperatorSchema& OneOf(std::vector<std::string> choices);

  /// Number of outputs; -1 for "as many as the operator has". Default 1.
  OperatorSchema& Outputs(int min, int max);
  OperatorSchema& Outputs(int count) { return Outputs(count, count); }

  // Traits: see enum Trait. Those with a condition hold only for operators that meet it.
  OperatorSchema& Random() { return State(Trait::kRandom); }
  OperatorSchema& Elementwise(OperatorTest when = nullptr) {
    return State(Trait::kElementwise, when);
  }
  OperatorSchema& Product() { return State(Trait::kProduct); }
  OperatorSchema& KeepsDType(OperatorTest when = nullptr) {
    return State(Trait::kKeepsDType, when);
  }
  OperatorSchema& F16OnCpu() { return State(Trait::kF16OnCpu); }
  /// Operators of type `type` do the same in NHWC. They have the same parameters, and axes count as
  /// in NCHW. A parameter that `type` does not declare is dropped: `role` sees to it that the
  /// operator does without.
  OperatorSchema& HasNhwcForm(std::string type,
                              NhwcRole (*role)(const Operator& op, int rank) = nullptr);

  /// Where inputs cannot be matched by `$name` or position alone, the layer matches them itself
  /// and sees them all through Args::inputs().
  OperatorSchema& FreeInputs();
  /// Accepts parameters and attributes that are not declared (custom modules).
  OperatorSchema& Open();

  const std::vector<std::string>& types() const { return types_; }
  const std::string& doc() const { return doc_; }
  const std::vector<ArgSpec>& args() const { return args_; }
  int min_outputs() const { return min_outputs_; }
  int max_outputs() const { return max_outputs_; }
  bool random() const { return Has(Trait::kRandom); }
  /// Whether the trait is stated, under a condition or not.
  bool Has(Trait trait) const;
  /// Whether it holds for this operator of a graph.
  bool Has(Trait trait, const Operator& op) const;
  const NhwcForm& nhwc_form() const { return nhwc_form_; }
  bool free_inputs() const { return free_inputs_; }
  bool open() const { return open_; }
  /// Index of an argument; attributes are found under "@name" first and under "name" then.
  /// -1 if there is none.
  int Find(std::string_view name) const;

 private:
  struct StatedTrait {
    Trait trait;
    OperatorTest when;
  };
  OperatorSchema& State(Trait trait, OperatorTest when = nullptr);
  ArgSpec& Add(std::string name, ArgType type);
  ArgSpec& AddParam(std::string name, ArgType type, std::optional<Value> fallback);
  std::vector<std::string> types_;
  std::string doc_;
  std::vector<ArgSpec> args_;
  std::vector<StatedTrait> traits_;
  NhwcForm nhwc_form_;
  int min_outputs_ = 1;
  int max_outputs_ = 1;
  bool free_inputs_ = false;
  bool open_ = false;
};

/// How the arguments of one operator are supplied: by an input (its index) or by a fixed value.
struct BoundArg {
  int input = -1;  ///< index into Operator::inputs, or -1
  Value value;     ///< used when input is -1
};
struct BoundArgs {
  std::vector<BoundArg> args;  ///< one for each ArgSpec
  std::vector<int> variadic;   ///< inputs taken by the variadic argument, if any
};

/// Matches an operator with its schema: `$name`, else position; then `name=`, else the default.
/// Appends everything wrong to `problems` and returns what could be matched.
BoundArgs BindArguments(const OperatorSchema& schema, const Operator& op,
                        std::vector<Problem>& problems);

}  // namespace oort
