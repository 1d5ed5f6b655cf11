// SPDX-License-Identifier: MIT
#include "arrays.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "errors.h"
#include "oort/error.h"
#include "options.h"

namespace oort::python {
namespace {

constexpr int kHost = nb::device::cpu::value, kGpu = nb::device::cuda::value;
constexpr int kPinned = nb::device::cuda_host::value;

struct TypeRow {
  DType dtype;
  nb::dlpack::dtype_code code;
  uint8_t bits;
  std::string_view numpy;
};
constexpr std::array<TypeRow, 13> kTypes = {{
    {DType::kF32, nb::dlpack::dtype_code::Float, 32, "float32"},
    {DType::kF64, nb::dlpack::dtype_code::Float, 64, "float64"},
    {DType::kF16, nb::dlpack::dtype_code::Float, 16, "float16"},
    {DType::kBF16, nb::dlpack::dtype_code::Bfloat, 16, "bfloat16"},
    {DType::kI32, nb::dlpack::dtype_code::Int, 32, "int32"},
    {DType::kI64, nb::dlpack::dtype_code::Int, 64, "int64"},
    {DType::kI16, nb::dlpack::dtype_code::Int, 16, "int16"},
    {DType::kI8, nb::dlpack::dtype_code::Int, 8, "int8"},
    {DType::kU8, nb::dlpack::dtype_code::UInt, 8, "uint8"},
    {DType::kBool, nb::dlpack::dtype_code::Bool, 8, "bool"},
    {DType::kC64, nb::dlpack::dtype_code::Complex, 64, "complex64"},
    {DType::kC128, nb::dlpack::dtype_code::Complex, 128, "complex128"},
    {DType::kC32, nb::dlpack::dtype_code::Complex, 32, "complex32"},
}};

const TypeRow& RowOf(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  throw Error(ErrorCode::kInternal, "a tensor without a dtype");
}

DType DTypeOf(nb::dlpack::dtype type) {
  for (const TypeRow& row : kTypes) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1) {
      return row.dtype;
    }
  }
  return DType::kNull;
}

/// Memory of an array of another library.
class ArrayBuffer final : public Buffer {
 public:
  ArrayBuffer(void* data, size_t size, Device device)
      : Buffer(static_cast<std::byte*>(data), size, device) {}
};

std::string TypeNameOf(nb::handle object) {
  return nb::cast<std::string>(
      nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

template <typename Array>
Shape ShapeOf(const Array& array, std::string_view name) {
  if (array.ndim() > static_cast<size_t>(Shape::kMaxRank)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        std::string(name) + " has " + std::to_string(array.ndim()) + " dimensions; 8 are the most");
  }
  return Shape(std::span(array.shape_ptr(), array.ndim()));
}

template <typename Array>
bool IsDense(const Array& array) {
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) == 0) return true;
    if (array.shape(i) != 1 && array.stride(i) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

/// Of a dtype that the engine has, on a device that it knows; throws a TypeError else.
template <typename Array>
DType CheckedType(const Array& array, std::string_view name) {
  const DType dtype = DTypeOf(array.dtype());
  if (dtype == DType::kNull) {
    const std::string text = std::string(name) + ": no network takes elements of this type (code " +
                             std::to_string(array.dtype().code) + ", " +
                             std::to_string(array.dtype().bits) + " bits); convert the array first";
    throw nb::type_error(text.c_str());
  }
  const int type = array.device_type();
  if (type != kHost && type != kGpu && type != kPinned) {
    throw nb::type_error((std::string(name) + " is neither on the CPU nor on a CUDA GPU").c_str());
  }
  return dtype;
}

template <typename Array>
Tensor OverMemory(const Array& array, DType dtype, const Shape& shape) {
  void* const data = const_cast<void*>(static_cast<const void*>(array.data()));
  if (array.device_type() != kGpu) return Tensor::Borrow(data, dtype, shape);
  const size_t bytes = static_cast<size_t>(shape.elements()) * ItemSize(dtype);
  return {dtype, shape,
          std::make_shared<ArrayBuffer>(data, bytes, Device::Cuda(array.device_id()))};
}

/// Whoever makes the array's elements may not be done with it yet.
void WaitForProducer(nb::handle object) {
  nb::module_::import_("oort._interop").attr("wait_for_producer")(object);
}

void CopyStrided(const nb::ndarray<nb::ro>& array, std::byte* to, size_t item) {
  const auto* const from = static_cast<const std::byte*>(array.data());
  std::array<int64_t, Shape::kMaxRank> at{};
  const size_t rank = array.ndim();
  for (size_t left = array.size(); left > 0; --left) {
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) offset += at[i] * array.stride(i);
    std::memcpy(to, from + offset * static_cast<int64_t>(item), item);
    to += item;
    for (size_t i = rank; i-- > 0;) {
      if (++at[i] < static_cast<int64_t>(array.shape(i))) break;
      at[i] = 0;
    }
  }
}

