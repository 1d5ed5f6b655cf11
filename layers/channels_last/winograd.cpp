// SPDX-License-Identifier: MIT
#include "layers/channels_last/winograd.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"

namespace oort {
namespace {

constexpr int64_t kLine = 16;           // floats of a cache line; kernels read less behind an end
constexpr int64_t kPatchChannels = 64;  // of an edge tile that are copied at once
constexpr double kThreadWork = 64 * 1024;  // products that pay for one more thread

int64_t WinogradAlign(int64_t floats) { return CeilDivide(floats, kLine) * kLine; }

/// G of U = G g G^T: row i is (1, p, p^2) over the factors that winograd_transform.h leaves out,
/// which are the product of the differences to all other points and the scale of its own forms.
struct WeightTransform {
  struct Point {
    double at, factor;
  };
  std::vector<Point> points;  // the finite ones; infinity takes g[2]
};

const WeightTransform& TransformOf(WinogradVariant variant) {
  constexpr double kRoot = 1.41421356237309504880, kHalf = 0.5 * kRoot;
  // Factors of F(4,3): -3/2 and 6 from the points, sqrt(1/2) from the forms of the second pair
  // (negated in the fourth coefficient), and 1/p since the output's forms leave out a factor p.
  static const WeightTransform kTransforms[] = {
      {{{0, -1}, {1, 2}, {-1, 2}}},
      {{{0, 1},
        {kHalf, -1.5 * kRoot},
        {-kHalf, -1.5 * kRoot},
        {kRoot, 6 * kHalf * kHalf},
        {-kRoot, -6 * kHalf * kHalf}}},
      {{{0, -1}, {1, -4.5}, {-1, -4.5}, {2, 90}, {-2, 90}, {0.5, 1.40625}, {-0.5, 1.40625}}},
  };
  return kTransforms[static_cast<size_t>(variant)];
}

}  // namespace

/// How a call is cut. Either each thread takes tiles of its own through all three steps, or, where
/// there are few tiles for much weight, all share V and each takes its own output channels.
struct WinogradConv::Plan {
  int64_t tiles_y = 0, tiles_x = 0, tiles = 0;
  int threads = 1;
  bool shared = false;
  int64_t group = 0;   // tiles of V at once
  int64_t part = 0;    // tiles of M at once
  int64_t panels = 1;  // of M at once
  int64_t v_stride = 0, v_floats = 0, m_stride = 0, m_floats = 0, patch_floats = 0;
  int64_t thread_floats = 0, floats = 0;
};

WinogradConv::WinogradConv(Isa isa, const Tensor& weight, const Tensor& bias,
                           WinogradVariant variant)
    : kernels_(WinogradKernelsFor(isa)),
      variant_(variant),
      channels_(weight.dim(1)),
      out_channels_(weight.dim(0)),
      k_(CeilDivide(channels_, kernels_.width) * kernels_.width),
      panels_(CeilDivide(out_channels_, kernels_.columns)) {
  const int64_t size = WinogradTile(variant) + 2;
  const int64_t padded = CheckedMultiply<int64_t>(panels_, kernels_.columns);
  const int64_t floats = CheckedMultiply(CheckedMultiply(padded, k_), size * size);
  weights_ = AllocateHost(
      CheckedMultiply<size_t>(static_cast<size_t>(CheckedAdd(floats, kLine)), sizeof(float)));
  bias_ = AllocateHost(CheckedMultiply<size_t>(static_cast<size_t>(padded), sizeof(float)));
  float* to = reinterpret_cast<float*>(bias_->data());
  std::fill(to, to + padded, 0.0f);
  if (bias.defined()) std::copy_n(bias.data<float>(), out_channels_, to);
  PackWeights(weight);
}

namespace {

/// Transforms the filters of one input channel for all columns of a panel: `filters` holds
/// [9][columns], `u` gets [size^2] rows of `columns`, `stride` floats apart.
template <int size>
void TransformFilters(const double* g, const double* filters, int columns, double* rows, float* u,
                      int64_t stride) {
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < 3; ++j) {
      double* row = rows + (i * 3 + j) * columns;
      const double* f = filters + j * columns;
      for (int c = 0; c < columns; ++c) {
        row[c] =
            g[3 * i] * f[c] + g[3 * i + 1] * f[3 * columns + c] + g[3 * i + 2] * f[6 * columns + c];
      }
    }
  }
  for (int i = 0; i < size; ++i) {
    const double* row = rows + i * 3 * columns;
    for (int j = 0; j < size; ++j, u += stride) {
      for (int c = 0; c < columns; ++c) {
        u[c] = static_cast<float>(g[3 * j] * row[c] + g[3 * j + 1] * row[columns + c] +
                                  g[3 * j + 2] * row[2 * columns + c]);
      }
    }
  }
}

}  // namespace

