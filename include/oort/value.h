// SPDX-License-Identifier: MIT
#pragma once

#include <complex>
#include <string>
#include <variant>
#include <vector>

#include "oort/tensor.h"

namespace oort {

/// What an operand or a parameter holds: a tensor, a number, a string, None or a list of such.
class Value {
 public:
  using List = std::vector<Value>;
  /// A value that cannot be known before the operator has run.
  struct DeferredTag {
    int operand = -1;  ///< what it will be in a graph, where that is known
  };

  Value() = default;  ///< None
  // Not inline: every layer copies and destroys values, none of them often.
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  Value(bool value) : content_(value) {}                      // NOLINT: implicit on purpose
  Value(int value) : content_(int64_t{value}) {}              // NOLINT
  Value(int64_t value) : content_(value) {}                   // NOLINT
  Value(double value) : content_(value) {}                    // NOLINT
  Value(std::complex<double> value) : content_(value) {}      // NOLINT
  Value(std::string value) : content_(std::move(value)) {}    // NOLINT
  Value(const char* value) : content_(std::string(value)) {}  // NOLINT
  Value(Tensor value) : content_(std::move(value)) {}         // NOLINT
  Value(List value) : content_(std::move(value)) {}           // NOLINT
  static Value Ints(std::span<const int64_t> values);
  static Value Deferred(int operand = -1) { return Value(DeferredTag{operand}); }

  bool IsNone() const { return Is<std::monostate>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsInt() const { return Is<int64_t>(); }
  bool IsFloat() const { return Is<double>(); }
  bool IsComplex() const { return Is<std::complex<double>>(); }
  bool IsString() const { return Is<std::string>(); }
  bool IsTensor() const { return Is<Tensor>(); }
  bool IsList() const { return Is<List>(); }
  bool IsDeferred() const { return Is<DeferredTag>(); }
  /// The operand of a graph that a deferred value stands for; -1 for all else.
  int DeferredOperand() const {
    return IsDeferred() ? std::get<DeferredTag>(content_).operand : -1;
  }
  /// bool, int, float or complex.
  bool IsNumber() const { return IsBool() || IsInt() || IsFloat() || IsComplex(); }
  /// Whether nothing in it is deferred and no tensor in it lacks its elements.
  bool IsConcrete() const;

  // The accessors throw kInvalidArgument when the value is of another kind.
  bool AsBool() const;                     ///< bool, or int 0/1
  int64_t AsInt() const;                   ///< int, bool, or a tensor of one integer
  double AsFloat() const;                  ///< float, int, bool, or a tensor of one element
  std::complex<double> AsComplex() const;  ///< any number
  const std::string& AsString() const;
  const Tensor& AsTensor() const;
  Tensor& AsTensor();
  const List& AsList() const;
  List& AsList();
  std::vector<int64_t> AsInts() const;   ///< a list of ints; one int counts as a list of one
  std::vector<double> AsFloats() const;  ///< likewise

  std::string KindName() const;  ///< "int", "list", "tensor (1,3)f32"
  std::string ToString() const;  ///< as pnnx would write it; tensors as shape and dtype

 private:
  explicit Value(DeferredTag tag) : content_(tag) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(content_);
  }
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, Tensor,
               List, DeferredTag>
      content_;
};

}  // namespace oort
