// SPDX-License-Identifier: MIT
// An operator of one's own: declared, implemented and registered by the program that uses it.
// The model below asks for my.Swirl, which Oort has never heard of.
#include <cmath>
#include <iostream>
#include <string>

#include <oort/oort.h>

namespace {

/// y = sin(x) * gain, element by element.
class Swirl : public oort::Layer {
 public:
  explicit Swirl(const oort::LayerInit& init) : gain_(static_cast<float>(init.Float("gain"))) {}

  std::vector<oort::Value> Infer(const oort::Args& args) const override {
    return {oort::Tensor::Meta(oort::DType::kF32, args.shape(0))};
  }

  void Forward(const oort::Context& context, const oort::Args& args,
               std::span<oort::Value> outputs) const override {
    const float* x = args.tensor(0).data<float>();
    float* y = outputs[0].AsTensor().data<float>();
    context.ParallelFor(args.tensor(0).elements(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = gain_ * std::sin(x[i]);
    });
  }

  // The result may be written over the input: no second buffer.
  std::vector<oort::Reuse> Reuses(const oort::Args&) const override {
    return {{.kind = oort::Reuse::kInPlace}};
  }

 private:
  float gain_;
};

constexpr const char* kModel = R"(7767517
3 2
pnnx.Input   pnnx_input_0   0 1 x #x=(1,4)f32
my.Swirl     swirl          1 1 x y gain=2.0 #x=(1,4)f32 #y=(1,4)f32
pnnx.Output  pnnx_output_0  1 0 y #y=(1,4)f32
)";

}  // namespace

int main() {
  try {
    // One declaration: from it come the checks of every model that uses the operator.
    oort::LayerRegistry::Global().Add(oort::OperatorSchema({"my.Swirl"}, "sin(x) * gain")
                                          .Tensor("input", oort::kF32Only)
                                          .Float("gain", 1.0)
                                          .AtLeast(0),
                                      oort::Create<Swirl>());

    const auto graph = oort::RuntimeGraph::Load(*oort::ByteSource::Owned(kModel), nullptr);
    oort::Session session(graph);
    const oort::Tensor x = oort::Tensor::From<float>({0.0f, 0.5f, 1.0f, 1.5f}, {1, 4});
    const oort::Tensor y = session.Forward({x}).at(0);
    std::cout << "my.Swirl:";
    for (const float value : y.span<float>()) std::cout << ' ' << value;
    std::cout << '\n';
    return 0;
  } catch (const oort::Error& error) {
    std::cerr << "custom_operator: " << error.what() << '\n';
    return 1;
  }
}
