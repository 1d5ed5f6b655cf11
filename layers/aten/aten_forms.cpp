// SPDX-License-Identifier: MIT
// What pnnx leaves in ATen's form of operators that it has names for: see overloads.h.
#include "layers/aten/overloads.h"
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

/// An operator with one overload, named as ATen does.
struct PlainForm {
  const char* name;
  const char* target;
  const char* arguments;
};

constexpr PlainForm kActivations[] = {
    {"relu", "F.relu", "*input"},
    {"relu6", "F.relu6", "*input"},
    {"gelu", "F.gelu", "*input approximate"},
    {"silu", "F.silu", "*input"},
    {"sigmoid", "F.sigmoid", "*input"},
    {"tanh", "F.tanh", "*input"},
    {"celu", "F.celu", "*input alpha"},
    {"selu", "F.selu", "*input"},
    {"leaky_relu", "F.leaky_relu", "*input negative_slope"},
    {"hardtanh", "F.hardtanh", "*input min_val max_val"},
    {"hardswish", "F.hardswish", "*input"},
    {"hardsigmoid", "F.hardsigmoid", "*input"},
    {"softplus", "F.softplus", "*input beta threshold"},
    {"softshrink", "F.softshrink", "*input lambd"},
    {"hardshrink", "F.hardshrink", "*input lambd"},
    {"threshold", "F.threshold", "*input threshold value"},
    {"mish", "F.mish", "*input"},
    {"log_sigmoid", "F.logsigmoid", "*input"},
    {"prelu", "F.prelu", "*input *weight"},
    {"glu", "F.glu", "*input dim"},
    {"rrelu", "F.rrelu", "*input lower upper !training -generator"},
    {"softmax", "F.softmax", "*input dim dtype"},
    {"log_softmax", "F.log_softmax", "*input dim dtype"},
    {"_softmax", "F.softmax", "*input dim -half_to_float"},
    {"_log_softmax", "F.log_softmax", "*input dim -half_to_float"},
    {"dropout", "F.dropout", "*input -p !train"},
    {"feature_dropout", "F.dropout", "*input -p !train"},
    {"alpha_dropout", "F.alpha_dropout", "*input -p !train"},
    {"feature_alpha_dropout", "F.feature_alpha_dropout", "*input -p !train"},
};

constexpr PlainForm kNetworks[] = {
    {"layer_norm", "F.layer_norm", "*input normalized_shape *weight *bias eps -cudnn_enable"},
    {"group_norm", "F.group_norm", "*input num_groups *weight *bias eps -cudnn_enabled"},
    {"batch_norm", "F.batch_norm",
     "*input *weight *bias *running_mean *running_var training -momentum eps -cudnn_enabled"},
    {"rms_norm", "F.rms_norm", "*input normalized_shape *weight eps"},
    {"embedding", "F.embedding", "*weight *input -padding_idx -scale_grad_by_freq -sparse"},
    {"linear", "F.linear", "*input *weight *bias"},
    {"matmul", "torch.matmul", "*input *other"},
    {"bmm", "torch.bmm", "*input *mat2"},
    {"mm", "torch.mm", "*input *mat2"},
    {"mv", "torch.mv", "*input *vec"},
    {"addmm", "torch.addmm", "*input *mat1 *mat2 beta alpha"},
    {"baddbmm", "torch.baddbmm", "*input *batch1 *batch2 beta alpha"},
    {"cross", "torch.cross", "*input *other dim"},
    {"pairwise_distance", "F.pairwise_distance", "*x1 *x2 p eps keepdim"},
    {"scaled_dot_product_attention", "F.scaled_dot_product_attention",
     "*query *key *value *attn_mask dropout_p is_causal scale enable_gqa"},
    {"im2col", "F.unfold", "*input kernel_size dilation padding stride"},
    {"col2im", "F.fold", "*input output_size kernel_size dilation padding stride"},
    {"pad", "F.pad", "*input pad mode value"},
    {"constant_pad_nd", "F.pad", "*input pad value mode=constant"},
    {"pixel_shuffle", "F.pixel_shuffle", "*input upscale_factor"},
    {"pixel_unshuffle", "F.pixel_unshuffle", "*input downscale_factor"},
    {"affine_grid_generator", "F.affine_grid", "*theta size align_corners"},
    {"type_as", "Tensor.type_as", "*input *other"},
    {"clone", "torch.clone", "*input -memory_format"},
    {"contiguous", "torch.clone", "*input -memory_format"},
    {"detach", "torch.clone", "*input"},
    {"alias", "torch.clone", "*input"},
    {"lift_fresh", "torch.clone", "*input"},
    {"fill", "Tensor.fill", "*input *value"},
    {"masked_fill", "Tensor.masked_fill", "*input *mask *value"},
    {"amax", "torch.amax", "*input dim keepdim"},
    {"amin", "torch.amin", "*input dim keepdim"},
    {"argmax", "torch.argmax", "*input dim keepdim"},
    {"argmin", "torch.argmin", "*input dim keepdim"},
    {"logsumexp", "torch.logsumexp", "*input dim keepdim"},
    {"cumsum", "torch.cumsum", "*input dim dtype"},
    {"cumprod", "torch.cumprod", "*input dim dtype"},
};

