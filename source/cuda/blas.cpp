// SPDX-License-Identifier: MIT
#include "cuda/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "cuda/error.h"

namespace oort::cuda {
namespace {

/// cublasGetStatusString is in libcublas, which is not loaded.
std::string_view StatusText(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE: return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "this GPU cannot do it";
    case CUBLAS_STATUS_MAPPING_ERROR: return "mapping error";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    default: return "unknown error";
  }
}

/// As Check.
void CheckBlas(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code, std::string(what) + ": cuBLAS: " + std::string(StatusText(status)));
}

std::string BlasFileName() { return "libcublasLt.so." + std::to_string(CUDART_VERSION / 1000); }

void* OpenBlas(std::string* tried) {
  const std::string file = BlasFileName();
  std::vector<std::string> places;
  if (const char* path = std::getenv("OORT_CUBLASLT")) places.emplace_back(path);
  places.push_back(file);
  if (const char* home = std::getenv("CUDA_HOME")) {
    places.push_back(std::string(home) + "/lib64/" + file);
  }
  places.push_back("/usr/local/cuda/lib64/" + file);
  for (const std::string& place : places) {
    if (void* library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    *tried += (tried->empty() ? "" : ", ") + place;
  }
  return nullptr;
}

struct LoadedBlas {
  BlasFunctions functions{};
  std::string problem;  // empty if all is there
};

template <typename Function>
void FindFunction(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && problem.empty()) {
    problem = BlasFileName() + " has no function '" + name + "'";
  }
}

LoadedBlas LoadBlas() {
  LoadedBlas loaded;
  std::string tried;
  void* const library = OpenBlas(&tried);  // stays open to the end of the process
  if (library == nullptr) {
    loaded.problem = "matrix products on the GPU need cuBLAS, but there is no " + tried +
                     "; OORT_CUBLASLT may name the file";
    return loaded;
  }
  BlasFunctions& f = loaded.functions;
  std::string& problem = loaded.problem;
  FindFunction(library, "cublasLtCreate", f.create, problem);
  FindFunction(library, "cublasLtGetVersion", f.version, problem);
  FindFunction(library, "cublasLtMatmul", f.matmul, problem);
  FindFunction(library, "cublasLtMatmulDescCreate", f.desc_create, problem);
  FindFunction(library, "cublasLtMatmulDescDestroy", f.desc_destroy, problem);
  FindFunction(library, "cublasLtMatmulDescSetAttribute", f.desc_set, problem);
  FindFunction(library, "cublasLtMatrixLayoutCreate", f.layout_create, problem);
  FindFunction(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy, problem);
  FindFunction(library, "cublasLtMatrixLayoutSetAttribute", f.layout_set, problem);
  FindFunction(library, "cublasLtMatmulPreferenceCreate", f.preference_create, problem);
  FindFunction(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy, problem);
  FindFunction(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set, problem);
  FindFunction(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic, problem);
  return loaded;
}

const LoadedBlas& TheBlas() {
  static const LoadedBlas* const loaded = new LoadedBlas(LoadBlas());
  return *loaded;
}

}  // namespace

bool HasBlas(std::string* reason) {
  *reason = TheBlas().problem;
  return reason->empty();
}

const BlasFunctions& Blas() {
  if (!TheBlas().problem.empty()) throw Error(ErrorCode::kUnsupported, TheBlas().problem);
  return TheBlas().functions;
}

cublasLtHandle_t BlasHandle(int device) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(*mutex);
  const auto found = handles->find(device);
  if (found != handles->end()) return found->second;
  const DeviceGuard guard(device);
  cublasLtHandle_t handle = nullptr;
  CheckBlas(Blas().create(&handle), "starting cuBLAS");
  return handles->emplace(device, handle).first->second;
}

namespace {

// Hopper's best kernels split their sums over this much.
constexpr size_t kMostBlasWorkspace = size_t{32} << 20;
constexpr size_t kWorkspaceUnit = 256;  // cuBLAS refuses one that begins elsewhere

cudaDataType BlasType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kF64: return CUDA_R_64F;
    case DType::kF16: return CUDA_R_16F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kI8: return CUDA_R_8I;
    case DType::kI32: return CUDA_R_32I;
    default:
      throw Error(ErrorCode::kUnsupported, "cuBLAS has no products of " + std::string(Name(dtype)));
  }
}

