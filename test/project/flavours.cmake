# Other builds of the whole project, each in a folder of its own: first its build is a test, then
# its tests are. One ctest so runs and sums up everything.
function(oort_add_flavour name)
  cmake_parse_arguments(PARSE_ARGV 1 flavour "" "" "OPTIONS;TARGETS;TESTS")
  set(script ${OORT_BASH} ${CMAKE_CURRENT_SOURCE_DIR}/flavour)
  set(dir ${PROJECT_BINARY_DIR}/flavours/${name})
  add_test(NAME ${name}.build COMMAND ${script} build ${dir} ${PROJECT_SOURCE_DIR}
    "${flavour_TARGETS}" -DOORT_WERROR=${OORT_WERROR} ${flavour_OPTIONS})
  # It uses all processors, and what comes after needs it.
  set_tests_properties(${name}.build PROPERTIES FIXTURES_SETUP ${name} RUN_SERIAL ON TIMEOUT 2400)
  foreach(test IN LISTS flavour_TESTS)
    string(REPLACE "=" ";" parts ${test})
    list(GET parts 0 suffix)
    list(GET parts 1 selection)
    separate_arguments(selection UNIX_COMMAND ${selection})
    add_test(NAME ${name}.${suffix} COMMAND ${script} test ${dir} ${selection})
    set_tests_properties(${name}.${suffix} PROPERTIES FIXTURES_REQUIRED ${name} RUN_SERIAL ON
      TIMEOUT 2400)
  endforeach()
endfunction()

# -O0 compiles several times faster than -O1, and what runs long is in the kernels. A stack trace names
# functions; their lines would take a quarter of the time, and --full has them. One set of kernels is enough,
# since all are of the same sources: the one of this processor, where on x86-64 AVX2 stands for AVX-512.
# Scalar kernels would double what most tests of layers do, which is to build a graph for each set.
option(OORT_FULL_TESTS
  "Test also what CI leaves out: all kernels and cases (test/kit/sanitized.h) in the sanitizers, no unity files" OFF)
set(sanitizer_kernels HOST)
set(sanitizer_lines -g0)
if(OORT_FULL_TESTS)
  set(sanitizer_kernels ALL)
  set(sanitizer_lines -g1)
endif()
set(sanitizer_options -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 ${sanitizer_lines}"
  -DOORT_KERNEL_OPTIMIZATION=-O1 -DOORT_KERNELS=${sanitizer_kernels} -DOORT_AVX512=${OORT_FULL_TESTS}
  -DOORT_SCALAR_KERNELS=${OORT_FULL_TESTS}
  -DOORT_THREADS=OWN -DOORT_OPENMP=OFF -DOORT_CUDA=OFF -DOORT_INSTALL=OFF -DOORT_CLI=OFF -DOORT_UNITY=ON
  -DOORT_PCH=ON -DOORT_FULL_TESTS=${OORT_FULL_TESTS})
# Tests of layers, and fuzzers that run models, mostly build graphs: they take a quarter to a third less, for two
# files that take the compiler longer.
set(optimized_graph -DOORT_GRAPH_OPTIMIZATION=-O1)
find_program(OORT_CLANG clang++)
if(OORT_CLANG)
  # One build serves the tests and the fuzzers, which need clang. As tests they do not search.
  oort_add_flavour(sanitize
    OPTIONS -DCMAKE_CXX_COMPILER=${OORT_CLANG} -DOORT_SANITIZE=address,undefined -DOORT_FUZZERS=ON
      -DOORT_FUZZ_COVERAGE=OFF ${optimized_graph} ${sanitizer_options}
    TESTS "tests=--label-exclude fuzz" "fuzz=--label-regex fuzz")
else()
  oort_add_flavour(sanitize OPTIONS -DOORT_SANITIZE=address,undefined ${optimized_graph} ${sanitizer_options}
    TESTS "tests=--label-exclude fuzz")
endif()

# clang needs two thirds of g++'s time here. The tests of threads compute little: their kernels are not optimized.
set(by_clang "")
if(OORT_CLANG)
  set(by_clang -DCMAKE_CXX_COMPILER=${OORT_CLANG} -DOORT_KERNEL_OPTIMIZATION=-O0)
endif()
oort_add_flavour(thread OPTIONS -DOORT_SANITIZE=thread ${sanitizer_options} ${by_clang}
  TARGETS test_threads
  TESTS "tests=--label-regex threads")

# File by file: each must include what it uses. tools/check-includes tells most of it in a second.
if(OORT_FULL_TESTS)
  oort_add_flavour(plain
    OPTIONS -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DOORT_KERNEL_OPTIMIZATION=-O1
      -DOORT_CUDA=OFF -DOORT_INSTALL=OFF
    TARGETS oort_cli test_runtime
    TESTS "tests=--label-regex runtime")
endif()
