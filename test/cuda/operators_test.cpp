// SPDX-License-Identifier: MIT
// Operators on the GPU against the same on the CPU, which other tests hold against torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/memory.h"
#include "test/cuda/operators_on_gpu.h"

namespace oort {
namespace {

using testing::RandomTensor;
using testing::RangeTensor;
using testing::Tolerance;

class CudaOperators : public OperatorsOnGpu {};

constexpr DType kManyDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32,
                                 DType::kI64, DType::kU8,  DType::kI8,   DType::kI16, DType::kBool};
constexpr DType kFloatDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};

TEST_F(CudaOperators, ElementsOfAllLengths) {
  for (int64_t length : testing::EdgeLengths()) {
    ExpectSame("F.relu", "", {RandomTensor(DType::kF32, {length})});
    ExpectSame("pnnx.Expression", "expr=add(mul(@0,2),@1)",
               {RandomTensor(DType::kF32, {length}), RandomTensor(DType::kF32, {length}, 2)});
  }
}

TEST_F(CudaOperators, ActivationsOfAllFloats) {
  for (DType dtype : kFloatDTypes) {
    const Tensor x = RandomTensor(dtype, {3, 37}, 1, -6, 6);
    for (const char* type : {"F.silu", "F.gelu", "F.hardswish", "F.hardsigmoid", "F.sigmoid",
                             "F.tanh", "F.mish", "F.selu", "F.logsigmoid", "F.softsign"}) {
      ExpectSame(type, "", {x});
    }
    ExpectSame("F.gelu", "approximate=tanh", {x});
    ExpectSame("F.elu", "alpha=0.7", {x});
    ExpectSame("F.leaky_relu", "negative_slope=0.2", {x});
    ExpectSame("F.softplus", "beta=2.0 threshold=3.0", {x});
  }
}

TEST_F(CudaOperators, FunctionsOfF32) {
  const Tensor x = RandomTensor(DType::kF32, {257}, 3, 0.1, 0.9);
  for (const char* name :
       {"abs",   "acos", "asin",   "atan",       "ceil",  "cos",    "cosh",  "erf",
        "erfc",  "exp",  "exp2",   "expm1",      "floor", "lgamma", "log",   "log10",
        "log1p", "log2", "neg",    "reciprocal", "round", "rsqrt",  "sign",  "sin",
        "sinh",  "sqrt", "square", "tan",        "trunc", "isnan",  "atanh", "asinh"}) {
    ExpectSame(std::string("torch.") + name, "", {x});
  }
}

TEST_F(CudaOperators, ArithmeticOfAllDTypes) {
  for (DType dtype : kManyDTypes) {
    const Tensor a = RandomTensor(dtype, {5, 1, 7}, 1, 1, 50);
    const Tensor b = RandomTensor(dtype, {4, 7}, 2, 1, 9);
    for (const char* expression :
         {"add(@0,@1)", "mul(@0,@1)", "maximum(@0,@1)", "eq(@0,@1)", "where(lt(@0,@1),@0,@1)"}) {
      if (dtype == DType::kBool && std::string(expression).find("lt") != std::string::npos)
        continue;
      ExpectSame("pnnx.Expression", std::string("expr=") + expression, {a, b});
    }
    if (dtype == DType::kBool) continue;
    ExpectSame("pnnx.Expression", "expr=sub(@0,@1)", {a, b});
    ExpectSame("pnnx.Expression", "expr=floor_divide(@0,@1)", {a, b});
    ExpectSame("pnnx.Expression", "expr=remainder(@0,@1)", {a, b});
    ExpectSame("pnnx.Expression", "expr=pow(@0,2)", {a});
  }
  const Tensor i = RandomTensor(DType::kI32, {33}, 1, -100, 100);
  ExpectSame("pnnx.Expression", "expr=bitwise_and(@0,@1)", {i, RandomTensor(DType::kI32, {33}, 2)});
}

TEST_F(CudaOperators, Conversions) {
  for (DType from : kManyDTypes) {
    const Tensor x = RandomTensor(from, {19}, 1, -3, 3);
    for (const char* to : {"float", "half", "double", "int", "long", "bool", "bfloat16"}) {
      ExpectSame("Tensor.to", std::string("dtype=torch.") + to, {x});
    }
  }
}

