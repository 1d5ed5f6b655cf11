// SPDX-License-Identifier: MIT
#include "serve/graph_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "openai/request_error.h"

namespace oort::serve {
namespace {

Shape WithRows(const Shape& shape, int64_t rows) {
  Shape other = shape;
  other[0] = rows;
  return other;
}

/// Values that hardly any model finds strange: fractions, or 0 and 1 where an index may be meant.
Tensor RandomRows(const Port& port, int64_t rows, std::mt19937& random) {
  Tensor f32(DType::kF32, WithRows(port.shape, rows));
  const bool fractions = IsFloat(port.dtype);
  for (float& value : std::span(f32.data<float>(), static_cast<size_t>(f32.elements()))) {
    value =
        fractions ? static_cast<float>(random() % 4096) / 4096 : static_cast<float>(random() % 2);
  }
  return f32.To(port.dtype);
}

/// The same rows of every tensor.
std::vector<Tensor> RowsOfAll(const std::vector<Tensor>& tensors, int64_t begin, int64_t end) {
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) rows.push_back(tensor.Rows(begin, end));
  return rows;
}

size_t BytesOf(const std::vector<Tensor>& tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

/// Kernels for more rows may sum in another order.
bool DiffersByRounding(const Tensor& a, const Tensor& b) {
  if (!IsFloat(a.dtype())) return false;
  const Tensor left = a.To(DType::kF32), right = b.To(DType::kF32);
  float largest = 0, most = 0;
  for (int64_t i = 0; i < left.elements(); ++i) {
    const float one = left.data<float>()[i], other = right.data<float>()[i];
    if (!std::isfinite(one) || !std::isfinite(other)) return false;
    largest = std::max(largest, std::abs(one));
    most = std::max(most, std::abs(one - other));
  }
  const bool narrow = a.dtype() == DType::kF16 || a.dtype() == DType::kBF16;
  return most <= largest * (narrow ? 1e-2f : 1e-5f);
}

/// Who cannot be told, since there is no memory for it, ends nothing but their own request.
void Tell(const GraphRunner::Job& job, std::vector<Tensor> outputs,
          const std::exception_ptr& failure) noexcept {
  try {
    job.done(std::move(outputs), failure);
  } catch (...) {
    try {
      job.done({}, std::current_exception());
    } catch (...) {
    }
  }
}

/// Without memory for the sentence, what says so.
std::exception_ptr NotFreeInTime() noexcept {
  try {
    throw openai::RequestError(
        {504, "the model was not free in time", "server_error", "", "deadline"});
  } catch (...) {
    return std::current_exception();
  }
}

bool SameRows(const std::vector<Tensor>& all, const std::vector<std::vector<Tensor>>& alone,
              int64_t rows, bool exact) {
  for (size_t output = 0; output < all.size(); ++output) {
    const Tensor& together = all[output];
    if (together.rank() == 0 || together.dim(0) != rows) return false;
    for (int64_t row = 0; row < rows; ++row) {
      const Tensor& one = alone[static_cast<size_t>(row)][output];
      const Tensor part = together.Rows(row, row + 1);
      if (one.dtype() != part.dtype() || !(one.shape() == part.shape())) return false;
      const bool same = part.bytes() == 0 || std::memcmp(one.raw(), part.raw(), part.bytes()) == 0;
      if (!same && (exact || !DiffersByRounding(one, part))) return false;
    }
  }
  return true;
}

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<const RuntimeGraph> graph, const GraphOptions& options,
                         size_t guessed_bytes)
    : graph_(std::move(graph)),
      options_(options),
      session_(graph_, {.threads = options.threads, .memory_limit = options.activations}),
      bytes_(guessed_bytes) {
  const bool traced = std::ranges::all_of(graph_->inputs(), [](const Port& port) {
    return port.has_shape && port.shape.IsKnown() && port.dtype != DType::kNull;
  });
  if (traced) {
    std::vector<Tensor> inputs;
    for (const Port& port : graph_->inputs())
      inputs.push_back(Tensor::Meta(port.dtype, port.shape));
    const MemoryReport memory = graph_->Plan(inputs, session_.threads()).memory;
    const bool on_host = graph_->device().type == DeviceType::kCpu;
    bytes_ = on_host ? memory.Held() : memory.device_weights + memory.device_arena;
    TryBatches(options.most_batch);
  }
  const auto most = static_cast<size_t>(MostRows());
  chosen_.reserve(most);
  batch_.reserve(most);
  thread_ = std::thread([this] { Run(); });
}

GraphRunner::~GraphRunner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

int64_t GraphRunner::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

void GraphRunner::TryBatches(int64_t most) {
  const std::vector<Port>& ports = graph_->inputs();
  if (most < 2 || ports.empty()) return;
  if (std::ranges::any_of(ports, [](const Port& port) { return port.shape.rank() == 0; })) return;
  int64_t largest = 2;
  while (2 * largest <= most) largest *= 2;
  try {
    std::mt19937 random(1);
    std::vector<Tensor> inputs;
    for (const Port& port : ports) inputs.push_back(RandomRows(port, largest, random));
    std::vector<std::vector<Tensor>> alone;
    for (int64_t row = 0; row < largest; ++row) {
      alone.push_back(session_.Forward(RowsOfAll(inputs, row, row + 1)));
    }
    for (int64_t rows = 2; rows <= largest; rows *= 2) {
      if (!SameRows(session_.Forward(RowsOfAll(inputs, 0, rows)), alone, rows, options_.exact))
        continue;
      sizes_.insert(rows);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    sizes_.clear();  // a trace that holds its own number of rows
  }
}

int64_t GraphRunner::RowsOf(const std::vector<Tensor>& inputs) const {
  if (sizes_.empty()) return 0;
  const int64_t rows = inputs[0].rank() > 0 ? inputs[0].dim(0) : 0;
  if (rows != 1 && !sizes_.contains(rows)) return 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = graph_->inputs()[i];
    if (inputs[i].dtype() != port.dtype) return 0;
    if (!(inputs[i].shape() == WithRows(port.shape, rows))) return 0;
  }
  return rows;
}

void GraphRunner::Submit(Job job) {
  Queued queued{.job = std::move(job)};
  queued.rows = RowsOf(queued.job.inputs);
  const size_t bytes = BytesOf(queued.job.inputs);
  {
    const std::lock_guard lock(mutex_);
    const bool large = !queue_.empty() && waiting_bytes_ + bytes > options_.waiting_inputs;
    if (queue_.size() >= options_.most_waiting || large) {
      throw Error(ErrorCode::kLimit, "too many requests wait for this model: try again later");
    }
    queue_.push_back(std::move(queued));
    waiting_bytes_ += bytes;
  }
  wake_.notify_all();
}

/// The first of the queue, and those that may run with it, which have a row each at least.
void GraphRunner::TakeBatch(std::unique_lock<std::mutex>& lock) {
  const int64_t most = MostRows();
  const auto rows_waiting = [&] {
    int64_t rows = 0;
    for (const Queued& queued : queue_) rows += queued.rows;
    return rows;
  };
  if (queue_.front().rows > 0 && rows_waiting() < most) {
    const Clock::time_point until = queue_.front().arrived + options_.batch_wait;
    wake_.wait_until(lock, until, [&] { return stop_ || rows_waiting() >= most; });
  }
  // As many as make a number of rows that was tried; others stay in their order.
  chosen_.assign(1, 0);
  int64_t rows = queue_.front().rows;
  size_t fits = 1;
  for (size_t i = 1; i < queue_.size() && rows > 0 && rows < most; ++i) {
    if (queue_[i].rows == 0 || rows + queue_[i].rows > most) continue;
    rows += queue_[i].rows;
    chosen_.push_back(i);
    if (sizes_.contains(rows)) fits = chosen_.size();
  }
  chosen_.resize(fits);
  for (const size_t i : chosen_) {
    waiting_bytes_ -= BytesOf(queue_[i].job.inputs);
    batch_.push_back(std::move(queue_[i]));
  }
  for (size_t i = chosen_.size(); i-- > 0;) {
    queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(chosen_[i]));
  }
}

