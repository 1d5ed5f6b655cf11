# The edges are tested with the archive, and a program in C uses the shared library.
target_link_libraries(test_c_api PRIVATE oort_c_static)
if(OORT_C_LANGUAGE)
  oort_add_c_program(c_api_program ${CMAKE_CURRENT_SOURCE_DIR}/c_api/program.c)
  add_test(NAME c_api.program COMMAND c_api_program ${PROJECT_SOURCE_DIR}/models
    ${CMAKE_CURRENT_SOURCE_DIR}/encoders)
  # The example of the page.
  set(page ${PROJECT_SOURCE_DIR}/docs/c-api.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  file(READ ${page} text)
  string(REGEX MATCH "```c\n([^`]*)```" example "${text}")
  file(CONFIGURE OUTPUT c_api_example.c CONTENT "${CMAKE_MATCH_1}" @ONLY)
  oort_add_c_program(c_api_example ${CMAKE_CURRENT_BINARY_DIR}/c_api_example.c)
  add_test(NAME c_api.example COMMAND c_api_example ${PROJECT_SOURCE_DIR}/models/storyteller)
  set_tests_properties(c_api.example PROPERTIES PASS_REGULAR_EXPRESSION "\\(stop\\)")
  set_tests_properties(c_api.program c_api.example PROPERTIES LABELS c_api)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(NOT OORT_SANITIZE)
  add_test(NAME c_api.symbols COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/c_api/symbols_test.py
    $<TARGET_FILE:oort_c>)
  set_tests_properties(c_api.symbols PROPERTIES LABELS c_api)
  if(OORT_C_LANGUAGE)  # where valgrind is installed
    add_test(NAME c_api.valgrind COMMAND ${PROJECT_SOURCE_DIR}/tools/check-valgrind ${PROJECT_BINARY_DIR})
    set_tests_properties(c_api.valgrind PROPERTIES LABELS c_api SKIP_RETURN_CODE 77)
  endif()
  # The demo in Rust, which is built where rustc is: its own declarations of the interface must be the true ones.
  add_test(NAME c_api.rust COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/c_api/rust_demo
    ${PROJECT_BINARY_DIR}/demos/rust_chat ${PROJECT_SOURCE_DIR}/models/storyteller)
  set_tests_properties(c_api.rust PROPERTIES LABELS c_api SKIP_RETURN_CODE 77)
  # The ABI as abidiff sees it, where that is installed.
  add_test(NAME c_api.abi COMMAND ${PROJECT_SOURCE_DIR}/tools/check-abi)
  set_tests_properties(c_api.abi PROPERTIES LABELS c_api SKIP_RETURN_CODE 77)
endif()