void WinogradConv::PackWeights(const Tensor& weight) {
  const int size = WinogradTile(variant_) + 2, columns = kernels_.columns;
  std::vector<double> g;
  for (const auto& point : TransformOf(variant_).points) {
    for (const double power : {1.0, point.at, point.at * point.at}) {
      g.push_back(power / point.factor);
    }
  }
  g.insert(g.end(), {0, 0, 1});
  const auto transform = size == 4   ? TransformFilters<4>
                         : size == 6 ? TransformFilters<6>
                                     : TransformFilters<8>;
  const float* from = weight.data<float>();
  float* to = reinterpret_cast<float*>(weights_->data());
  const int64_t panel_floats = size * size * k_ * columns;
  ParallelFor(AvailableThreads(), panels_, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> filters(static_cast<size_t>(9 * columns));
    std::vector<double> rows(static_cast<size_t>(3 * size * columns));
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t k = 0; k < k_; ++k) {
        for (int c = 0; c < columns; ++c) {
          const int64_t o = p * columns + c;
          const bool real = o < out_channels_ && k < channels_;
          const float* f = from + (real ? (o * channels_ + k) * 9 : 0);
          for (int i = 0; i < 9; ++i) {
            filters[static_cast<size_t>(i * columns + c)] = real ? static_cast<double>(f[i]) : 0;
          }
        }
        transform(g.data(), filters.data(), columns, rows.data(),
                  to + p * panel_floats + k * columns, k_ * columns);
      }
    }
  });
}

WinogradConv::Plan WinogradConv::MakePlan(const WinogradSize& size, int threads) const {
  constexpr int64_t kGroup = 25;
  const int64_t tile = WinogradTile(variant_), coefficients = (tile + 2) * (tile + 2);
  Plan plan;
  plan.tiles_y = CeilDivide(size.out_height, tile);
  plan.tiles_x = CeilDivide(size.out_width, tile);
  plan.tiles = CheckedMultiply(CheckedMultiply(plan.tiles_y, plan.tiles_x), size.batch);
  const int64_t weights = coefficients * k_ * panels_ * kernels_.columns;
  const double products = static_cast<double>(plan.tiles) * static_cast<double>(weights);
  plan.threads = static_cast<int>(
      std::clamp(products / kThreadWork, 1.0, std::max(1.0, static_cast<double>(threads))));
  plan.shared = plan.threads > 1 && plan.tiles < plan.threads * (weights < (1 << 20) ? 12 : 48);
  const int64_t mine = plan.shared ? plan.tiles : CeilDivide(plan.tiles, plan.threads);
  const int64_t most = weights < (1 << 18) ? kGroup : 2 * kGroup;
  const int64_t groups = std::max<int64_t>(1, CeilDivide(mine, most));
  // Whole turns of the product's kernel, except where everything is one group.
  plan.group = CeilDivide(mine, groups);
  if (groups > 1) plan.group = CeilDivide(plan.group, kernels_.rows) * kernels_.rows;
  // Where weights are read once, in the order they lie; else some panels for each row of V.
  plan.panels = std::min<int64_t>(panels_, plan.group <= 16 ? 1 : k_ <= 64 ? 4 : 2);
  plan.part = plan.group;
  if (plan.shared) {
    while (plan.panels > 1 && panels_ < plan.panels * plan.threads) --plan.panels;
    const int64_t blocks = CeilDivide(panels_, plan.panels);
    const int64_t parts = std::clamp<int64_t>(CeilDivide(plan.threads, blocks), 1,
                                              std::max<int64_t>(1, plan.group / 4));
    plan.part = CeilDivide(plan.group, parts);
  }
  // One more line than whole tiles: else all coefficients of a tile fall into one cache set.
  plan.v_stride = WinogradAlign(CheckedMultiply(plan.group, k_)) + kLine;
  plan.m_stride = WinogradAlign(plan.part * plan.panels * kernels_.columns) + kLine;
  plan.v_floats = CheckedMultiply(coefficients, plan.v_stride);
  plan.m_floats = coefficients * plan.m_stride;
  plan.patch_floats = WinogradAlign(coefficients * std::min(k_, kPatchChannels));
  plan.thread_floats = plan.m_floats + plan.patch_floats + (plan.shared ? 0 : plan.v_floats);
  plan.floats = CheckedAdd(CheckedMultiply<int64_t>(plan.threads, plan.thread_floats),
                           kLine + (plan.shared ? plan.v_floats : 0));
  return plan;
}

