# With OORT_UNITY the files of a folder are compiled together: a build of everything takes a third
# of the time, a build after a change takes longer. Names in unnamed namespaces must then differ
# within a folder (in test/FOLDER itself only among files whose names begin with the same word).
option(OORT_UNITY "Compile the files of a folder together: faster from scratch" OFF)

# oort_unity(target sources [BY_FIRST_WORD FOLDER | PARTS n])
# BY_FIRST_WORD groups the files of FOLDER itself by the first word of their names. PARTS cuts one
# folder's files into n groups of about the same number, so that all cores have work.
function(oort_unity target sources)
  if(NOT OORT_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "BY_FIRST_WORD;PARTS" "")
  list(SORT sources)
  list(LENGTH sources count)
  set(index 0)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${source} NAME)
    set(part "")
    if(folder STREQUAL "${arg_BY_FIRST_WORD}")
      string(REGEX MATCH "^[^_.]+" part ${name})
      set(part _${part})
    elseif(arg_PARTS)
      math(EXPR part "${index} * ${arg_PARTS} / ${count}")
      set(part _${part})
    endif()
    # The same in every clone, so that ccache finds what another has compiled.
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MD5 folder ${folder})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${folder}${part})
    math(EXPR index "${index} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