/// A number, a list and so on, said with what to do.
[[noreturn]] void ThrowNoArray(nb::handle object, std::string_view name) {
  // An array of numpy, and no number of it, is refused for its elements alone.
  if (nb::hasattr(object, "__array_interface__") && nb::hasattr(object, "__dlpack__")) {
    const std::string text = std::string(name) + " is an array of " +
                             StrOf(nb::repr(object.attr("dtype"))) +
                             ", which no network takes: convert it first, such as by astype";
    throw nb::type_error(text.c_str());
  }
  std::string text = std::string(name) + " is a " + TypeNameOf(object) +
                     ", not an array: pass a numpy array or anything with __dlpack__";
  if (nb::hasattr(object, "requires_grad") && nb::cast<bool>(object.attr("requires_grad"))) {
    text += " (this tensor requires gradients: detach() it)";
  } else if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) ||
             PyNumber_Check(object.ptr())) {
    text += " (numpy.asarray(…, dtype) makes one)";
  }
  throw nb::type_error(text.c_str());
}

/// What numpy has no name for becomes f32.
Tensor ForNumpy(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBF16) return tensor.To(DType::kF32);
  if (tensor.dtype() == DType::kC32) return tensor.To(DType::kC64);
  return tensor;
}

template <typename Kind>
nb::object Export(const Tensor& tensor, nb::handle owner) {
  std::array<size_t, Shape::kMaxRank> shape{};
  for (int i = 0; i < tensor.rank(); ++i) {
    shape[static_cast<size_t>(i)] = static_cast<size_t>(tensor.dim(i));
  }
  const TypeRow& row = RowOf(tensor.dtype());
  const bool gpu = tensor.device().type == DeviceType::kCuda;
  const std::byte* const data = tensor.raw();
  static std::byte nothing;
  const nb::ndarray<Kind> array(const_cast<std::byte*>(data == nullptr ? &nothing : data),
                                static_cast<size_t>(tensor.rank()), shape.data(), owner, nullptr,
                                nb::dlpack::dtype{static_cast<uint8_t>(row.code), row.bits, 1},
                                gpu ? kGpu : kHost, tensor.device().index);
  return nb::cast(array, nb::rv_policy::reference);
}

/// Whose class it is, or whose the nearest of its bases is: programs make classes of their own.
Framework FrameworkOfClass(nb::handle type) {
  for (const nb::handle base : nb::borrow<nb::tuple>(type.attr("__mro__"))) {
    const std::string module = StrOf(base.attr("__module__"));
    const std::string_view top = std::string_view(module).substr(0, module.find('.'));
    if (top == "torch") return Framework::kTorch;
    if (top == "jax" || top == "jaxlib") return Framework::kJax;
    if (top == "cupy") return Framework::kCupy;
  }
  return Framework::kNumpy;
}

/// numpy.dtype has a name, a class such as numpy.float32 has one as a class, and a dtype of torch
/// only a text ("torch.float32").
std::string NameOfType(nb::handle type) {
  std::string name;
  for (const char* attribute : {"name", "__name__"}) {
    if (nb::isinstance<nb::str>(type) || !nb::hasattr(type, attribute)) continue;
    if (nb::try_cast(type.attr(attribute), name)) return name == "bool_" ? "bool" : name;
  }
  name = StrOf(type);
  return name.substr(name.rfind('.') + 1);
}

nb::capsule Keep(const Tensor& tensor) {
  return nb::capsule(new Tensor(tensor),
                     [](void* held) noexcept { delete static_cast<Tensor*>(held); });
}

}  // namespace

Framework FrameworkOf(nb::handle array) {
  // Whoever calls passes the same type again: the last one is known, and kept, so that no other
  // takes its address.
  static PyObject* known = nullptr;
  static Framework framework = Framework::kNumpy;
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()));
  if (type == known) return framework;
  framework = FrameworkOfClass(type);
  Py_XDECREF(std::exchange(known, Py_NewRef(type)));
  return framework;
}

