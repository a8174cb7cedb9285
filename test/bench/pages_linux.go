// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// mapPages maps memory of ordinary or huge pages, as the C side does.
func mapPages(size int, huge bool) ([]byte, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if huge {
		flags |= unix.MAP_HUGETLB
	}
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
}
