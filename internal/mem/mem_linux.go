// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSize is the largest size, in bytes, of memory that is mapped and unmapped by raw system calls,
// which the scheduler does not track. Larger sizes may take long, because with MCL_FUTURE
// (mlockall(2)) each page takes time.
const rawSize = 1 << 20

// mmap maps n bytes.
func mmap(fd int, offset int64, n, prot, flags int) (unsafe.Pointer, error) {
	if n <= rawSize {
		return mapRaw(fd, offset, n, prot, flags)
	}
	return unix.MmapPtr(fd, offset, nil, uintptr(n), prot, flags)
}

const readWrite = unix.PROT_READ | unix.PROT_WRITE

func mapAnonymous(size int) ([]byte, error) { return mapPages(size, unix.Getpagesize(), 0) }

func mapHuge(size int) ([]byte, error) {
	page := hugePage()
	if page == 0 {
		return nil, fmt.Errorf("huge pages: %w", errors.ErrUnsupported)
	}
	b, err := mapPages(size, page, unix.MAP_HUGETLB)
	if err != nil {
		err = fmt.Errorf("huge pages of %d KiB: %w", page>>10, err)
	}
	return b, err
}

// hugePage returns the size of the kernel's default huge page, 0 if it has none.
func hugePage() int {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(info)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "Hugepagesize: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}

func mapPages(size, page, flags int) ([]byte, error) {
	n := (size + page - 1) &^ (page - 1)
	if size <= 0 || n < size {
		return nil, unix.EINVAL
	}
	p, err := mmap(-1, 0, n, readWrite, flags|unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// maxNodes is the largest number of NUMA nodes of any kernel (CONFIG_NODES_SHIFT is at most 10).
const maxNodes = 1024

// preferNode sets the NUMA policy of pages that were not touched yet.
func preferNode(b []byte, node int) error {
	if node < 0 || node >= maxNodes || len(b) == 0 {
		return unix.EINVAL
	}
	const word = 8 * unsafe.Sizeof(uintptr(0)) // bits
	var nodes [maxNodes / word]uintptr
	nodes[uintptr(node)/word] = 1 << (uintptr(node) % word)
	// The kernel reads one bit less than the number.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(&nodes)), maxNodes+1, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// MapFile maps length bytes of a file, shared, for reading and writing. The
// mapping keeps the file open, whatever becomes of fd.
func MapFile(fd int, offset int64, length int) ([]byte, error) {
	return mapFile(fd, offset, length, readWrite)
}

// MapFileReadOnly is MapFile for memory that must not be written. A write is a fault of the process.
func MapFileReadOnly(fd int, offset int64, length int) ([]byte, error) {
	return mapFile(fd, offset, length, unix.PROT_READ)
}

func mapFile(fd int, offset int64, length, prot int) ([]byte, error) {
	if length <= 0 {
		return nil, unix.EINVAL
	}
	p, err := mmap(fd, offset, length, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), length), nil
}

// Replace puts anonymous zeroed memory in the place of a mapping that MapFile made, in one step. A
// concurrent reader reads the old bytes or zeros and does not fault. The mapping no longer holds
// the file open.
func Replace(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)),
		readWrite, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// Unmap ends a mapping.
func Unmap(b []byte) error {
	p, n := unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))
	if n > rawSize {
		return unix.MunmapPtr(p, n)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_MUNMAP, uintptr(p), n, 0); errno != 0 {
		return errno
	}
	return nil
}

// Join returns the memory of two mappings that are adjacent, in either order, and nil if they are
// not. Unmap of the result ends both.
func Join(a, b []byte) []byte {
	pa, pb := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b))
	switch {
	case len(a) == 0 || len(b) == 0:
		return nil
	case uintptr(pa)+uintptr(len(a)) == uintptr(pb):
		return unsafe.Slice((*byte)(pa), len(a)+len(b))
	case uintptr(pb)+uintptr(len(b)) == uintptr(pa):
		return unsafe.Slice((*byte)(pb), len(a)+len(b))
	}
	return nil
}

// LockLimit returns RLIMIT_MEMLOCK, the number of bytes that this process may pin, and false for
// "unlimited".
func LockLimit() (uint64, bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Cur == unix.RLIM_INFINITY {
		return 0, false
	}
	return l.Cur, true
}

// Pinned returns the number of bytes that this process has pinned for devices (VmPin of
// proc_pid_status(5)).
func Pinned() (uint64, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		var kb uint64
		if n, _ := fmt.Sscanf(line, "VmPin: %d kB", &kb); n == 1 {
			return kb << 10, true
		}
	}
	return 0, false
}

// FileLimit returns RLIMIT_NOFILE, the number of file descriptors that this process may have.
func FileLimit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return l.Cur
}
