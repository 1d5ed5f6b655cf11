// SPDX-License-Identifier: MIT
// Arrays of Python as tensors and back, without copies wherever the memory is dense.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string_view>

#include "oort/tensor.h"
#include "oort/value.h"

namespace oort::python {

namespace nb = nanobind;

/// Whose arrays results become.
enum class Framework { kNumpy, kTorch, kJax, kCupy };
/// That of an array which was passed in; what is none of them is numpy's.
Framework FrameworkOf(nb::handle array);

/// A tensor over the memory of an array, which lives as long as this does. An array that is not
/// dense, or not aligned, is copied.
struct ArrayInput {
  Tensor tensor;
  nb::ndarray<nb::ro> array;
};
/// `name` is for the message: a TypeError unless the object is an array.
ArrayInput InputOf(nb::handle object, std::string_view name);
/// The same for an array that is written to: throws a ValueError unless it is dense and writable.
struct ArrayOutput {
  Tensor tensor;
  nb::ndarray<> array;
};
ArrayOutput OutputOf(nb::handle object, std::string_view name);
/// Copies the elements, so that nothing of Python need live on.
Tensor CopyOf(nb::handle object, std::string_view name);

/// An array over the memory of a tensor, which it keeps. numpy has no bf16 and no complex numbers
/// of two halves: these become floats of 32 bits.
nb::object ArrayOf(const Tensor& tensor, Framework framework);
/// Over memory that somebody else keeps while the array lives: arguments of a function.
nb::object ViewOf(const Tensor& tensor, bool writable, nb::handle owner);
/// Numbers, texts and lists as Python has them, tensors as arrays.
nb::object ObjectOf(const Value& value, Framework framework);
/// "float32" for f32, as numpy calls it.
std::string_view NumpyName(DType dtype);
/// Of a name of numpy's or of ours, or of a dtype or class of numpy's or torch's; throws
/// kInvalidArgument.
DType DTypeOfObject(nb::handle object);
nb::tuple TupleOf(const Shape& shape);
Shape ShapeOfObject(nb::handle object);

}  // namespace oort::python
