# A file named *.simd.cpp is compiled once for each instruction set, each time into a namespace of
# its own (OORT_ISA), and the one to use is picked when a graph is built. See source/cpu/README.md.

# scalar: what every processor of the architecture has; also the reference in the tests.
set(OORT_ISA_FLAGS_scalar "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(OORT_ISAS scalar neon)
  set(OORT_ISA_FLAGS_neon "")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(OORT_ISAS scalar avx2 avx512)
  set(OORT_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(OORT_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mbmi2
    -mprefer-vector-width=512)
else()
  set(OORT_ISAS scalar)
endif()

function(oort_add_simd target sources)
  if(NOT sources)
    return()
  endif()
  foreach(isa IN LISTS OORT_ISAS)
    add_library(${target}_${isa} OBJECT ${sources})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include
      ${PROJECT_SOURCE_DIR}/source ${PROJECT_SOURCE_DIR})
    # No exceptions about fused multiply-add: every set may contract, and errno is never read.
    target_compile_options(${target}_${isa} PRIVATE ${OORT_ISA_FLAGS_${isa}} -O3 -fno-math-errno
      -fno-trapping-math -ffp-contract=fast)
    target_compile_definitions(${target}_${isa} PRIVATE OORT_ISA=${isa} OORT_ISA_${isa}=1)
    oort_compile_options(${target}_${isa})
    if(OORT_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # Checks of every pointer: AddressSanitizer does better, and they quadruple the compile time.
      target_compile_options(${target}_${isa} PRIVATE
        -fno-sanitize=null,alignment,object-size,pointer-overflow)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