void GraphRunner::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    TakeBatch(lock);
    lock.unlock();
    const Clock::time_point now = Clock::now();
    for (Queued& one : batch_) {
      if (one.job.deadline > now || !one.job.wanted()) continue;
      Tell(one.job, {}, NotFreeInTime());
      one.job.wanted = [] { return false; };
    }
    std::erase_if(batch_, [](const Queued& one) { return !one.job.wanted(); });
    int64_t rows = 0;
    for (const Queued& one : batch_) rows += one.rows;
    if (batch_.size() > 1 && sizes_.contains(rows)) {
      RunTogether(batch_);
    } else {
      for (Queued& one : batch_) RunAlone(one);
    }
    batch_.clear();  // what it holds may hold the model: not under the lock
    lock.lock();
  }
}

void GraphRunner::CheckResults(const std::vector<Tensor>& inputs) const {
  size_t bytes = 0;
  for (const Tensor& output : graph_->InferShapes(inputs)) {
    const size_t more = output.defined() ? output.bytes() : 0;
    if (more > options_.results || bytes + more > options_.results) {
      throw Error(ErrorCode::kLimit, "the results would have more than " +
                                         std::to_string(options_.results) + " bytes");
    }
    bytes += more;
  }
}

void GraphRunner::RunAlone(Queued& one) {
  std::vector<Tensor> outputs;
  std::exception_ptr failure;
  try {
    CheckResults(one.job.inputs);
    outputs = session_.Forward(one.job.inputs);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    ++runs_;
  }
  Tell(one.job, std::move(outputs), failure);
}

void GraphRunner::RunTogether(std::vector<Queued>& batch) {
  std::vector<Tensor> outputs;
  try {
    int64_t rows = 0;
    for (const Queued& one : batch) rows += one.rows;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < graph_->inputs().size(); ++i) {
      const Port& port = graph_->inputs()[i];
      Tensor joined(port.dtype, WithRows(port.shape, rows));
      std::byte* at = joined.raw();
      for (const Queued& one : batch) {
        const Tensor& part = one.job.inputs[i];
        if (part.bytes() > 0) std::memcpy(at, part.raw(), part.bytes());
        at += part.bytes();
      }
      inputs.push_back(std::move(joined));
    }
    outputs = session_.Forward(inputs);
  } catch (...) {
    // One of them is to blame, and only that one is to hear of it.
    for (Queued& one : batch) RunAlone(one);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++runs_;
  }
  int64_t begin = 0;
  for (Queued& one : batch) {
    std::vector<Tensor> own;
    std::exception_ptr failure;
    try {
      own = RowsOfAll(outputs, begin, begin + one.rows);
    } catch (...) {
      failure = std::current_exception();
    }
    Tell(one.job, std::move(own), failure);
    begin += one.rows;
  }
}

}  // namespace oort::serve