size_t WinogradConv::Workspace(const WinogradSize& size, int threads) const {
  return CheckedMultiply<size_t>(static_cast<size_t>(MakePlan(size, threads).floats),
                                 sizeof(float));
}

class WinogradConv::Job {
 public:
  Job(const WinogradConv& conv, const WinogradCall& call, const Plan& plan, float* workspace)
      : conv_(conv),
        kernels_(conv.kernels_),
        call_(call),
        plan_(plan),
        tile_(WinogradTile(conv.variant_)),
        size_(tile_ + 2),
        input_(kernels_.input[static_cast<size_t>(conv.variant_)]),
        output_(kernels_.output[static_cast<size_t>(conv.variant_)]),
        workspace_(workspace) {}

  void Go() const {
    if (plan_.shared) {
      GoShared();
    } else {
      GoPrivate();
    }
  }

 private:
  struct Place {
    int64_t image, y, x;  // of the tile's first output pixel
  };
  struct Scratch {
    float *m, *patch, *v;
  };

  Place PlaceOf(int64_t tile) const {
    const int64_t row = tile / plan_.tiles_x;
    return {row / plan_.tiles_y, row % plan_.tiles_y * tile_, tile % plan_.tiles_x * tile_};
  }

  Scratch ScratchOf(int64_t thread) const {
    float* m = workspace_ + (plan_.shared ? plan_.v_floats : 0) + thread * plan_.thread_floats;
    float* patch = m + plan_.m_floats;
    return {m, patch, plan_.shared ? workspace_ : patch + plan_.patch_floats};
  }

