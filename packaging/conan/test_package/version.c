/* SPDX-License-Identifier: MIT */
#include <oort/c.h>
#include <stdio.h>

int main(void) {
  printf("oort %s\n", oort_version());
  return oort_abi_version() == OORT_ABI_VERSION ? 0 : 1;
}
