// SPDX-License-Identifier: MIT
// What the converter damaged is made good, and the log says so.
#include <gtest/gtest.h>

#include "oort/log.h"
#include "oort/pnnx.h"
#include "oort/runtime_graph.h"

namespace oort {
namespace {

/// What is logged while a model of these operators is built.
std::string LogOf(const std::string& operators, const std::string& counts) {
  static std::string messages;
  messages.clear();
  log::SetSink([](log::Level, std::string_view message) { messages += message; },
               log::Level::kWarning);
  const std::string text = "7767517\n" + counts + "\n" + operators;
  RuntimeGraph::Build(ReadPnnx(*ByteSource::Owned(text), nullptr));
  log::SetSink(nullptr);
  return messages;
}

bool Says(const std::string& messages, const char* words) {
  return messages.find(words) != std::string::npos;
}

TEST(RepairLog, EinsumThatLostItsEllipsis) {
  const std::string ports =
      "pnnx.Input pnnx_input_0 0 1 a\n"
      "pnnx.Input pnnx_input_1 0 1 b\n"
      "pnnx.Output pnnx_output_0 1 0 c\n";
  const std::string lost = LogOf(ports +
                                     "torch.einsum e 2 1 a b c equation=ik,kj->ij "
                                     "#a=(2,3,4)f32 #b=(2,4,5)f32 #c=(2,3,5)f32\n",
                                 "4 3");
  EXPECT_TRUE(Says(lost, "'...'")) << lost;
  EXPECT_TRUE(Says(lost, "'e'")) << lost;
  const std::string whole = LogOf(ports +
                                      "torch.einsum e 2 1 a b c equation=ik,kj->ij "
                                      "#a=(3,4)f32 #b=(4,5)f32 #c=(3,5)f32\n",
                                  "4 3");
  EXPECT_EQ(whole, "");
}

TEST(RepairLog, SelectsAlongNegativeAxes) {
  const std::string log = LogOf(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "Tensor.slice s 1 1 x y dims=(-2,0) starts=(0,0) ends=(0,0) steps=(0,0) selects=(0,1) "
      "#x=(4,3,5)f32 #y=(4)f32\n"
      "pnnx.Output pnnx_output_0 1 0 y\n",
      "3 2");
  EXPECT_TRUE(Says(log, "dims=(-2,0)")) << log;
}

TEST(RepairLog, ShapesWithExtentsTooMany) {
  const std::string log = LogOf(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "Tensor.reshape r 1 1 x y shape=(2,6,1) #x=(3,4)f32 #y=(2,6)f32\n"
      "pnnx.Output pnnx_output_0 1 0 y\n",
      "3 2");
  EXPECT_TRUE(Says(log, "took shape=")) << log;
}

TEST(RepairLog, DTypesThatAreNotWritten) {
  const auto log_of = [](const char* type, const char* from, const char* to) {
    return LogOf(std::string("pnnx.Input pnnx_input_0 0 1 x\n") + type +
                     " s 1 1 x y dim=(1) keepdim=False #x=(3,4)" + from + " #y=(3)" + to +
                     "\npnnx.Output pnnx_output_0 1 0 y\n",
                 "3 2");
  };
  EXPECT_TRUE(Says(log_of("torch.sum", "f32", "f64"), "took dtype=f64 from the trace"));
  EXPECT_TRUE(Says(log_of("torch.mean", "i64", "f32"), "took dtype=f32 from the trace"));
  // Nothing is missing where the dtype follows from the input.
  EXPECT_EQ(log_of("torch.sum", "f32", "f32"), "");
  EXPECT_EQ(log_of("torch.sum", "i32", "i64"), "");
  EXPECT_EQ(log_of("torch.norm", "c64", "f32"), "");
}

TEST(RepairLog, WeightsThatModulesShare) {
  const std::string log = LogOf(
      "pnnx.Input pnnx_input_0 0 1 w\n"
      "pnnx.Input pnnx_input_1 0 1 x\n"
      "nn.Linear l 2 1 w x y bias=False in_features=4 out_features=3 "
      "#w=(3,4)f32 #x=(2,4)f32 #y=(2,3)f32\n"
      "pnnx.Output pnnx_output_0 1 0 y\n",
      "4 3");
  EXPECT_TRUE(Says(log, "took input 0 for its '@weight'")) << log;
}

}  // namespace
}  // namespace oort
