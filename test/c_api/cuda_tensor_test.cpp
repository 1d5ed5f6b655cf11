// SPDX-License-Identifier: MIT
// Tensors in the memory of a GPU, from C: on a pretended one, and on a real one where there is one.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "c_api/failure.h"
#include "oort/c.h"
#include "runtime/device_backend.h"
#include "runtime/fake_device.h"

namespace {

using oort::testing::Failure;

constexpr char kReluOfRows[] =
    "7767517\n3 2\n"
    "pnnx.Input pnnx_input_0 0 1 a #a=(2,4)f32\n"
    "F.relu relu 1 1 a b $input=a #a=(2,4)f32 #b=(2,4)f32\n"
    "pnnx.Output pnnx_output_0 1 0 b #b=(2,4)f32\n";
/// The shape is that of the numbers that occur, which no plan knows.
constexpr char kReluOfDistinct[] =
    "7767517\n5 4\n"
    "pnnx.Input pnnx_input_0 0 1 a #a=(2,4)f32\n"
    "aten::_unique2 unique 1 1 a b\n"
    "Tensor.reshape reshape 1 1 b c shape=(2,-1)\n"
    "F.relu relu 1 1 c d $input=c\n"
    "pnnx.Output pnnx_output_0 1 0 d\n";
constexpr char kReluTwice[] =
    "7767517\n3 2\n"
    "pnnx.Input pnnx_input_0 0 1 a #a=(2,4)f32\n"
    "F.relu relu 1 1 a b $input=a #a=(2,4)f32 #b=(2,4)f32\n"
    "pnnx.Output pnnx_output_0 2 0 b b #b=(2,4)f32\n";
constexpr int64_t kRows[] = {2, 4};
const std::vector<float> kNumbers = {-1, 2, -3, 4, 5, -6, 7, -8};
const std::vector<float> kPositive = {0, 2, 0, 4, 5, 0, 7, 0};

/// Frees tensors, and fails where one cannot be made.
class TensorsOfC {
 public:
  ~TensorsOfC() {
    for (oort_tensor* tensor : all_) oort_tensor_free(tensor);
  }
  TensorsOfC() = default;
  TensorsOfC(const TensorsOfC&) = delete;
  TensorsOfC& operator=(const TensorsOfC&) = delete;

  oort_tensor* OnHost(const std::vector<float>& numbers) {
    oort_tensor* tensor = nullptr;
    Keep(oort_tensor_new(OORT_F32, 2, kRows, &tensor, failure_.slot()), tensor);
    if (tensor != nullptr) {
      std::memcpy(oort_tensor_data(tensor), numbers.data(), numbers.size() * sizeof(float));
    }
    return tensor;
  }
  oort_tensor* OnGpu() {
    oort_tensor* tensor = nullptr;
    Keep(oort_tensor_new_cuda(0, OORT_F32, 2, kRows, &tensor, failure_.slot()), tensor);
    return tensor;
  }
  oort_tensor* OnGpu(const std::vector<float>& numbers) {
    oort_tensor* const tensor = OnGpu();
    Copy(OnHost(numbers), tensor);
    return tensor;
  }
  /// Over memory of another tensor, or of the caller's own.
  oort_tensor* Borrowed(void* data, oort_release release = nullptr, void* user = nullptr) {
    oort_tensor* tensor = nullptr;
    Keep(oort_tensor_borrow_cuda(0, OORT_F32, 2, kRows, data, 32, release, user, &tensor,
                                 failure_.slot()),
         tensor);
    return tensor;
  }
  void Copy(const oort_tensor* from, oort_tensor* to) {
    EXPECT_EQ(oort_tensor_copy(from, to, failure_.slot()), OORT_OK) << failure_.message();
  }
  std::vector<float> NumbersOf(const oort_tensor* tensor) {
    oort_tensor* const copy = OnHost(std::vector<float>(8, -99));
    Copy(tensor, copy);
    const auto* const data = static_cast<const float*>(oort_tensor_data(copy));
    return {data, data + 8};
  }

 private:
  /// The tensor comes by reference: as a value it might be read before the call that makes it.
  void Keep(oort_code code, oort_tensor*& tensor) {
    EXPECT_EQ(code, OORT_OK) << failure_.message();
    all_.push_back(tensor);
  }
  std::vector<oort_tensor*> all_;
  Failure failure_;
};

/// One of the networks above, with a session.
class ReluInC {
 public:
  explicit ReluInC(const char* device, const char* text = kReluOfRows) {
    oort_options* options = oort_options_new();
    EXPECT_EQ(oort_options_set(options, "device", device, failure_.slot()), OORT_OK);
    EXPECT_EQ(oort_network_load_memory(text, std::strlen(text), nullptr, 0, options, &network_,
                                       failure_.slot()),
              OORT_OK)
        << failure_.message();
    EXPECT_EQ(oort_session_new(network_, options, &session_, failure_.slot()), OORT_OK);
    oort_options_free(options);
  }
  ~ReluInC() {
    oort_session_free(session_);
    oort_network_free(network_);
  }
  ReluInC(const ReluInC&) = delete;
  ReluInC& operator=(const ReluInC&) = delete;

