# liboort-c: what oort/c.h declares, with the library inside and nothing else to be seen. The shared one is for
# programs in any language; the archive is for who links everything into one program.
file(GLOB OORT_C_SOURCES CONFIGURE_DEPENDS source/c_api/*.cpp)
set(OORT_C_ABI 1)  # OORT_ABI_VERSION of oort/c.h; a test compares

add_library(oort_c_objects OBJECT ${OORT_C_SOURCES})
target_include_directories(oort_c_objects PRIVATE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/source ${PROJECT_SOURCE_DIR})
target_link_libraries(oort_c_objects PRIVATE Threads::Threads nlohmann_json::nlohmann_json)
# It hands over what others compute. In sections of their own, functions that a static program does not call leave it
# with -Wl,--gc-sections, and with them all that only they call: a program of networks has no engine.
target_compile_options(oort_c_objects PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden
  -ffunction-sections -fdata-sections $<$<CONFIG:Release>:-Os>)
oort_compile_options(oort_c_objects)
oort_unity(oort_c_objects "${OORT_C_SOURCES}")

# Linked into a static program only where it calls them: see the files.
set_source_files_properties(source/c_api/pictures.cpp source/c_api/embedding.cpp PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)

add_library(oort_c SHARED $<TARGET_OBJECTS:oort_c_objects>)
add_library(oort::c ALIAS oort_c)
add_library(oort_c_static STATIC $<TARGET_OBJECTS:oort_c_objects>)
add_library(oort::c_static ALIAS oort_c_static)
set_target_properties(oort_c PROPERTIES EXPORT_NAME c 
  VERSION ${OORT_C_ABI}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH}
  SOVERSION ${OORT_C_ABI})
set_target_properties(oort_c_static PROPERTIES EXPORT_NAME c_static)
set(OORT_C_MAP ${PROJECT_SOURCE_DIR}/source/c_api/liboort-c.map)
foreach(target IN ITEMS oort_c oort_c_static)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME oort-c LINKER_LANGUAGE CXX)
  if(NOT OORT_TOP_LEVEL AND NOT OORT_INSTALL)  # in a project of others only where something links it
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:include>)
endforeach()
target_link_libraries(oort_c PRIVATE oort)
target_link_libraries(oort_c_static PUBLIC oort)
target_link_options(oort_c PRIVATE LINKER:--version-script=${OORT_C_MAP} LINKER:--exclude-libs,ALL)
set_target_properties(oort_c PROPERTIES LINK_DEPENDS ${OORT_C_MAP})
oort_link_without_unused(oort_c)
if(OORT_STATIC_RUNTIME)
  target_link_options(oort_c PRIVATE -static-libstdc++ -static-libgcc)
endif()
if(OORT_SANITIZE)
  target_link_options(oort_c PRIVATE -fsanitize=${OORT_SANITIZE})
else()
  target_link_options(oort_c PRIVATE LINKER:-z,defs)
endif()

# Tests and demos in C itself, by the C compiler that belongs to the one of C++.
set(OORT_C_LANGUAGE OFF)
if(OORT_TESTS OR OORT_CLI)
  if(NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
    get_filename_component(oort_c_compiler ${CMAKE_CXX_COMPILER} REALPATH)
    foreach(compiler IN ITEMS ${CMAKE_CXX_COMPILER} ${oort_c_compiler})
      string(REGEX REPLACE "clang\\+\\+([^/]*)$" "clang\\1" compiler ${compiler})
      string(REGEX REPLACE "g\\+\\+([^/]*)$" "gcc\\1" compiler ${compiler})
      if(NOT CMAKE_C_COMPILER AND EXISTS ${compiler} AND NOT compiler MATCHES "\\+\\+")
        set(CMAKE_C_COMPILER ${compiler})
      endif()
    endforeach()
  endif()
  include(CheckLanguage)
  check_language(C)
  if(CMAKE_C_COMPILER)
    enable_language(C)
    set(OORT_C_LANGUAGE ON)
    if(OORT_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
      set(CMAKE_C_COMPILER_LAUNCHER ${OORT_CCACHE})
    endif()
  endif()
endif()

# A program of plain C99 that uses the shared library.
function(oort_add_c_program target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE oort_c)
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -pedantic -Wshadow -Wstrict-prototypes)
  if(OORT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(OORT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${OORT_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${OORT_SANITIZE})
    # The library's checks of C++ objects are in the part of the sanitizer that only programs in C++ get.
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endfunction()
