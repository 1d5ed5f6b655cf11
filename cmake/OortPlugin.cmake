# Plug-ins: what the library opens when it is asked for, so that it needs nobody else's libraries itself. Each is a
# target, an install component and a package of its own, where it can be built.

set(OORT_PLUGINS "")  # the names of those that are

# oort_plugin(NAME SOURCE LIBRARIES…) makes liboort-NAME.so of one file.
function(oort_plugin name source)
  set(target oort_${name})
  add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/${source})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/source)
  target_link_libraries(${target} PRIVATE ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME oort-${name} CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  if(OORT_STATIC_RUNTIME)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  endif()
  oort_compile_options(${target})
  set(OORT_PLUGINS ${OORT_PLUGINS} ${name} PARENT_SCOPE)
endfunction()

include(OortMpi)
include(OortNccl)
# All of them, for those who do not know which there are.
add_custom_target(oort_plugins)
foreach(name IN LISTS OORT_PLUGINS)
  add_dependencies(oort_plugins oort_${name})
endforeach()