TEST_F(CudaOperators, LongFormulas) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 5, 7}),
               y = RandomTensor(DType::kF32, {3, 1, 7});
  ExpectSame("pnnx.Expression",
             "expr=div(sub(exp(mul(@0,@1)),sin(add(@0,cos(@1)))),sqrt(add(abs(@0),1.5)))", {x, y});
  ExpectSame("torch.clamp", "min=-0.5 max=0.25", {x});
  // What the kernel lacks is computed by the host.
  ExpectSame("torch.digamma", "", {RandomTensor(DType::kF32, {33}, 1, 1, 5)});
}

TEST_F(CudaOperators, Copies) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kU8, DType::kF64, DType::kC128}) {
    const Tensor x = dtype == DType::kC128 ? RandomTensor(DType::kF64, {6, 7, 9, 11}).To(dtype)
                                           : RandomTensor(dtype, {6, 7, 9, 11}, 1, 0, 100);
    ExpectSame("torch.permute", "dims=(0,2,3,1)", {x});
    ExpectSame("torch.permute", "dims=(3,1,0,2)", {x});
    ExpectSame("torch.transpose", "dim0=2 dim1=3", {x});
    ExpectSame("Tensor.slice", "dim=2 start=1 end=8 step=3", {x});
    ExpectSame("torch.flip", "dims=(1,3)", {x});
    ExpectSame("torch.roll", "shifts=(2,-3) dims=(1,3)", {x});
    ExpectSame("torch.cat", "dim=1", {x, x, x});
    ExpectSame("torch.stack", "dim=2", {x, x});
    ExpectSame("torch.chunk", "chunks=3 dim=2", {x}, 3);
    ExpectSame("Tensor.reshape", "shape=(42,-1)", {x});
    ExpectSame("Tensor.repeat", "sizes=(1,2,1,3)", {x});
  }
  ExpectSame("torch.permute", "dims=(1,0)", {RandomTensor(DType::kF32, {513, 129})});
  ExpectSame("torch.permute", "dims=(0,2,1)", {RandomTensor(DType::kF16, {5, 64, 96})});
  ExpectSame("Tensor.expand", "sizes=(4,3,5)", {RandomTensor(DType::kF32, {3, 1})});
}

TEST_F(CudaOperators, Padding) {
  for (DType dtype : {DType::kF32, DType::kU8}) {
    const Tensor x = RandomTensor(dtype, {2, 3, 5, 7}, 1, 0, 100);
    ExpectSame("F.pad", "pad=(1,2,3,0) mode=constant value=4", {x});
    ExpectSame("F.pad", "pad=(1,2,3,1) mode=reflect value=None", {x});
    ExpectSame("F.pad", "pad=(1,2,0,3) mode=replicate value=None", {x});
    ExpectSame("F.pad", "pad=(3,1,2,2) mode=circular value=None", {x});
    ExpectSame("F.pad", "pad=(-1,2,1,-2) mode=constant value=0", {x});
  }
}

TEST_F(CudaOperators, Reductions) {
  for (DType dtype : kManyDTypes) {
    const Tensor x = RandomTensor(dtype, {5, 6, 7, 33}, 1, -4, 4);
    for (const char* dims : {"dim=(3)", "dim=(1)", "dim=(0,2)", "dim=(2,3)", "dim=(0,1,2,3)"}) {
      ExpectSame("torch.sum", std::string(dims) + " keepdim=True", {x});
      if (dtype != DType::kBool) ExpectSame("torch.amax", dims, {x});
    }
    if (kFloats.Contains(dtype)) {
      ExpectSame("torch.mean", "dim=(2,3)", {x});
      ExpectSame("torch.prod", "dim=(1)", {x});
    }
    if (dtype == DType::kBool) continue;
    ExpectSame("torch.max", "dim=3", {x}, 2);
    ExpectSame("torch.min", "dim=1", {x}, 2);
    ExpectSame("torch.argmax", "dim=2", {x});
  }
  Tensor nan = RandomTensor(DType::kF32, {3, 100});
  nan.data<float>()[150] = NAN;
  ExpectSame("torch.max", "dim=1", {nan}, 2);
  ExpectSame("torch.sum", "dim=None", {RandomTensor(DType::kF32, {300, 1001})});
}

