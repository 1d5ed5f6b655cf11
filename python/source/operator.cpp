// SPDX-License-Identifier: MIT
#include "operator.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "arrays.h"
#include "errors.h"
#include "oort/layer.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// Runs `body` with Python's lock; what it raises becomes an Error, which remembers its cause.
template <typename Body>
auto InPython(const Body& body) {
  const Locked locked;
  try {
    return body();
  } catch (nb::python_error& error) {
    throw ErrorOf(error);
  } catch (const nb::builtin_exception& error) {  // nanobind's, which are none of Python's yet
    throw Error(ErrorCode::kInvalidArgument, error.what());
  } catch (const std::bad_cast&) {
    throw Error(ErrorCode::kInvalidArgument,
                "something that goes to Python or comes from there is of no type that fits");
  }
}

/// What `infer` gives for one output: a pair of shape and dtype.
Value MetaOf(nb::handle pair) {
  return Tensor::Meta(DTypeOfObject(pair[1]), ShapeOfObject(pair[0]));
}

/// Made of an object with infer(inputs) and forward(inputs, outputs), see oort/_operator.py.
class PythonLayer final : public Layer {
 public:
  PythonLayer(const LayerInit& init, nb::handle factory)
      : outputs_(init.op().outputs.size()),
        object_(InPython([&] { return Make(init, factory); })) {}

  std::vector<Value> Infer(const Args& args) const override {
    return InPython([&] {
      nb::list metas;
      for (const Value* input : args.inputs()) {
        if (input->IsTensor()) {
          const Tensor& tensor = input->AsTensor();
          metas.append(nb::make_tuple(TupleOf(tensor.shape()), NumpyName(tensor.dtype())));
        } else {
          metas.append(ObjectOf(*input, Framework::kNumpy));
        }
      }
      std::vector<Value> outputs;
      for (nb::handle pair : object_.get().attr("infer")(metas, outputs_)) {
        outputs.push_back(MetaOf(pair));
      }
      return outputs;
    });
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    InPython([&] {
      nb::list given, made;
      for (const Value* input : args.inputs()) given.append(View(*input, false));
      for (const Value& output : outputs) made.append(View(output, true));
      object_.get().attr("forward")(given, made);
    });
  }

 private:
  /// It keeps the tensor, so that a function which keeps the array reads old elements and no
  /// others.
  static nb::object View(const Value& value, bool writable) {
    if (!value.IsTensor()) return ObjectOf(value, Framework::kNumpy);
    const nb::capsule owner(new Tensor(value.AsTensor()),
                            [](void* held) noexcept { delete static_cast<Tensor*>(held); });
    return ViewOf(value.AsTensor(), writable, owner);
  }

  static nb::object Make(const LayerInit& init, nb::handle factory) {
    nb::dict params, weights;
    for (const auto& [name, parameter] : init.op().params) {
      params[name.c_str()] = ObjectOf(parameter.value(), Framework::kNumpy);
    }
    for (const auto& [name, tensor] : init.op().attributes) {
      weights[name.c_str()] = ArrayOf(tensor.Clone(), Framework::kNumpy);
    }
    return factory(params, weights);
  }

  size_t outputs_;
  SharedObject object_;
};

void Register(const std::string& type, const std::string& doc, nb::object factory, bool replace) {
  OperatorSchema schema({type}, doc);
  schema.FreeInputs().Open().Outputs(1, -1);
  // The registry is never destroyed before the interpreter, so neither is what it holds.
  auto* const held = new SharedObject(std::move(factory));
  LayerCreator creator = [held](const LayerInit& init) {
    return std::make_unique<PythonLayer>(init, held->get());
  };
  LayerRegistry& registry = LayerRegistry::Global();
  if (replace) {
    registry.Replace(std::move(schema), std::move(creator));
  } else {
    registry.Add(std::move(schema), std::move(creator));
  }
}

}  // namespace

void BindOperator(nb::module_& module) {
  module.def("register", &Register, nb::arg("type"), nb::arg("doc"), nb::arg("factory"),
             nb::arg("replace"));
}

}  // namespace oort::python
