# A file named *.simd.cpp is compiled once for each instruction set, each time into a namespace of
# its own (OORT_ISA), and the one to use is picked when a graph is built. See source/cpu/kernels.h.
# A file named *.bf16.cpp is compiled likewise once for each kind of bf16 unit (cpu/features.h), one
# named *.dot.cpp for each kind of unit that sums products of bytes, one named *.f16.cpp for each that
# computes in f16, one named *.mmla.cpp for each that multiplies matrices of bytes, one named *.vnni.cpp
# for AVX-VNNI, which a few kernels of AVX2 gain by, one named *.int8.cpp for tiles of bytes; what they share
# with the *.simd.cpp is that of the instruction set the unit comes with. A file named *.lanes.cpp is
# compiled as a *.simd.cpp and as a *.f16.cpp: its kernels have lanes of f32, and of f16 (cpu/lanes.h).

set(OORT_KERNEL_OPTIMIZATION -O3 CACHE STRING "How kernels are optimized")
mark_as_advanced(OORT_KERNEL_OPTIMIZATION)

# A library that leaves this machine needs the kernels of all processors. A program that is built where
# it runs does not, and on x86-64 compiles in a third of the time.
set(OORT_KERNELS ALL CACHE STRING "Kernels for ALL processors of the architecture, or for the HOST's alone")
set_property(CACHE OORT_KERNELS PROPERTY STRINGS ALL HOST)
option(OORT_UNITS_QUICK
  "Optimize kernels little for units that this machine lacks: compiles faster, for tests, which run none of them" OFF)
set(OORT_NATIVE_MACROS "")
if(OORT_KERNELS STREQUAL "HOST" OR OORT_UNITS_QUICK)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null
    OUTPUT_VARIABLE OORT_NATIVE_MACROS ERROR_QUIET)
endif()
set(OORT_HOST_MACROS "")
if(OORT_KERNELS STREQUAL "HOST")
  set(OORT_HOST_MACROS "${OORT_NATIVE_MACROS}")