TEST_F(CudaOperators, Softmax) {
  for (DType dtype : kFloatDTypes) {
    for (int64_t length : {1, 5, 33, 1000, 5000}) {
      ExpectSame("F.softmax", "dim=-1", {RandomTensor(dtype, {3, length}, 1, -9, 9)});
      ExpectSame("F.log_softmax", "dim=0", {RandomTensor(dtype, {7, length}, 1, -9, 9)});
    }
    ExpectSame("F.softmin", "dim=1", {RandomTensor(dtype, {40, 6, 64})});
  }
}

TEST_F(CudaOperators, Pooling) {
  for (DType dtype : kFloatDTypes) {
    const Tensor x = RandomTensor(dtype, {2, 3, 13, 17});
    ExpectSame("F.max_pool2d", "kernel_size=(3,2) stride=(2,2) padding=(1,1) dilation=(1,2)", {x});
    ExpectSame("nn.MaxPool2d", "kernel_size=(3,3) stride=(2,2) padding=(0,0) ceil_mode=True", {x});
    ExpectSame("F.avg_pool2d", "kernel_size=(3,3) stride=(2,1) padding=(1,1)", {x});
    ExpectSame("F.avg_pool2d",
               "kernel_size=(2,3) stride=(2,2) padding=(1,0) count_include_pad=False", {x});
    ExpectSame("F.adaptive_avg_pool2d", "output_size=(4,5)", {x});
    ExpectSame("F.adaptive_max_pool2d", "output_size=(1,3)", {x});
  }
  ExpectSame("F.max_pool1d", "kernel_size=3 stride=2 return_indices=True",
             {RandomTensor(DType::kF32, {2, 5, 31})}, 2);
}

TEST_F(CudaOperators, Resizing) {
  for (DType dtype : kFloatDTypes) {
    const Tensor x = RandomTensor(dtype, {2, 3, 7, 9});
    const Tolerance tolerance =
        dtype == DType::kF32 || dtype == DType::kF64 ? Tolerance{1e-5, 1e-5} : Tolerance{};
    for (const char* mode : {"nearest", "nearest-exact", "bilinear", "bicubic", "area"}) {
      ExpectSame("F.interpolate", std::string("size=(13,4) mode=") + mode, {x}, 1, {}, tolerance);
    }
    ExpectSame("F.interpolate", "size=(5,21) mode=bilinear align_corners=True", {x}, 1, {},
               tolerance);
    ExpectSame("nn.Upsample", "scale_factor=(2.0,2.0) mode=nearest", {x});
  }
}

TEST_F(CudaOperators, Norms) {
  for (DType dtype : kFloatDTypes) {
    for (int64_t width : {1, 7, 64, 768, 1000, 1024, 1032}) {
      const Tensor x = RandomTensor(dtype, {3, 5, width}, 1, -3, 9);
      const Tensor weight = RandomTensor(dtype, {width}, 2), bias = RandomTensor(dtype, {width}, 3);
      const std::string shape = "normalized_shape=(" + std::to_string(width) + ")";
      ExpectSame("nn.LayerNorm", shape + " eps=1e-5", {x}, 1, {{"weight", weight}, {"bias", bias}});
      ExpectSame("nn.RMSNorm", shape + " eps=1e-6", {x}, 1, {{"weight", weight}});
    }
    const Tensor image = RandomTensor(dtype, {2, 6, 5, 7}, 1, -3, 9);
    const Tensor weight = RandomTensor(dtype, {6}, 2), bias = RandomTensor(dtype, {6}, 3);
    ExpectSame("nn.GroupNorm", "num_groups=3 eps=1e-5", {image}, 1,
               {{"weight", weight}, {"bias", bias}});
    ExpectSame("nn.InstanceNorm2d", "eps=1e-5", {image});
    ExpectSame("nn.BatchNorm2d", "eps=1e-5", {image}, 1,
               {{"weight", weight},
                {"bias", bias},
                {"running_mean", RandomTensor(dtype, {6}, 4)},
                {"running_var", RandomTensor(dtype, {6}, 5, 0.5, 2)}});
  }
}