/// Whether sums are integers.
bool IsWhole(const Product& product) { return product.input == DType::kI8 && !product.fp8; }

cudaDataType InputType(const Product& product) {
  return product.fp8 ? CUDA_R_8F_E4M3 : BlasType(product.input);
}

cublasComputeType_t ComputeType(const Product& product) {
  if (product.input == DType::kF64) return CUBLAS_COMPUTE_64F;
  if (IsWhole(product)) return CUBLAS_COMPUTE_32I;
  return product.tf32 && product.input == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                      : CUBLAS_COMPUTE_32F;
}

cudaDataType ScaleType(const Product& product) {
  if (product.input == DType::kF64) return CUDA_R_64F;
  return IsWhole(product) ? CUDA_R_32I : CUDA_R_32F;
}

cublasLtEpilogue_t EpilogueOf(Product::Epilogue epilogue) {
  switch (epilogue) {
    case Product::kBias: return CUBLASLT_EPILOGUE_BIAS;
    case Product::kBiasRelu: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Product::kBiasGelu: return CUBLASLT_EPILOGUE_GELU_BIAS;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

/// cuBLAS counts columns first, so a row-major matrix of (rows, columns) is one of (columns, rows).
cublasLtMatrixLayout_t MakeLayout(cudaDataType type, int64_t rows, int64_t columns,
                                  int64_t row_stride, int64_t batch, int64_t batch_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckBlas(
      Blas().layout_create(&layout, type, static_cast<uint64_t>(columns),
                           static_cast<uint64_t>(rows), row_stride > 0 ? row_stride : columns),
      "describing a matrix");
  if (batch > 1) {
    const int32_t count = static_cast<int32_t>(batch);
    CheckBlas(Blas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
              "describing a matrix");
    CheckBlas(Blas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                                sizeof(batch_stride)),
              "describing a matrix");
  }
  return layout;
}

/// OORT_CUBLAS_ALIGNMENT limits the alignment that cuBLAS is told for products of 16-bit numbers.
/// With 4, cuBLAS picks kernels whose results compute-sanitizer's initcheck sees. It takes the
/// results of other kernels for unwritten, probably because these store with the copy engine.
int MostAlignment() {
  static const int most = [] {
    const char* const value = std::getenv("OORT_CUBLAS_ALIGNMENT");
    const int number = value != nullptr ? std::atoi(value) : 0;
    return number > 0 ? number : 64;
  }();
  return most;
}

/// The alignment in bytes that all rows of a matrix have.
uint32_t RowAlignment(int64_t row_stride, int64_t columns, DType dtype, int alignment) {
  const auto bytes = static_cast<uint64_t>(row_stride > 0 ? row_stride : columns) * ItemSize(dtype);
  const uint64_t both = bytes | static_cast<uint64_t>(alignment);
  return static_cast<uint32_t>(both & (~both + 1));  // the largest power of two in both
}

}  // namespace

Matmul::Matmul(const Product& product, int device) : product_(product), device_(device) {}

Matmul::~Matmul() {
  const BlasFunctions& blas = TheBlas().functions;
  if (desc_ != nullptr) blas.desc_destroy(desc_);
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) blas.layout_destroy(layout);
  }
}

/// The product of the transposes, in the other order, is what cuBLAS sees.
void Matmul::Describe() {
  const BlasFunctions& blas = Blas();
  const Product& p = product_;
  CheckBlas(blas.desc_create(&desc_, ComputeType(p), ScaleType(p)), "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    CheckBlas(blas.desc_set(desc_, attribute, &value, sizeof(value)), "describing a product");
  };
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p.epilogue));
  const cudaDataType input = InputType(p);
  a_ = p.transpose_a ? MakeLayout(input, p.k, p.m, p.row_a, p.batch, p.stride_a)
                     : MakeLayout(input, p.m, p.k, p.row_a, p.batch, p.stride_a);
  b_ = p.transpose_b ? MakeLayout(input, p.n, p.k, p.row_b, p.batch, p.stride_b)
                     : MakeLayout(input, p.k, p.n, p.row_b, p.batch, p.stride_b);
  c_ = MakeLayout(BlasType(p.output), p.m, p.n, p.row_c, p.batch, p.stride_c);
}

