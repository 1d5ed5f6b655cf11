# The kernels that have assembly once more without it, each unit in a namespace of its own.
function(oort_add_twins unit)
  set(OORT_ISA_FLAGS_${unit}_twin ${OORT_ISA_FLAGS_${unit}})
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/)
  oort_add_kernels(test_assembly ${unit}_twin neon "${ARGN}")
  target_compile_definitions(test_assembly_${unit}_twin PRIVATE OORT_NO_ASSEMBLY OORT_UNIT_${unit}=1)
endfunction()
oort_add_twins(neon source/cpu/gemm.simd.cpp layers/convolution/direct/direct_conv.lanes.cpp
  layers/convolution/winograd/winograd.lanes.cpp)
oort_add_twins(neon_f16 layers/convolution/direct/direct_conv.lanes.cpp
  layers/convolution/winograd/winograd.lanes.cpp)
oort_add_twins(neon_bf16 source/cpu/gemm.bf16.cpp)
oort_add_twins(neon_dot layers/quantize/integer.dot.cpp layers/quantized_linear/cpu/quantized_gemv.dot.cpp)
oort_add_twins(neon_i8mm layers/quantize/integer.mmla.cpp layers/quantized_linear/cpu/low_bit_pairs.mmla.cpp
  layers/quantized_linear/cpu/nibble_pairs.mmla.cpp
  layers/quantized_linear/cpu/nibble_rows.mmla.cpp layers/quantized_linear/cpu/row_pairs.mmla.cpp)