TEST_F(CudaOperators, Products) {
  for (DType dtype : kFloatDTypes) {
    const Tolerance loose = dtype == DType::kF64 ? Tolerance{} : Tolerance{2e-2, 2e-2};
    const Tolerance tolerance = dtype == DType::kF32 ? Tolerance{1e-4, 1e-4} : loose;
    const auto random = [&](Shape shape, uint64_t seed) {
      return RandomTensor(dtype, shape, seed, -1, 1);
    };
    ExpectSame("torch.matmul", "", {random({17, 33}, 1), random({33, 9}, 2)}, 1, {}, tolerance);
    ExpectSame("torch.matmul", "", {random({2, 3, 8, 16}, 1), random({3, 16, 24}, 2)}, 1, {},
               tolerance);
    ExpectSame("torch.bmm", "", {random({4, 8, 16}, 1), random({4, 16, 8}, 2)}, 1, {}, tolerance);
    ExpectSame("torch.matmul", "", {random({5, 1, 8, 16}, 1), random({1, 3, 16, 8}, 2)}, 1, {},
               tolerance);
    ExpectSame("torch.matmul", "", {random({33}, 1), random({33, 16}, 2)}, 1, {}, tolerance);
    if (dtype == DType::kF64) continue;
    ExpectSame("nn.Linear", "bias=True in_features=48 out_features=24", {random({3, 5, 48}, 1)}, 1,
               {{"weight", random({24, 48}, 2)}, {"bias", random({24}, 3)}}, tolerance);
    ExpectSame("nn.Linear", "bias=False in_features=17 out_features=5", {random({7, 17}, 1)}, 1,
               {{"weight", random({5, 17}, 2)}}, tolerance);
  }
  const Tensor x = RandomTensor(DType::kF32, {6, 16}), y = RandomTensor(DType::kF32, {6, 8}, 4);
  ExpectSame("oort.Linear", "activation=gelu", {x, y}, 1,
             {{"weight", RandomTensor(DType::kF32, {8, 16}, 2)},
              {"bias", RandomTensor(DType::kF32, {8}, 3)}},
             {1e-4, 1e-4});
  // Many rows, so that the activation is a kernel of its own; the last of its threads has a rest.
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const bool narrow = dtype != DType::kF32;
    const std::vector<Tensor> inputs = {RandomTensor(dtype, {333, 32}, 1, -1, 1)};
    for (const char* activation : {"gelu", "gelu_tanh", "silu", "leaky_relu activation_a=0.2"}) {
      ExpectSame("oort.Linear", std::string("activation=") + activation, inputs, 1,
                 {{"weight", RandomTensor(dtype, {37, 32}, 2, -1, 1)},
                  {"bias", RandomTensor(dtype, {37}, 3)}},
                 narrow ? Tolerance{2e-2, 2e-2} : Tolerance{1e-4, 1e-4});
    }
  }
}

TEST_F(CudaOperators, Indexing) {
  const Tensor index = Tensor::From<int64_t>({4, 0, 2, 2, 1}, {5});
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kU8}) {
    const Tensor x = RandomTensor(dtype, {5, 6, 7}, 1, 0, 100);
    ExpectSame("torch.index_select", "dim=1", {x, index});
    ExpectSame("torch.index_select", "dim=0", {x, index});
    ExpectSame("torch.gather", "dim=2", {x, RandomTensor(DType::kI64, {5, 6, 3}, 2, 0, 6)});
  }
  const Tensor image = RandomTensor(DType::kF32, {4, 5, 6}, 3);
  for (const char* expr : {"[[2,0,-1]]", "[None,None,[0,2]]", "[[1,3],[0,4]]", "[None,[3,1,1]]",
                           "[[0,1],None,[5,2]]"}) {
    ExpectSame("Tensor.index", std::string("expr=") + expr, {image});
  }
  ExpectSame("nn.Embedding", "num_embeddings=5 embedding_dim=24", {index}, 1,
             {{"weight", RandomTensor(DType::kF32, {5, 24})}});
}

