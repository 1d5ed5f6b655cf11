if(NOT TARGET oort_media)
  message(FATAL_ERROR "tests of pictures need stb: install libstb-dev")
endif()
target_link_libraries(test_media PRIVATE oort_media)