void Matmul::Choose() {
  const BlasFunctions& blas = Blas();
  cublasLtMatmulPreference_t preference = nullptr;
  CheckBlas(blas.preference_create(&preference), "choosing a product");
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasStatus_t status = blas.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &kMostBlasWorkspace, sizeof(kMostBlasWorkspace));
  const Product& p = product_;
  // The first matrix of cuBLAS is our B. All rows are aligned like the first one only if the row
  // length is a multiple of that alignment.
  const int told = ItemSize(p.input) == 2 ? std::min(p.alignment, MostAlignment()) : p.alignment;
  const uint32_t a = RowAlignment(p.row_a, p.transpose_a ? p.m : p.k, p.input, told);
  const uint32_t b = RowAlignment(p.row_b, p.transpose_b ? p.k : p.n, p.input, told);
  const uint32_t c = RowAlignment(p.row_c, p.n, p.output, told);
  const std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c}};
  for (const auto& [attribute, alignment] : alignments) {
    if (status != CUBLAS_STATUS_SUCCESS) break;
    status = blas.preference_set(preference, attribute, &alignment, sizeof(alignment));
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        blas.heuristic(BlasHandle(device_), desc_, b_, a_, c_, c_, preference, 1, &result, &found);
  }
  blas.preference_destroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    throw Error(ErrorCode::kUnsupported, "cuBLAS has no algorithm for this product");
  }
  CheckBlas(status, "choosing a product");
  algorithm_ = result.algo;
  workspace_ = result.workspaceSize;
}

std::shared_ptr<const Matmul> Matmul::For(const Product& product, int device) {
  using Key = std::pair<Product, int>;
  constexpr size_t kMostKept = 4096;
  static std::mutex* const mutex = new std::mutex;
  static auto* const kept = new std::map<Key, std::shared_ptr<const Matmul>>;
  const Key key(product, device);
  {
    const std::lock_guard lock(*mutex);
    if (const auto found = kept->find(key); found != kept->end()) return found->second;
  }
  const DeviceGuard guard(device);
  std::shared_ptr<Matmul> made(new Matmul(product, device));
  made->Describe();
  made->Choose();
  const std::lock_guard lock(*mutex);
  if (kept->size() >= kMostKept) kept->clear();
  return kept->emplace(key, std::move(made)).first->second;
}

size_t Matmul::workspace() const { return workspace_ > 0 ? workspace_ + kWorkspaceUnit - 1 : 0; }

void Matmul::Run(const Stream& stream, const void* a, const void* b, void* c, const void* bias,
                 void* workspace, const void* addend) const {
  const BlasFunctions& blas = Blas();
  cublasLtMatmulDesc_t desc = desc_;
  // Threads share a description. The bias is part of it, so products with a bias use a copy.
  cublasLtMatmulDescOpaque_t copy;
  if (product_.epilogue != Product::kNone) {
    copy = *reinterpret_cast<const cublasLtMatmulDescOpaque_t*>(desc_);
    desc = reinterpret_cast<cublasLtMatmulDesc_t>(&copy);
    CheckBlas(blas.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
              "giving a product its bias");
  }
  const double alpha64 = product_.alpha, beta64 = product_.beta;
  const int32_t alpha32 = static_cast<int32_t>(product_.alpha);
  const int32_t beta32 = static_cast<int32_t>(product_.beta);
  const void *alpha = &product_.alpha, *beta = &product_.beta;
  if (product_.input == DType::kF64) {
    alpha = &alpha64;
    beta = &beta64;
  } else if (IsWhole(product_)) {
    alpha = &alpha32;
    beta = &beta32;
  }
  const uintptr_t end = reinterpret_cast<uintptr_t>(workspace) + kWorkspaceUnit - 1;
  void* aligned =
      workspace_ > 0 ? reinterpret_cast<void*>(end / kWorkspaceUnit * kWorkspaceUnit) : nullptr;
  CheckBlas(blas.matmul(BlasHandle(device_), desc, alpha, b, b_, a, a_, beta,
                        addend != nullptr ? addend : c, c_, c, c_, &algorithm_, aligned, workspace_,
                        stream.get()),
            "a matrix product");
}

}  // namespace oort::cuda