TEST_F(CudaOperators, SortingAndRunningSums) {
  for (DType dtype : kManyDTypes) {
    for (int64_t length : {1, 5, 33, 2048, 3000}) {
      const Tensor x = RandomTensor(dtype, {3, length, 2}, 1, 0, 100);
      ExpectSame("torch.sort", "dim=1 descending=True", {x}, 2);
      ExpectSame("torch.argsort", "dim=1 descending=False", {x});
      if (IsFloat(dtype)) {
        ExpectSame("torch.cumsum", "dim=1", {RandomTensor(dtype, {3, length, 2}, 1, 0, 0.1)}, 1, {},
                   dtype == DType::kF32 ? Tolerance{1e-6, 1e-6} : Tolerance{});
      } else {
        ExpectSame("torch.cumsum", "dim=1", {x});
      }
    }
  }
  Tensor odd = Tensor::From<float>({3, NAN, -0.0f, 0.0f, -INFINITY, 3, INFINITY, NAN}, {8});
  ExpectSame("torch.sort", "dim=0 descending=False", {odd}, 2);
  ExpectSame("torch.sort", "dim=0 descending=True", {odd}, 2);
  for (int64_t length : {7, 1000, 5000}) {
    const Tensor x = RandomTensor(DType::kF64, {4, length}, 7);
    ExpectSame("torch.topk", "k=5 dim=1 largest=True sorted=True", {x}, 2);
    ExpectSame("torch.topk", "k=3 dim=-1 largest=False sorted=True", {x}, 2);
  }
  ExpectSame("torch.cumprod", "dim=0", {RandomTensor(DType::kF32, {40, 3}, 1, 0.8, 1.2)}, 1, {},
             {1e-5, 1e-5});
}

TEST_F(CudaOperators, Recurrent) {
  const auto random = [](Shape shape, uint64_t seed) {
    return RandomTensor(DType::kF32, shape, seed, -0.5, 0.5);
  };
  for (const auto& [type, gates] : {std::pair{"nn.LSTM", 4}, {"nn.GRU", 3}, {"nn.RNN", 1}}) {
    for (int64_t hidden : {3, 20}) {
      std::map<std::string, Tensor> weights;
      uint64_t seed = 1;
      for (int layer = 0; layer < 2; ++layer) {
        for (const char* direction : {"", "_reverse"}) {
          const std::string end = "_l" + std::to_string(layer) + direction;
          const int64_t in = layer == 0 ? 9 : 2 * hidden, rows = gates * hidden;
          weights["weight_ih" + end] = random({rows, in}, ++seed);
          weights["weight_hh" + end] = random({rows, hidden}, ++seed);
          weights["bias_ih" + end] = random({rows}, ++seed);
          weights["bias_hh" + end] = random({rows}, ++seed);
        }
      }
      const std::string params = "input_size=9 hidden_size=" + std::to_string(hidden) +
                                 " num_layers=2 bias=True bidirectional=True batch_first=";
      const int outputs = gates == 4 ? 3 : 2;
      for (const char* first : {"True", "False"}) {
        ExpectSame(type, params + first, {random({5, 7, 9}, 1)}, outputs, weights, {1e-5, 1e-5});
      }
    }
  }
  const std::map<std::string, Tensor> projected = {{"weight_ih_l0", random({24, 5}, 1)},
                                                   {"weight_hh_l0", random({24, 4}, 2)},
                                                   {"weight_hr_l0", random({4, 6}, 3)}};
  ExpectSame("nn.LSTM", "input_size=5 hidden_size=6 proj_size=4 bias=False",
             {random({3, 2, 5}, 1), random({1, 2, 4}, 2), random({1, 2, 6}, 3)}, 3, projected,
             {1e-5, 1e-5});
}

TEST_F(CudaOperators, PaddedConvolutions) {
  const Tensor x = RandomTensor(DType::kF32, {2, 4, 9, 7}, 1);
  const std::map<std::string, Tensor> weights = {
      {"weight", RandomTensor(DType::kF32, {6, 4, 3, 3}, 2)},
      {"bias", RandomTensor(DType::kF32, {6}, 3)}};
  for (const char* mode : {"zeros", "reflect", "replicate", "circular"}) {
    ExpectSame("nn.Conv2d",
               std::string("bias=True in_channels=4 out_channels=6 kernel_size=(3,3) stride=(2,1) "
                           "padding=(2,1) dilation=(1,1) groups=1 padding_mode=") +
                   mode,
               {x}, 1, weights, {1e-4, 1e-5});
  }
}

