// SPDX-License-Identifier: MIT
// Activations by name, and operators that are one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/activation.h"
#include "oort/graph.h"

namespace oort {

/// "gelu_tanh": as the parameter `activation` of operators that passes make.
std::string_view Name(Activation activation);
/// The activation of that name, or nothing.
std::optional<Activation> ActivationNamed(std::string_view name);

/// What `op` does, if it applies one of the activations to its only input: nn.ReLU, F.gelu,
/// torch.clamp with constant limits, … Nothing for all other operators.
std::optional<ActivationSpec> ActivationOf(const Operator& op);

/// The same as the text of a pnnx.Expression: "leaky_relu(@0,0.1)"; empty for kNone.
std::string ActivationText(const ActivationSpec& spec);
/// Writes `activation`, `activation_a` and `activation_b` into the parameters of `op`.
void SetActivation(Operator& op, const ActivationSpec& spec);

}  // namespace oort