constexpr PlainForm kShapes[] = {
    {"expand", "Tensor.expand", "*input sizes -implicit"},
    {"expand_as", "Tensor.expand_as", "*input *other"},
    {"repeat", "Tensor.repeat", "*input sizes"},
    {"tile", "torch.tile", "*input dims"},
    {"reshape", "Tensor.reshape", "*input shape"},
    {"reshape_as", "Tensor.reshape_as", "*input *other"},
    {"squeeze", "torch.squeeze", "*input dim"},
    {"unsqueeze", "torch.unsqueeze", "*input dim"},
    {"flatten", "torch.flatten", "*input start_dim end_dim"},
    {"unflatten", "torch.unflatten", "*input dim sizes"},
    {"size", "Tensor.size", "*input dim"},
    {"diag", "torch.diag", "*input diagonal"},
    {"roll", "torch.roll", "*input shifts dims"},
    {"gather", "torch.gather", "*input dim *index -sparse_grad"},
    {"index_select", "torch.index_select", "*input dim *index"},
    {"scatter_add", "torch.scatter_add", "*input dim *index *src"},
    {"select", "Tensor.select", "*input dim index"},
    {"slice", "Tensor.slice", "*input dim start end step"},
    {"narrow", "torch.narrow", "*input dim start length"},
    {"slice_scatter", "torch.slice_scatter", "*input *src dim start end step"},
    {"select_scatter", "torch.select_scatter", "*input *src dim index"},
    {"masked_select", "torch.masked_select", "*input *mask"},
    {"cat", "torch.cat", "+tensors dim"},
    {"stack", "torch.stack", "+tensors dim"},
};

void AddPlain(LayerRegistry& registry, std::span<const PlainForm> forms) {
  for (const auto& [name, target, arguments] : forms) {
    AddAtenForm(registry, {std::string("aten::") + name}, {{target, arguments}});
  }
}

void AddReductions(LayerRegistry& registry) {
  for (const char* name : {"sum", "mean", "prod"}) {
    const std::string target = std::string("torch.") + name;
    AddAtenForm(registry, {std::string("aten::") + name},
                {{target, "*input dtype"}, {target, "*input dim keepdim dtype"}});
  }
  for (const char* name : {"max", "min"}) {
    const std::string target = std::string("torch.") + name;
    AddAtenForm(
        registry, {std::string("aten::") + name},
        {{target, "*input"}, {target + "imum", "*input *other"}, {target, "*input dim keepdim"}}, 1,
        2);
  }
  for (const char* name : {"var", "std"}) {
    // ATen's correction and its older flag stand at the same place.
    const std::string target = std::string("torch.") + name;
    AddAtenForm(registry, {std::string("aten::") + name},
                {{target, "*input unbiased"}, {target, "*input dim unbiased keepdim"}});
    AddAtenForm(
        registry, {std::string("aten::") + name + "_mean"},
        {{target + "_mean", "*input unbiased"}, {target + "_mean", "*input dim unbiased keepdim"}},
        2, 2);
  }
  AddAtenForm(registry, {"aten::norm"},
              {{"torch.norm", "*input p dtype"}, {"torch.norm", "*input p dim keepdim dtype"}});
  AddAtenForm(registry, {"aten::topk"}, {{"torch.topk", "*input k dim largest sorted"}}, 2, 2);
}