  void GoPrivate() const {
    const int64_t threads = plan_.threads;
    ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const Scratch scratch = ScratchOf(t);
        const int64_t end = plan_.tiles * (t + 1) / threads;
        for (int64_t begin = plan_.tiles * t / threads; begin < end; begin += plan_.group) {
          const int64_t stop = std::min(end, begin + plan_.group);
          for (int64_t tile = begin; tile < stop; ++tile) {
            Input(tile, scratch.v + (tile - begin) * conv_.k_, scratch.patch);
          }
          for (int64_t panel = 0; panel < conv_.panels_; panel += plan_.panels) {
            Block(begin, scratch.v, begin, stop, panel, scratch.m);
          }
        }
      }
    });
  }

  void GoShared() const {
    const int64_t threads = plan_.threads;
    const int64_t blocks = CeilDivide(conv_.panels_, plan_.panels);
    for (int64_t begin = 0; begin < plan_.tiles; begin += plan_.group) {
      const int64_t end = std::min(plan_.tiles, begin + plan_.group);
      ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          const Scratch scratch = ScratchOf(t);
          const int64_t stop = begin + (end - begin) * (t + 1) / threads;
          for (int64_t tile = begin + (end - begin) * t / threads; tile < stop; ++tile) {
            Input(tile, scratch.v + (tile - begin) * conv_.k_, scratch.patch);
          }
        }
      });
      const int64_t parts = CeilDivide(end - begin, plan_.part);
      ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          const Scratch scratch = ScratchOf(t);
          const int64_t tasks = blocks * parts;
          for (int64_t task = tasks * t / threads; task < tasks * (t + 1) / threads; ++task) {
            const int64_t from = begin + task % parts * plan_.part;
            Block(begin, scratch.v, from, std::min(end, from + plan_.part),
                  task / parts * plan_.panels, scratch.m);
          }
        }
      });
    }
  }

  /// A tile into its rows of V.
  void Input(int64_t tile, float* v, float* patch) const {
    const Place place = PlaceOf(tile);
    const int64_t y = place.y - call_.pad_top, x = place.x - call_.pad_left;
    const bool inside = y >= 0 && x >= 0 && y + size_ <= call_.height && x + size_ <= call_.width;
    WinogradInput input;
    input.v_stride = plan_.v_stride;
    int64_t done = 0;
    if (inside) {
      done = conv_.channels_ / kernels_.width * kernels_.width;
      input.patch =
          call_.input + ((place.image * call_.height + y) * call_.width + x) * call_.input_stride;
      input.pixel_stride = call_.input_stride;
      input.row_stride = call_.input_stride * call_.width;
      input.channels = done;
      input.v = v;
      input_(input);
    }
    for (; done < conv_.k_; done += input.channels) {
      input.channels = std::min(kPatchChannels, conv_.k_ - done);
      FillPatch(place.image, y, x, done, input.channels, patch);
      input.patch = patch;
      input.pixel_stride = input.channels;
      input.row_stride = input.channels * size_;
      input.v = v + done;
      input_(input);
    }
  }

  /// Copies the pixels of a tile that exist, and zeros for the others and for missing channels.
  void FillPatch(int64_t image, int64_t y0, int64_t x0, int64_t channel, int64_t count,
                 float* patch) const {
    const int64_t real = std::min(count, conv_.channels_ - channel);
    for (int64_t y = y0; y < y0 + size_; ++y) {
      for (int64_t x = x0; x < x0 + size_; ++x, patch += count) {
        int64_t copied = 0;
        if (y >= 0 && y < call_.height && x >= 0 && x < call_.width) {
          const int64_t pixel = (image * call_.height + y) * call_.width + x;
          std::copy_n(call_.input + pixel * call_.input_stride + channel, real, patch);
          copied = real;
        }
        std::fill(patch + copied, patch + count, 0.0f);
      }
    }
  }

  /// Products and output of tiles [begin, end) for some panels; `v` starts at tile `origin`.
  void Block(int64_t origin, const float* v, int64_t begin, int64_t end, int64_t panel,
             float* m) const {
    const int64_t panels = std::min(plan_.panels, conv_.panels_ - panel);
    const int64_t columns = kernels_.columns, coefficients = size_ * size_;
    const int64_t matrix = conv_.k_ * columns;  // floats of one coefficient's panel
    WinogradProduct product;
    product.v_row = product.k = conv_.k_;
    product.tiles = end - begin;
    product.m_row = panels * columns;
    const float* weights = reinterpret_cast<const float*>(conv_.weights_->data());
    for (int64_t i = 0; i < coefficients; ++i) {
      product.v = v + i * plan_.v_stride + (begin - origin) * conv_.k_;
      for (int64_t p = 0; p < panels; ++p) {
        product.u = weights + ((panel + p) * coefficients + i) * matrix;
        const bool last = p + 1 == panels;  // of those that this coefficient meets
        product.soon = last ? weights + (panel * coefficients + i + 1) * matrix
                            : product.u + coefficients * matrix;
        product.m = m + i * plan_.m_stride + p * columns;
        kernels_.product(product);
      }
    }
    for (int64_t tile = begin; tile < end; ++tile) {
      Output(tile, panel * columns, panels * columns, m + (tile - begin) * product.m_row);
    }
  }

  void Output(int64_t tile, int64_t channel, int64_t count, const float* m) const {
    const Place place = PlaceOf(tile);
    const int64_t pixel = (place.image * call_.out_height + place.y) * call_.out_width + place.x;
    WinogradOutput output;
    output.m = m;
    output.m_stride = plan_.m_stride;
    output.channels = std::min(count, conv_.out_channels_ - channel);
    output.rows = static_cast<int>(std::min(tile_, call_.out_height - place.y));
    output.columns = static_cast<int>(std::min(tile_, call_.out_width - place.x));
    output.bias = reinterpret_cast<const float*>(conv_.bias_->data()) + channel;
    output.out = call_.output + pixel * call_.output_stride + channel;
    output.pixel_stride = call_.output_stride;
    output.row_stride = call_.output_stride * call_.out_width;
    if (call_.add != nullptr) output.add = call_.add + pixel * call_.add_stride + channel;
    output.add_pixel_stride = call_.add_stride;
    output.add_row_stride = call_.add_stride * call_.out_width;
    output.activation = call_.activation;
    output_(output);
  }

  const WinogradConv& conv_;
  const WinogradKernels& kernels_;
  const WinogradCall& call_;
  const Plan& plan_;
  int64_t tile_, size_;
  void (*input_)(const WinogradInput&);
  void (*output_)(const WinogradOutput&);
  float* workspace_;
};