  oort_code Run(const oort_tensor* input, oort_tensor*& output) {
    return Run(input, std::span(&output, 1));
  }
  oort_code Run(const oort_tensor* input, std::span<oort_tensor*> outputs) {
    return oort_session_run(session_, &input, 1, outputs.data(), outputs.size(), failure_.slot());
  }
  std::string message() const { return failure_.message(); }

 private:
  Failure failure_;
  oort_network* network_ = nullptr;
  oort_session* session_ = nullptr;
};

void ExpectMovesOfElements() {
  TensorsOfC tensors;
  oort_tensor* const on_gpu = tensors.OnGpu();
  EXPECT_EQ(oort_tensor_cuda_device(on_gpu), 0);
  EXPECT_EQ(oort_tensor_cuda_device(tensors.OnHost(kNumbers)), -1);
  EXPECT_EQ(tensors.NumbersOf(on_gpu), std::vector<float>(8, 0));
  tensors.Copy(tensors.OnHost(kNumbers), on_gpu);
  oort_tensor* const another = tensors.OnGpu();
  tensors.Copy(on_gpu, another);
  EXPECT_EQ(tensors.NumbersOf(another), kNumbers);
  EXPECT_EQ(oort_tensor_bytes(another), 32u);

  // Another shape of as many elements, and what is borrowed.
  Failure failure;
  const int64_t flat = 8;
  oort_tensor* line = nullptr;
  ASSERT_EQ(oort_tensor_new(OORT_F32, 1, &flat, &line, nullptr), OORT_OK);
  EXPECT_EQ(oort_tensor_copy(on_gpu, line, failure.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "cannot copy (2,4)f32 to (8)f32");
  EXPECT_EQ(oort_tensor_copy(nullptr, line, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_tensor_copy(line, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  oort_tensor_free(line);
  int released = 0;
  {
    TensorsOfC borrowed;
    const auto count = [](void* user) { ++*static_cast<int*>(user); };
    oort_tensor* const view = borrowed.Borrowed(oort_tensor_data(on_gpu), count, &released);
    EXPECT_EQ(oort_tensor_data(view), oort_tensor_data(on_gpu));
    EXPECT_EQ(borrowed.NumbersOf(view), kNumbers);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(CApiCudaTensor, ElementsMoveToADeviceAndBack) {
  oort::DeviceLog log;
  const oort::BackendOverride pretended(
      [&](oort::Device) { return std::make_unique<oort::FakeBackend>(log); });
  ExpectMovesOfElements();
  EXPECT_GT(log.waits, 0);
}

TEST(CApiCudaTensor, ANetworkOfTheHostRefusesThem) {
  oort::DeviceLog log;
  const oort::BackendOverride pretended(
      [&](oort::Device) { return std::make_unique<oort::FakeBackend>(log); });
  TensorsOfC tensors;
  ReluInC network("cpu");
  oort_tensor* made = nullptr;
  EXPECT_EQ(network.Run(tensors.OnGpu(kNumbers), made), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(network.message(),
            "input 'pnnx_input_0' is on cuda:0, but the network reads it in host memory");
  EXPECT_EQ(made, nullptr);
  oort_tensor* there = tensors.OnGpu();
  EXPECT_EQ(network.Run(tensors.OnHost(kNumbers), there), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(network.message(),
            "the buffer for output 'pnnx_output_0' is on cuda:0, but the output is made on cpu");
  oort_tensor* here = tensors.OnHost(kNumbers);
  EXPECT_EQ(network.Run(tensors.OnHost(kNumbers), here), OORT_OK) << network.message();
  EXPECT_EQ(tensors.NumbersOf(here), kPositive);
}

TEST(CApiCudaTensor, WithoutThatGpuItIsRefused) {
  Failure failure;
  oort_tensor* tensor = nullptr;
  float data[8] = {};
  for (const int32_t device : {-1, 1000}) {
    const oort_code made =
        oort_tensor_new_cuda(device, OORT_F32, 2, kRows, &tensor, failure.slot());
    EXPECT_TRUE(made == OORT_UNSUPPORTED || made == OORT_DEVICE) << failure.message();
    EXPECT_EQ(tensor, nullptr);
    int released = 0;
    const auto count = [](void* user) { ++*static_cast<int*>(user); };
    EXPECT_EQ(oort_tensor_borrow_cuda(device, OORT_F32, 2, kRows, data, sizeof data, count,
                                      &released, &tensor, failure.slot()),
              made);
    EXPECT_EQ(tensor, nullptr);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(oort_tensor_new_cuda(0, 14, 2, kRows, &tensor, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_tensor_new_cuda(0, OORT_F32, 2, kRows, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_tensor_cuda_device(nullptr), -1);
}

class CApiCudaGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (oort_cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CApiCudaGpu, ElementsMoveToItAndBack) { ExpectMovesOfElements(); }

TEST_F(CApiCudaGpu, NetworksReadAndWriteThere) {
  TensorsOfC tensors;
  ReluInC network("cuda:0");
  // From the second run on what it does is replayed: addresses may change all the same.
  for (int run = 0; run < 5; ++run) {
    oort_tensor* output = tensors.OnGpu(std::vector<float>(8, -99));
    void* const place = oort_tensor_data(output);
    ASSERT_EQ(network.Run(tensors.OnGpu(kNumbers), output), OORT_OK) << network.message();
    EXPECT_EQ(oort_tensor_data(output), place);
    EXPECT_EQ(oort_tensor_cuda_device(output), 0);
    EXPECT_EQ(tensors.NumbersOf(output), kPositive);
  }
  // Memory of the caller's that begins at a multiple of 4 bytes and no more.
  oort_tensor* wide = nullptr;
  const int64_t many = 64;
  ASSERT_EQ(oort_tensor_new_cuda(0, OORT_F32, 1, &many, &wide, nullptr), OORT_OK);
  auto* const floats = static_cast<float*>(oort_tensor_data(wide));
  oort_tensor* const input = tensors.Borrowed(floats + 1);
  oort_tensor* output = tensors.Borrowed(floats + 33);
  tensors.Copy(tensors.OnHost(kNumbers), input);
  ASSERT_EQ(network.Run(input, output), OORT_OK) << network.message();
  EXPECT_EQ(tensors.NumbersOf(output), kPositive);
  oort_tensor_free(wide);  // nobody reads the borrowed ones behind this
  // One may be on the host, and what is made is.
  oort_tensor* made = nullptr;
  ASSERT_EQ(network.Run(tensors.OnGpu(kNumbers), made), OORT_OK) << network.message();
  EXPECT_EQ(oort_tensor_cuda_device(made), -1);
  EXPECT_EQ(tensors.NumbersOf(made), kPositive);
  oort_tensor_free(made);
}

TEST_F(CApiCudaGpu, AResultOfUnknownShapeGoesThere) {
  TensorsOfC tensors;
  ReluInC network("cuda:0", kReluOfDistinct);
  for (int run = 0; run < 3; ++run) {
    oort_tensor* output = tensors.OnGpu(std::vector<float>(8, -99));
    ASSERT_EQ(network.Run(tensors.OnHost(kNumbers), output), OORT_OK) << network.message();
    EXPECT_EQ(oort_tensor_cuda_device(output), 0);
    EXPECT_EQ(tensors.NumbersOf(output), (std::vector<float>{0, 0, 0, 0, 2, 4, 5, 7}));
  }
  // Of another shape than the buffer's, it is told and nothing is written.
  oort_tensor* output = tensors.OnGpu(kNumbers);
  EXPECT_EQ(network.Run(tensors.OnHost({1, 1, 1, 1, 2, 2, 2, 2}), output), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(network.message(),
            "the buffer for output 'pnnx_output_0' is (2,4)f32, but the output is (2,1)f32");
  EXPECT_EQ(tensors.NumbersOf(output), kNumbers);
}

TEST_F(CApiCudaGpu, ResultsThatShareMemoryGoThere) {
  TensorsOfC tensors;
  ReluInC network("cuda:0", kReluTwice);
  for (int places = 0; places < 4; ++places) {
    const auto place = [&](int bit) {
      return (places & bit) != 0 ? tensors.OnGpu() : tensors.OnHost(std::vector<float>(8, -99));
    };
    std::vector<oort_tensor*> outputs = {place(1), place(2)};
    ASSERT_EQ(network.Run(tensors.OnGpu(kNumbers), outputs), OORT_OK) << network.message();
    for (const oort_tensor* output : outputs) EXPECT_EQ(tensors.NumbersOf(output), kPositive);
  }
  // Where no memory is given for the second, it is on the host.
  std::vector<oort_tensor*> outputs = {tensors.OnGpu(), nullptr};
  ASSERT_EQ(network.Run(tensors.OnGpu(kNumbers), outputs), OORT_OK) << network.message();
  EXPECT_EQ(oort_tensor_cuda_device(outputs[1]), -1);
  for (const oort_tensor* output : outputs) EXPECT_EQ(tensors.NumbersOf(output), kPositive);
  oort_tensor_free(outputs[1]);
}

TEST_F(CApiCudaGpu, MemoryOfTheHostIsRefused) {
  Failure failure;
  std::vector<float> here(8);
  oort_tensor* tensor = nullptr;
  EXPECT_EQ(oort_tensor_borrow_cuda(0, OORT_F32, 2, kRows, here.data(), 32, nullptr, nullptr,
                                    &tensor, failure.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "the address is in memory of the host, not of cuda:0");
}

}  // namespace
