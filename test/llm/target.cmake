# What tools/check-chat-templates talks to.
add_executable(oort_render_template EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/llm/render_template.cpp)
target_link_libraries(oort_render_template PRIVATE oort)
oort_compile_options(oort_render_template)
