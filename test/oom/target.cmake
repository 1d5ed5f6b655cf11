# Allocations fail in the interface of C, too.
target_link_libraries(test_oom PRIVATE oort_c_static)