void AddSplits(LayerRegistry& registry) {
  AddAtenForm(registry, {"aten::split", "aten::split_with_sizes", "aten::unsafe_split"},
              {{"torch.split", "*tensor split_size_or_sections dim"}}, 1, -1);
  AddAtenForm(registry, {"aten::chunk"}, {{"torch.chunk", "*input chunks dim"}}, 1, -1);
  AddAtenForm(registry, {"aten::unbind"}, {{"torch.unbind", "*input dim"}}, 1, -1);
}

void AddWindows(LayerRegistry& registry) {
  for (const std::string rank : {"1d", "2d", "3d"}) {
    const auto add = [&](const std::string& name, const std::string& target,
                         const std::string& arguments, int outputs = 1) {
      AddAtenForm(registry, {"aten::" + name}, {{"F." + target, arguments}}, outputs, outputs);
    };
    const std::string window = "*input kernel_size stride padding ";
    add("adaptive_avg_pool" + rank, "adaptive_avg_pool" + rank, "*input output_size");
    add("adaptive_max_pool" + rank, "adaptive_max_pool" + rank,
        "*input output_size return_indices=True", 2);
    add("avg_pool" + rank, "avg_pool" + rank,
        window + "ceil_mode count_include_pad" + (rank == "1d" ? "" : " divisor_override"));
    add("max_pool" + rank, "max_pool" + rank, window + "dilation ceil_mode");
    add("max_pool" + rank + "_with_indices", "max_pool" + rank,
        window + "dilation ceil_mode return_indices=True", 2);
    const std::string weights = "*input *weight *bias stride padding ";
    add("conv" + rank, "conv" + rank, weights + "dilation groups");
    add("conv_transpose" + rank, "conv_transpose" + rank,
        weights + "output_padding groups dilation");
    for (const char* mode : {"reflect", "replicate"}) {
      const std::string name = std::string(mode) == "reflect" ? "reflection" : "replication";
      add(name + "_pad" + rank, "pad", std::string("*input pad mode=") + mode);
    }
  }
}

/// elu has two more factors in ATen's form.
void AddElu(LayerRegistry& registry) {
  registry.Add(
      OperatorSchema({"aten::elu"}, "scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))")
          .Tensor("input", kFloats)
          .Float("alpha", 1)
          .Dynamic()
          .Float("scale", 1)
          .Dynamic()
          .Float("input_scale", 1)
          .Dynamic(),
      expression::CreateFromText("mul(@2,where(gt(@0,0),@0,mul(@1,expm1(mul(@0,@3)))))"));
}

/// Overloads of aten::to have the dtype at different places, or take it from another tensor.
std::vector<Value> AtenTo(const Decomposer& call, const Args& args) {
  if (args[1].IsTensor()) {
    return {call("Tensor.type_as", {{"input", args[0]}, {"other", args[1]}})};
  }
  // A device comes before the dtype: as text, or as None where the overload has six inputs.
  const bool device_first = args[1].IsString() || (args[1].IsNone() && !args[2].IsBool());
  const Value& dtype = args[device_first || args.inputs().size() == 6 ? 2 : 1];
  return {call("Tensor.to", {{"input", args[0]}, {"dtype", dtype.IsBool() ? Value() : dtype}})};
}

void AddTo(LayerRegistry& registry) {
  OperatorSchema schema({"aten::to"}, "`Tensor.to` and `Tensor.type_as`, in ATen's order");
  schema.Tensor("input", kAllDTypes).Any("dtype").Nullable().Dynamic();
  schema.Any("dtype_behind_device").Nullable().Dynamic();
  for (int i = 3; i < 8; ++i) schema.Ignored("flag" + std::to_string(i)).Dynamic();
  AddDecomposition(registry, std::move(schema), AtenTo);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(aten_forms) {
  using namespace oort;
  AddPlain(registry, kActivations);
  AddPlain(registry, kNetworks);
  AddPlain(registry, kShapes);
  AddReductions(registry);
  AddSplits(registry);
  AddWindows(registry);
  AddElu(registry);
  AddTo(registry);
  AddAtenForm(registry, {"torch.broadcast_to", "aten::broadcast_to"},
              {{"Tensor.expand", "*input sizes"}});
  AddAtenForm(registry, {"torch.ravel", "aten::ravel"}, {{"torch.flatten", "*input"}});
  registry.Add(OperatorSchema({"aten::floordiv"}, "a / b of two numbers, rounded down")
                   .Any("a")
                   .Dynamic()
                   .Any("b")
                   .Dynamic(),
               expression::CreateFromText("floor_divide(@0,@1)"));
}