ArrayInput InputOf(nb::handle object, std::string_view name) {
  ArrayInput input;
  if (!nb::try_cast(object, input.array, false)) ThrowNoArray(object, name);
  const DType dtype = CheckedType(input.array, name);
  const Shape shape = ShapeOf(input.array, name);
  const size_t item = ItemSize(dtype);
  const bool gpu = input.array.device_type() == kGpu;
  const bool aligned = reinterpret_cast<uintptr_t>(input.array.data()) % item == 0;
  if (IsDense(input.array) && (aligned || gpu)) {
    if (gpu) WaitForProducer(object);
    input.tensor = OverMemory(input.array, dtype, shape);
  } else if (gpu) {
    throw nb::value_error(
        (std::string(name) + " on a GPU is not dense: make it contiguous first").c_str());
  } else {
    input.tensor = Tensor(dtype, shape);
    CopyStrided(input.array, input.tensor.raw(), item);
  }
  return input;
}

ArrayOutput OutputOf(nb::handle object, std::string_view name) {
  ArrayOutput output;
  if (!nb::try_cast(object, output.array, false)) {
    const std::string text =
        std::string(name) + " is a " + TypeNameOf(object) + ", not an array that can be written to";
    throw nb::type_error(text.c_str());
  }
  const DType dtype = CheckedType(output.array, name);
  const Shape shape = ShapeOf(output.array, name);
  const auto address = reinterpret_cast<uintptr_t>(output.array.data());
  if (!IsDense(output.array) || address % ItemSize(dtype) != 0) {
    throw nb::value_error(
        (std::string(name) + " is not dense: results need memory in rows").c_str());
  }
  // What reads or writes it still would meet the results.
  if (output.array.device_type() == kGpu) WaitForProducer(object);
  output.tensor = OverMemory(output.array, dtype, shape);
  return output;
}

Tensor CopyOf(nb::handle object, std::string_view name) {
  return InputOf(object, name).tensor.Clone();
}

nb::object ArrayOf(const Tensor& tensor, Framework framework) {
  switch (framework) {
    case Framework::kTorch: return Export<nb::pytorch>(tensor, Keep(tensor));
    case Framework::kJax: return Export<nb::jax>(tensor, Keep(tensor));
    case Framework::kCupy: return Export<nb::cupy>(tensor, Keep(tensor));
    case Framework::kNumpy: break;
  }
  const Tensor named = ForNumpy(tensor);
  return Export<nb::numpy>(named, Keep(named));
}

nb::object ViewOf(const Tensor& tensor, bool writable, nb::handle owner) {
  nb::object array = Export<nb::numpy>(tensor, owner);
  if (!writable) array.attr("flags").attr("writeable") = false;
  return array;
}

nb::object ObjectOf(const Value& value, Framework framework) {
  if (value.IsTensor()) return ArrayOf(value.AsTensor(), framework);
  if (value.IsBool()) return nb::bool_(value.AsBool());
  if (value.IsInt()) return nb::int_(value.AsInt());
  if (value.IsFloat()) return nb::float_(value.AsFloat());
  if (value.IsComplex()) {
    const std::complex<double> number = value.AsComplex();
    return nb::steal(PyComplex_FromDoubles(number.real(), number.imag()));
  }
  if (value.IsString()) return nb::str(value.AsString().c_str(), value.AsString().size());
  if (!value.IsList()) return nb::none();
  nb::list list;
  for (const Value& item : value.AsList()) list.append(ObjectOf(item, framework));
  return list;
}

std::string_view NumpyName(DType dtype) { return dtype == DType::kNull ? "" : RowOf(dtype).numpy; }

DType DTypeOfObject(nb::handle object) {
  const std::string name = NameOfType(object);
  for (const TypeRow& row : kTypes) {
    if (row.numpy == name || Name(row.dtype) == name) return row.dtype;
  }
  throw Error(ErrorCode::kInvalidArgument, "no dtype of a network: " + ShortReprOf(object));
}

nb::tuple TupleOf(const Shape& shape) {
  nb::list dims;
  for (const int64_t dim : shape) {
    dims.append(dim == Shape::kUnknown ? nb::object(nb::none()) : nb::object(nb::int_(dim)));
  }
  return nb::tuple(dims);
}

Shape ShapeOfObject(nb::handle object) {
  Shape shape;
  for (nb::handle dim : object) shape.Append(As<int64_t>(dim, "a dimension of a shape"));
  return shape;
}

}  // namespace oort::python
