list(APPEND seeds ${CMAKE_CURRENT_BINARY_DIR}/fuzz/params)