void WinogradConv::Run(const WinogradCall& call, int threads, float* workspace) const {
  const Plan plan = MakePlan({.batch = call.batch,
                              .out_height = call.out_height,
                              .out_width = call.out_width,
                              .channels = channels_,
                              .out_channels = out_channels_},
                             threads);
  if (plan.tiles == 0 || out_channels_ == 0) return;
  Job(*this, call, plan, workspace).Go();
}

namespace {

/// Rates that the choice rests on, of one core: what several share grows with their number, near
/// enough. Only their ratios matter.
struct WinogradMachine {
  double products;  // a nanosecond
  double bytes;     // of weights from memory, a nanosecond
  double clock;     // GHz
};

WinogradMachine MachineOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512: return {80, 12, 2.8};
    case Isa::kAvx2: return {48, 12, 3.0};
    case Isa::kNeon: return {41, 25, 2.6};
    default: return {1, 12, 3.0};
  }
}

/// Nanoseconds of a product that reads its weights once: the one hides most of the other.
double ProductTime(const WinogradMachine& machine, double products, double weights) {
  const double compute = products / (0.9 * machine.products);
  const double read = 4 * weights / machine.bytes;
  return std::max(compute, read) + 0.1 * std::min(compute, read);
}

double WinogradTime(const WinogradMachine& machine, const WinogradSize& size, Isa isa,
                    WinogradVariant variant) {
  // Cycles of the transforms for one vector of channels of a tile, measured on a Neoverse V1.
  constexpr double kInput[] = {30, 110, 400}, kOutput[] = {22, 95, 380};
  const WinogradKernels& kernels = WinogradKernelsFor(isa);
  const int64_t tile = WinogradTile(variant);
  const double tiles = static_cast<double>(size.batch) *
                       static_cast<double>(CeilDivide(size.out_height, tile)) *
                       static_cast<double>(CeilDivide(size.out_width, tile));
  const double in = static_cast<double>(CeilDivide(size.channels, kernels.width));
  const double out = static_cast<double>(CeilDivide(size.out_channels, kernels.columns));
  const double weights = static_cast<double>((tile + 2) * (tile + 2)) * in * out *
                         static_cast<double>(kernels.width * kernels.columns);
  const double cycles = in * kInput[static_cast<int>(variant)] +
                        out * kernels.columns / kernels.width * kOutput[static_cast<int>(variant)];
  // Fewer than four tiles leave some of the product's registers without work.
  return ProductTime(machine, std::max(tiles, 4.0) * weights, weights) +
         tiles * cycles / machine.clock;
}

}  // namespace

std::optional<WinogradVariant> WinogradConv::Choose(const WinogradSize& size, Isa isa) {
  const WinogradMachine machine = MachineOf(isa);
  const double weights =
      9 * static_cast<double>(size.channels) * static_cast<double>(size.out_channels);
  const double pixels = static_cast<double>(size.batch) * static_cast<double>(size.out_height) *
                        static_cast<double>(size.out_width);
  // A larger tile costs memory and accuracy: it must be worth it.
  constexpr double kGain = 0.92;
  double best = ProductTime(machine, pixels * weights, weights);
  std::optional<WinogradVariant> chosen;
  for (const auto variant : {WinogradVariant::kF2, WinogradVariant::kF4, WinogradVariant::kF6}) {
    const double time = WinogradTime(machine, size, isa, variant);
    if (time >= kGain * best) continue;
    best = time;
    chosen = variant;
  }
  return chosen;
}

}  // namespace oort
