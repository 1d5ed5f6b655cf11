# Matrix products and language models once more as on processors that lack some units of this one:
# what multiplies there is never asked where the better unit is.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(lacking arm_i8mm arm)
elseif(OORT_AVX512)
  set(lacking amx_f16 amx amx,avx512)
else()
  set(lacking "")
endif()
string(CONCAT of_units "*Gemm*:Quantized*:PagedAttention.*:F16Kernels.*:Precision.*:"
  "*Decoder*:Engine.*:LanguageModel.Quantizes*:SmolLM2.*")
foreach(units IN LISTS lacking)
  foreach(name IN ITEMS cpu layers llm)
    add_test(NAME ${name}.without_${units} COMMAND test_${name} --gtest_brief=1 --gtest_filter=${of_units})
    # Long ones first (COST), so that no core waits for the last.
    set_tests_properties(${name}.without_${units} PROPERTIES LABELS ${name} COST 60
      ENVIRONMENT OORT_CPU_WITHOUT=${units})
  endforeach()
endforeach()
