// SPDX-License-Identifier: MIT
// Runs an expression on values. The layers of pnnx.Expression, of the activations and of the
// elementwise operators are thin shells around it.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "layers/expression/code.h"
#include "layers/expression/lower.h"

namespace oort::expression {

/// Thread contract: const methods run concurrently.
class Engine {
 public:
  Engine(Program program, Isa isa);
  /// `function` of operands 0, 1, ….
  Engine(Function function, Isa isa);

  /// The value without the elements of its tensors; Deferred where it depends on elements.
  Value Infer(std::span<const Value* const> operands) const;
  /// Computes the value. A tensor is written to `output` if that holds one of the right kind.
  void Forward(const Context& context, std::span<const Value* const> operands,
               Value& output) const;

  /// Set if the result is that operand, unchanged.
  int ViewOf(std::span<const Value* const> operands) const;
  /// Operands that have the dtype and the shape of the result, so it may be written over them.
  std::vector<int> InPlace(std::span<const Value* const> operands) const;
  /// Arithmetic operations on each element of the result.
  double OperationsPerElement(std::span<const Value* const> operands) const;

 private:
  /// What a signature of operands was compiled to.
  struct Compiled {
    std::string signature;
    std::shared_ptr<const Code> code;
  };
  std::string Signature(std::span<const Value* const> operands) const;
  /// Null unless the result is one tensor that the code computes.
  std::shared_ptr<const Code> FindCode(const std::string& signature) const;

  Program program_;
  Isa isa_;
  bool depends_on_shapes_ = false;    // through size()
  bool depends_on_elements_ = false;  // through int()
  mutable std::mutex mutex_;
  mutable Compiled last_;
};

}  // namespace oort::expression
