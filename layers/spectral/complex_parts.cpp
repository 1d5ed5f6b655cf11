// SPDX-License-Identifier: MIT
// Conjugates, angles and directions of complex numbers, as ATen names them.
#include <cmath>
#include <numbers>

#include "core/dispatch.h"
#include "layers/expression/engine_layer.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

/// Negates the imaginary parts of complex numbers.
void ConjugateInPlace(const Context& context, Tensor& tensor) {
  VisitDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsComplex<T>) {
      T* const data = tensor.data<T>();
      context.ParallelFor(tensor.elements(), 16384, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) data[i] = std::conj(data[i]);
      });
    }
  });
}

/// The conjugates, with the last two axes exchanged or as they are.
class ConjugateLayer final : public Layer {
 public:
  ConjugateLayer(const LayerInit& init, bool transposed)
      : transposed_(transposed), input_(init.Arg("input")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(input_);
    if (transposed_ && input.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected rank 2 at least, got shape " + input.shape().ToString());
    }
    return {Tensor::Meta(input.dtype(), View(input.shape()).shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    Tensor& output = outputs[0].AsTensor();
    if (input.elements() == 0) return;
    if (input.raw() != output.raw()) {
      CopyStrided(context, ItemSize(input.dtype()), input.raw(), View(input.shape()), output.raw());
    }
    ConjugateInPlace(context, output);
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    if (transposed_) return {};
    const bool complex = IsComplex(args.tensor(input_).dtype());
    return {{complex ? Reuse::kInPlace : Reuse::kView, input_, 0, 0}};
  }

 private:
  Strided View(const Shape& shape) const {
    const Strided view(shape);
    return transposed_ ? view.Swapped(shape.rank() - 2, shape.rank() - 1) : view;
  }

  bool transposed_;
  int input_;
};

/// What the angle of a T is counted in.
template <typename T>
struct AngleType {
  using Type = std::conditional_t<std::is_integral_v<T>, float, T>;
};
template <typename T>
struct AngleType<std::complex<T>> {
  using Type = T;
};

/// The angle of a real number: half a turn if it is negative.
template <typename T>
double AngleOf(T value) {
  const double number = ConvertElement<double>(value);
  return number < 0 ? std::numbers::pi : std::isnan(number) ? number : 0;
}
template <typename T>
T AngleOf(std::complex<T> value) {
  return std::atan2(value.imag(), value.real());
}

class AngleLayer final : public Layer {
 public:
  explicit AngleLayer(const LayerInit& init) : input_(init.Arg("input")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = VisitDType(args.tensor(input_).dtype(), [](auto tag) {
      return kDTypeOf<typename AngleType<typename decltype(tag)::Type>::Type>;
    });
    return {Tensor::Meta(dtype, args.shape(input_))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      using R = typename AngleType<T>::Type;
      const T* const from = input.data<T>();
      R* const to = outputs[0].AsTensor().data<R>();
      context.ParallelFor(input.elements(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = ConvertElement<R>(AngleOf(from[i]));
      });
    });
  }

 private:
  int input_;
};

/// z / |z|; the sign of a real number, which NaN has none of.
class SgnLayer final : public Layer {
 public:
  explicit SgnLayer(const LayerInit& init) : input_(init.Arg("input")) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(input_).dtype(), args.shape(input_))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    Tensor& output = outputs[0].AsTensor();
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* const from = input.data<T>();
      T* const to = output.data<T>();
      context.ParallelFor(input.elements(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = Sgn(from[i]);
      });
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

 private:
  template <typename T>
  static T Sgn(T value) {
    if constexpr (kIsComplex<T>) {
      const auto size = std::abs(value);
      return size == 0 ? T(0) : T(value.real() / size, value.imag() / size);
    } else {
      const double number = ConvertElement<double>(value);
      return ConvertElement<T>(number > 0 ? 1.0 : number < 0 ? -1.0 : 0.0);
    }
  }

  int input_;
};

LayerCreator CreateConjugate(bool transposed) {
  return [transposed](const LayerInit& init) {
    return std::make_unique<ConjugateLayer>(init, transposed);
  };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(complex_parts) {
  using namespace oort;
  const DTypeSet numbers = kReals | DType::kC64 | DType::kC128;
  registry.Add(OperatorSchema({"torch.conj", "aten::conj", "aten::_conj", "aten::conj_physical"},
                              "complex conjugates; real numbers stay")
                   .Tensor("input", numbers),
               CreateConjugate(false));
  registry.Add(OperatorSchema({"aten::mH", "aten::matrix_H", "aten::adjoint"},
                              "complex conjugates of the transposed matrices")
                   .Tensor("input", numbers),
               CreateConjugate(true));
  registry.Add(OperatorSchema({"aten::resolve_conj", "aten::resolve_neg"}, "the input itself")
                   .Tensor("input", kAllDTypes),
               expression::CreateFromText("@0"));
  registry.Add(OperatorSchema({"aten::angle"}, "the angle to the positive axis, in radians")
                   .Tensor("input", numbers),
               Create<AngleLayer>());
  registry.Add(OperatorSchema({"aten::polar"}, "complex numbers from magnitudes and angles")
                   .Tensor("abs", DType::kF32 | DType::kF64)
                   .Tensor("angle", DType::kF32 | DType::kF64),
               expression::CreateFromText("complex(mul(@0,cos(@1)),mul(@0,sin(@1)))"));
  registry.Add(OperatorSchema({"aten::sgn"}, "z / |z|: the direction of a number, 0 for 0")
                   .Tensor("input", numbers),
               Create<SgnLayer>());
}