TEST_F(CudaOperators, GridSampling) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor image = RandomTensor(dtype, {2, 3, 7, 5}, 1),
                 volume = RandomTensor(dtype, {2, 2, 4, 5, 3}, 2);
    const Tensor points = RandomTensor(dtype, {2, 6, 9, 2}, 3, -1.3, 1.3);
    const Tensor places = RandomTensor(dtype, {2, 3, 2, 4, 3}, 4, -1.3, 1.3);
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const char* align : {"True", "False"}) {
        const std::string params =
            std::string(" padding_mode=") + padding + " align_corners=" + align;
        for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
          ExpectSame("F.grid_sample", std::string("mode=") + mode + params, {image, points}, 1, {},
                     {1e-5, 1e-5});
        }
        ExpectSame("F.grid_sample", "mode=bilinear" + params, {volume, places}, 1, {},
                   {1e-5, 1e-5});
        ExpectSame("F.grid_sample", "mode=nearest" + params, {volume, places});
      }
    }
  }
}

TEST_F(CudaOperators, Scattering) {
  const Tensor lines = RandomTensor(DType::kI64, {3, 4, 5}, 2, 0, 5);
  const Tensor rows = Tensor::From<int64_t>({4, 0, 4, 2}, {4});
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kU8}) {
    const Tensor x = RandomTensor(dtype, {3, 6, 5}, 1, 1, 9);
    const Tensor source = RandomTensor(dtype, {3, 4, 5}, 3, 1, 9);
    ExpectSame("torch.scatter", "dim=1", {x, lines, source});
    ExpectSame("torch.scatter", "dim=1 reduce=add", {x, lines, source});
    ExpectSame("torch.scatter_add", "dim=1", {x, lines, source});
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
      for (const char* self : {"True", "False"}) {
        ExpectSame("torch.scatter_reduce",
                   std::string("dim=1 reduce=") + reduce + " include_self=" + self,
                   {x, lines, source});
      }
    }
    ExpectSame("torch.index_add", "dim=1", {x, rows, source});
    ExpectSame("torch.index_copy", "dim=1", {x, rows, source});
  }
}

TEST_F(CudaOperators, Regions) {
  const Tensor boxes =
      Tensor::From<float>({0, 1, 2, 9,    7,    1,  -3,    0, 4.5f, 30,   0,   5,  5,
                           5, 5, 1, 0.5f, 2.5f, 11, 8.25f, 1, 0,    -100, 100, 100},
                          {5, 5});
  const Tensor x = RandomTensor(DType::kF32, {2, 12, 9, 11}, 1);
  for (const char* more : {" arg_5=2 arg_6=True", " arg_5=0 arg_6=False", " arg_5=-1 arg_6=True"}) {
    ExpectSame("pnnx.custom_op.torchvision.roi_align",
               std::string("arg_2=0.5 arg_3=3 arg_4=4") + more, {x, boxes}, 1, {}, {1e-4, 1e-5});
  }
  ExpectSame("pnnx.custom_op.torchvision.ps_roi_align", "arg_2=1.0 arg_3=2 arg_4=3 arg_5=2",
             {x, boxes}, 2, {}, {1e-4, 1e-5});
}

