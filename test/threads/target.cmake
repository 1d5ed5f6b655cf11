# A build without a server has no load for it.
if(TARGET oort_serve)
  target_link_libraries(test_threads PRIVATE oort_serve)
else()
  set_source_files_properties(${folder}/server_load_test.cpp TARGET_DIRECTORY test_threads
    PROPERTIES HEADER_FILE_ONLY ON)
endif()