endif()
# What tells that a unit is here, for OORT_UNITS_QUICK.
set(OORT_MACRO_avx512 __AVX512BW__)
set(OORT_MACRO_avx512_f16 __AVX512FP16__)
set(OORT_MACRO_avx512_bf16 __AVX512BF16__)
set(OORT_MACRO_avx512_vnni __AVX512VNNI__)
set(OORT_MACRO_avx_vnni __AVXVNNI__)
set(OORT_MACRO_amx __AMX_BF16__)
set(OORT_MACRO_amx_int8 __AMX_INT8__)
set(OORT_MACRO_neon_bf16 __ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
set(OORT_MACRO_neon_dot __ARM_FEATURE_DOTPROD)
set(OORT_MACRO_neon_f16 __ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
set(OORT_MACRO_neon_i8mm __ARM_FEATURE_MATMUL_INT8)
# Whether the kernels are for a processor that has all of what these macros of the compiler name.
function(oort_wants result)
  set(${result} ON PARENT_SCOPE)
  foreach(macro IN LISTS ARGN)
    if(OORT_HOST_MACROS AND NOT OORT_HOST_MACROS MATCHES "#define ${macro} 1")
      set(${result} OFF PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
oort_wants(OORT_WANTS_AVX512 __AVX512F__ __AVX512BW__ __AVX512DQ__ __AVX512VL__)
oort_wants(OORT_WANTS_AVX512_F16 __AVX512FP16__)
oort_wants(OORT_WANTS_AVX512_BF16 __AVX512BF16__)
oort_wants(OORT_WANTS_AVX512_VNNI __AVX512VNNI__)
oort_wants(OORT_WANTS_AVX_VNNI __AVXVNNI__)
oort_wants(OORT_WANTS_AMX __AMX_TILE__ __AMX_BF16__)
oort_wants(OORT_WANTS_AMX_INT8 __AMX_TILE__ __AMX_INT8__ __AVX512VNNI__)
oort_wants(OORT_WANTS_AVX2 __AVX2__ __FMA__ __F16C__ __BMI2__)
option(OORT_AVX512 "On x86-64: kernels for AVX-512 and the units that come with it, too" ON)
if(NOT OORT_WANTS_AVX512)
  set(OORT_AVX512 OFF)
endif()

# scalar: what every processor of the architecture has. The tests compare with it, and old x86-64
# processors run it; every aarch64 has NEON.
set(OORT_ISA_FLAGS_scalar "")
set(OORT_SCALAR_KERNELS AUTO CACHE STRING "Kernels without vector instructions: AUTO (where needed), ON or OFF")
set_property(CACHE OORT_SCALAR_KERNELS PROPERTY STRINGS AUTO ON OFF)
if(OORT_SCALAR_KERNELS STREQUAL "AUTO")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(OORT_SCALAR_KERNELS ${OORT_TESTS})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND OORT_HOST_MACROS AND OORT_WANTS_AVX2)
    set(OORT_SCALAR_KERNELS OFF)
  else()
    set(OORT_SCALAR_KERNELS ON)
  endif()
endif()
set(OORT_ISAS "")
if(OORT_SCALAR_KERNELS)
  list(APPEND OORT_ISAS scalar)
else()
  add_compile_definitions(OORT_NO_SCALAR)  # see cpu/kernels.h
endif()
# Optimized less than the others (OORT_KERNEL_OPTIMIZATION): two thirds of the compiler's time for what
# next to nobody runs. That of fft.simd.cpp counts, which is why every build has it: it does single lines.
string(REPLACE -O3 -O1 OORT_LESSER_OPTIMIZATION "${OORT_KERNEL_OPTIMIZATION}")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND OORT_ISAS neon)
  set(OORT_ISA_FLAGS_neon "")
  set(OORT_BF16_UNITS neon_bf16)
  set(OORT_UNIT_ISA_neon_bf16 neon)
  set(OORT_ISA_FLAGS_neon_bf16 -march=armv8.2-a+bf16)
  set(OORT_DOT_UNITS neon_dot)
  set(OORT_UNIT_ISA_neon_dot neon)
  set(OORT_ISA_FLAGS_neon_dot -march=armv8.2-a+dotprod)
  set(OORT_F16_UNITS neon_f16)
  set(OORT_UNIT_ISA_neon_f16 neon)
  set(OORT_ISA_FLAGS_neon_f16 -march=armv8.2-a+fp16)
  set(OORT_MMLA_UNITS neon_i8mm)
  set(OORT_UNIT_ISA_neon_i8mm neon)
  set(OORT_ISA_FLAGS_neon_i8mm -march=armv8.2-a+dotprod+i8mm+fp16fml)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  if(OORT_WANTS_AVX2 AND NOT (OORT_HOST_MACROS AND OORT_AVX512))
    list(APPEND OORT_ISAS avx2)
  else()
    add_compile_definitions(OORT_NO_AVX2)
  endif()
  set(OORT_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(OORT_BF16_UNITS "")
  if(OORT_HOST_MACROS AND OORT_AVX512 AND OORT_WANTS_AVX512_VNNI)
    set(OORT_DOT_UNITS "")
    add_compile_definitions(OORT_NO_AVX2_DOT)
  else()
    set(OORT_DOT_UNITS avx2_dot)
  endif()
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-mavxvnni OORT_COMPILES_AVX_VNNI)
  if(OORT_COMPILES_AVX_VNNI AND OORT_WANTS_AVX_VNNI AND "avx2" IN_LIST OORT_ISAS)
    set(OORT_VNNI_UNITS avx_vnni)
    set(OORT_UNIT_ISA_avx_vnni avx2)
    set(OORT_ISA_FLAGS_avx_vnni ${OORT_ISA_FLAGS_avx2} -mavxvnni)
  else()
    add_compile_definitions(OORT_NO_AVX_VNNI)
  endif()
  set(OORT_UNIT_ISA_avx2_dot avx2)
  set(OORT_ISA_FLAGS_avx2_dot ${OORT_ISA_FLAGS_avx2})
  if(OORT_AVX512)
    list(APPEND OORT_ISAS avx512)
    set(OORT_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mbmi2
      -mprefer-vector-width=512)
    foreach(unit IN ITEMS avx512_bf16 amx)
      string(TOUPPER ${unit} unit_name)
      if(OORT_WANTS_${unit_name})
        list(APPEND OORT_BF16_UNITS ${unit})
      else()
        add_compile_definitions(OORT_NO_${unit_name})
      endif()
    endforeach()
    set(OORT_UNIT_ISA_avx512_bf16 avx512)
    set(OORT_ISA_FLAGS_avx512_bf16 ${OORT_ISA_FLAGS_avx512} -mavx512bf16)
    set(OORT_UNIT_ISA_amx avx512)
    set(OORT_ISA_FLAGS_amx ${OORT_ISA_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)
    check_cxx_compiler_flag(-mavx512fp16 OORT_COMPILES_AVX512_F16)
    if(OORT_COMPILES_AVX512_F16 AND OORT_WANTS_AVX512_F16)
      set(OORT_F16_UNITS avx512_f16)
      set(OORT_UNIT_ISA_avx512_f16 avx512)
      set(OORT_ISA_FLAGS_avx512_f16 ${OORT_ISA_FLAGS_avx512} -mavx512fp16 -mamx-tile)
    else()
      add_compile_definitions(OORT_NO_F16_UNIT)  # see cpu/lanes_kernels.h
    endif()
    if(OORT_WANTS_AVX512_VNNI)
      list(APPEND OORT_DOT_UNITS avx512_vnni)
    else()
      add_compile_definitions(OORT_NO_AVX512_VNNI)
    endif()
    set(OORT_UNIT_ISA_avx512_vnni avx512)
    set(OORT_ISA_FLAGS_avx512_vnni ${OORT_ISA_FLAGS_avx512} -mavx512vnni)
    if(OORT_WANTS_AMX_INT8)
      set(OORT_INT8_UNITS amx_int8)
    else()
      add_compile_definitions(OORT_NO_AMX_INT8)
    endif()
    set(OORT_UNIT_ISA_amx_int8 avx512)
    set(OORT_ISA_FLAGS_amx_int8 ${OORT_ISA_FLAGS_avx512_vnni} -mamx-tile -mamx-int8)
  else()
    add_compile_definitions(OORT_NO_AVX512 OORT_NO_AVX512_BF16 OORT_NO_AVX512_VNNI OORT_NO_AMX
      OORT_NO_AMX_INT8 OORT_NO_F16_UNIT)  # see cpu/kernels.h
  endif()
endif()

# Compiles `sources` into the namespace `name`, over the vector type of `isa`.
function(oort_add_kernels target name isa sources)
  if(NOT sources)
    return()
  endif()
  # A row of a language model has the same result whoever its neighbours are: what is fused must not
  # depend on how many rows a function does at a time. Bytes are the same on every instruction set.
  foreach(source IN LISTS sources)
    if(source MATCHES "layers/(attention/paged|quantize|quantized_linear|rotary)/")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -ffp-contract=off
        SKIP_PRECOMPILE_HEADERS ON)  # gcc would take options from there, too
    endif()
  endforeach()
  set(optimization ${OORT_KERNEL_OPTIMIZATION})
  if(name STREQUAL "scalar" OR (OORT_UNITS_QUICK AND OORT_NATIVE_MACROS AND OORT_MACRO_${name}
      AND NOT OORT_NATIVE_MACROS MATCHES "#define ${OORT_MACRO_${name}} 1"))
    set(optimization ${OORT_LESSER_OPTIMIZATION})
  endif()
  add_library(${target}_${name} OBJECT ${sources})
  target_include_directories(${target}_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/source ${PROJECT_SOURCE_DIR})
  # Otherwise every set may contract, and errno is never read.
  target_compile_options(${target}_${name} PRIVATE ${OORT_ISA_FLAGS_${name}}
    ${optimization} -fno-math-errno -fno-trapping-math -ffp-contract=fast)
  target_compile_definitions(${target}_${name} PRIVATE OORT_ISA=${name} OORT_ISA_${isa}=1)
  oort_compile_options(${target}_${name})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND isa STREQUAL "avx512")
    # GCC 12 takes _mm512_undefined_ps() of its own header for a mistake (GCC bug 105593).
    target_compile_options(${target}_${name} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  if(OORT_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Checks of every pointer: AddressSanitizer does better, and they quadruple the compile time.
    target_compile_options(${target}_${name} PRIVATE
      -fno-sanitize=null,alignment,object-size,pointer-overflow)
  endif()
  if(OORT_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A call for each access instead of its code: an unrolled kernel compiles in two thirds of the time.
    target_compile_options(${target}_${name} PRIVATE
      "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
  endif()
  if(OORT_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND isa STREQUAL "avx512")
    # Ten minutes for a file with sanitizers, half a minute without; AVX2's kernels have them, from
    # the same sources.
    target_compile_options(${target}_${name} PRIVATE -fno-sanitize=all)
  endif()
  list(LENGTH sources count)
  if(count GREATER 4)
    oort_precompile_headers(${target}_${name})
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${name}>)
endfunction()

function(oort_add_simd target sources)
  set(single_lines ${sources})
  list(FILTER single_lines INCLUDE REGEX "/fft\\.simd\\.cpp$")
  set_source_files_properties(${single_lines} PROPERTIES COMPILE_OPTIONS "${OORT_KERNEL_OPTIMIZATION}"
    SKIP_PRECOMPILE_HEADERS ON)
  if(NOT OORT_SCALAR_KERNELS)
    oort_add_kernels(${target} scalar scalar "${single_lines}")
  endif()
  foreach(isa IN LISTS OORT_ISAS)
    oort_add_kernels(${target} ${isa} ${isa} "${sources}")
  endforeach()
endfunction()

# Compiles `sources` for each of `units`.
function(oort_add_units target units sources)
  foreach(unit IN LISTS units)
    oort_add_kernels(${target} ${unit} ${OORT_UNIT_ISA_${unit}} "${sources}")
    if(sources)
      target_compile_definitions(${target}_${unit} PRIVATE OORT_UNIT_${unit}=1)
    endif()
  endforeach()
endfunction()
