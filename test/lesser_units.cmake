# Matrix products and language models once more as on processors that lack some units of this one:
# what multiplies there is never asked where the better unit is. Units that this one lacks, too, are
# left out: without them all is as in the other tests.
set(flags "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags REGEX "^(flags|Features)" LIMIT_COUNT 1)
endif()
set(lacking "")
macro(oort_goes_without units flag)
  if(NOT flags OR "${flags} " MATCHES " ${flag} ")
    list(APPEND lacking ${units})
  endif()
endmacro()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  oort_goes_without(arm_bf16,arm_i8mm i8mm)
  oort_goes_without(arm asimd)
elseif(OORT_AVX512)
  oort_goes_without(amx_f16 amx_fp16)
  oort_goes_without(amx amx_tile)
  oort_goes_without(amx,avx avx512f)
endif()
# Behind the minus: what computes in f32 never asks for a unit.
string(CONCAT of_units "*Gemm*:Quantized*:Integer*:PagedAttention.*:F16Kernels.*:Precision.*:"
  "*Decoder*:Engine.*:LanguageModel.Quantizes*:SmolLM2.*-SmolLM2.ExactMode*:QuantizedProduct.Exact*")
set(programs cpu layers)
if(NOT OORT_SANITIZE OR OORT_FULL_TESTS)
  list(APPEND programs llm)  # it has no kernels of its own, which is what sanitizers look at here
endif()
foreach(units IN LISTS lacking)
  foreach(name IN LISTS programs)
    add_test(NAME ${name}.without_${units} COMMAND test_${name} --gtest_brief=1 --gtest_filter=${of_units})
    # Long ones first (COST), so that no core waits for the last.
    set_tests_properties(${name}.without_${units} PROPERTIES LABELS ${name} COST 60
      ENVIRONMENT OORT_CPU_WITHOUT=${units})
  endforeach()
endforeach()