TEST_F(CudaOperators, ComposedOfOthers) {
  const auto random = [](Shape shape, uint64_t seed) {
    return RandomTensor(DType::kF32, shape, seed, -1, 1);
  };
  const Tensor a = random({5, 8}, 1), b = random({8, 7}, 2), c = random({7}, 3);
  ExpectSame("torch.addmm", "beta=1 alpha=1", {c, a, b}, 1, {}, {1e-5, 1e-5});
  ExpectSame("torch.addmm", "beta=0.5 alpha=-2.0", {random({5, 7}, 4), a, b}, 1, {}, {1e-5, 1e-5});
  ExpectSame("torch.baddbmm", "beta=0 alpha=2",
             {random({3, 5, 7}, 4), random({3, 5, 8}, 5), random({3, 8, 7}, 6)}, 1, {},
             {1e-5, 1e-5});
  const Tensor left = random({3, 5, 8}, 4), right = random({3, 8, 6}, 5);
  for (const char* equation : {"bij,bjk->bik", "bij,bjk->kib", "bij,bjk->bk", "bij,bjk->i"}) {
    ExpectSame("torch.einsum", std::string("equation=") + equation, {left, right}, 1, {},
               {1e-4, 1e-5});
  }
  ExpectSame("torch.einsum", "equation=bij->jb", {left}, 1, {}, {1e-5, 1e-6});
  const Tensor x = random({4, 9, 6}, 7);
  for (const char* type : {"torch.var", "torch.std"}) {
    ExpectSame(type, "dim=(1) keepdim=True unbiased=True", {x}, 1, {}, {1e-5, 1e-6});
    ExpectSame(type, "dim=(0,2) keepdim=False unbiased=False", {x}, 1, {}, {1e-5, 1e-6});
    ExpectSame(type, "", {x}, 1, {}, {1e-5, 1e-6});
    ExpectSame(std::string(type) + "_mean", "dim=(1) keepdim=False", {x}, 2, {}, {1e-5, 1e-6});
  }
  for (const char* p : {"1", "2", "3.0", "inf"}) {
    ExpectSame("torch.norm", std::string("dim=(1) keepdim=True p=") + p, {x}, 1, {}, {1e-5, 1e-6});
    ExpectSame("F.normalize", std::string("dim=(2) eps=1e-12 p=") + p, {x}, 1, {}, {1e-5, 1e-6});
  }
  ExpectSame("nn.LocalResponseNorm", "size=5 alpha=0.1 beta=0.75 k=2.0", {random({2, 7, 3, 4}, 9)},
             1, {}, {1e-5, 1e-6});
  ExpectSame("F.unfold", "kernel_size=(3,2) dilation=(1,2) padding=(1,0) stride=(2,1)",
             {random({2, 3, 9, 8}, 9)});
  ExpectSame("torch.diag", "diagonal=1", {random({5}, 9)});
  ExpectSame("torch.slice_scatter", "dim=1 start=2 end=8 step=3", {x, random({4, 2, 6}, 9)});
  ExpectSame("torch.tril", "diagonal=-1", {x});
  ExpectSame("torch.triu", "diagonal=2", {RandomTensor(DType::kI64, {5, 7}, 1, 0, 9)});
  ExpectSame("torch.logsumexp", "dim=(1) keepdim=False", {x}, 1, {}, {1e-5, 1e-6});
  ExpectSame("F.pairwise_distance", "p=2.0 eps=1e-6 keepdim=False", {x, random({4, 9, 6}, 9)}, 1,
             {}, {1e-5, 1e-6});
  ExpectSame("F.cosine_similarity", "dim=1 eps=1e-8", {x, random({4, 9, 6}, 8)}, 1, {},
             {1e-5, 1e-6});
}

TEST_F(CudaOperators, ArgmaxToken) {
  const float nan = std::nanf("");
  for (const int64_t length : {1, 31, 1000, 1024, 32000, 151936}) {
    Tensor x = RandomTensor(DType::kF32, {5, length}, static_cast<uint64_t>(length));
    float* values = x.data<float>();
    std::fill(values + length, values + 2 * length, -3.5f);          // all equal
    std::fill(values + 2 * length, values + 3 * length, -INFINITY);  // none
    std::fill(values + 3 * length, values + 4 * length, nan);
    values[3 * length + length / 2] = -1e30f;
    values[4 * length + length - 1] = values[4 * length + length / 2] = 9;  // a tie
    ExpectSame("oort.Argmax", "", {x});
  }
}

TEST_F(CudaOperators, StatisticsTellWhatIsInUse) {
  const cuda::MemoryStatistics before = cuda::Statistics(0);
  {
    const Tensor x = cuda::ToDevice(RandomTensor(DType::kF32, {1000, 1000}), Device::Cuda(0));
    EXPECT_GE(cuda::Statistics(0).in_use, before.in_use + x.bytes());
    testing::ExpectNear(cuda::ToHost(x), RandomTensor(DType::kF32, {1000, 1000}));
  }
  EXPECT_EQ(cuda::Statistics(0).in_use, before.in_use);
}

TEST_F(CudaOperators, MoreMemoryThanThereIsIsAnError) {
  try {
    cuda::AllocateDevice(size_t{1} << 50, 0);
    FAIL() << "a petabyte was there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_NO_THROW(cuda::AllocateDevice(1 << 20, 0));
}

}  // namespace
}  // namespace oort
