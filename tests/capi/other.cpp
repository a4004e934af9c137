// Both headers in C++, in the other order: the second of two files.
#include <compll.h>
#include <memfold.h>

bool other_file() {
    memfold_options options = memfold_default_options();
    return options.struct_size == sizeof options && options.codec == nullptr && memfold_strerror(MEMFOLD_STALE) != nullptr;
}
