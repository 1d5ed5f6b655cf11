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

# -O1, also of kernels, which take longest to compile: the tests must not take longer than they need;
# line numbers are enough for a stack trace.
set(sanitizer_options -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1"
  -DOORT_KERNEL_OPTIMIZATION=-O1
  -DOORT_OPENMP=OFF -DOORT_CUDA=OFF -DOORT_INSTALL=OFF -DOORT_CLI=OFF -DOORT_UNITY=ON)
find_program(OORT_CLANG clang++)
if(OORT_CLANG)
  # One build serves the tests and the fuzzers, which need clang.
  oort_add_flavour(sanitize
    OPTIONS -DCMAKE_CXX_COMPILER=${OORT_CLANG} -DOORT_SANITIZE=address,undefined -DOORT_FUZZERS=ON
      ${sanitizer_options}
    TESTS "tests=--label-exclude fuzz" "fuzz=--label-regex fuzz")
else()
  oort_add_flavour(sanitize OPTIONS -DOORT_SANITIZE=address,undefined ${sanitizer_options}
    TESTS "tests=--label-exclude fuzz")
endif()

oort_add_flavour(thread OPTIONS -DOORT_SANITIZE=thread ${sanitizer_options}
  TARGETS test_threads
  TESTS "tests=--label-regex threads")

# File by file: each must include what it uses. tools/check-includes tells most of it in a second,
# so this is for who asks.
option(OORT_PLAIN_TESTS "Build and test without unity files, too" OFF)
if(OORT_PLAIN_TESTS)
  oort_add_flavour(plain
    OPTIONS -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DOORT_KERNEL_OPTIMIZATION=-O1
      -DOORT_CUDA=OFF -DOORT_INSTALL=OFF
    TARGETS oort_cli test_runtime
    TESTS "tests=--label-regex runtime")
endif()
