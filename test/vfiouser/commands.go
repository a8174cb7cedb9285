// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Flags of DEVICE_SET_IRQS for the kind of its data and its action.
const (
	irqSetDataNone    = 1 << 0
	irqSetDataBool    = 1 << 1
	irqSetDataEventFD = 1 << 2
	irqSetMask        = 1 << 3
	irqSetUnmask      = 1 << 4
	irqSetTrigger     = 1 << 5
)

func (s *Server) dmaMap(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	flags := le.Uint32(body[4:])
	q := mapping{
		offset: le.Uint64(body[8:]), addr: le.Uint64(body[16:]), size: le.Uint64(body[24:]),
		readable: flags&1 != 0, writeable: flags&2 != 0,
	}
	fd := -1
	if len(fds) > 0 {
		fd = fds[0]
	}
	return 0, s.Memory.add(q, fd)
}

func (s *Server) dmaUnmap(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	if errno := s.Memory.remove(le.Uint64(body[8:]), le.Uint64(body[16:])); errno != 0 {
		return 0, errno
	}
	return copy(sock.payload(24), body), 0
}

// setIRQs enables and disables vectors. The client implements masking itself.
func (s *Server) setIRQs(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	flags, index := le.Uint32(body[4:]), le.Uint32(body[8:])
	start, count := le.Uint32(body[12:]), le.Uint32(body[16:])
	n := uint32(0)
	if index == msixIndex {
		n = uint32(len(s.Interrupts.vectors))
	}
	errno := unix.Errno(0)
	switch {
	case index >= numIRQs || start > n || count > n-start:
		errno = unix.EINVAL
	case flags == irqSetDataNone|irqSetTrigger && count == 0:
		if index == msixIndex {
			s.Interrupts.disable()
		}
	case flags == irqSetDataEventFD|irqSetTrigger && len(fds) <= int(count):
		// Without a file descriptor a vector is disabled.
		vectors := slices.Repeat([]int{-1}, int(count))
		copy(vectors, fds)
		s.Interrupts.set(int(start), vectors)
		return 0, 0
	default:
		errno = unix.ENOTSUP
	}
	closeAll(fds)
	return 0, errno
}

// access parses and validates an access to a region.
func (s *Server) access(body []byte) (region int, offset uint64, count int, ok bool) {
	offset = le.Uint64(body)
	index, n := le.Uint32(body[8:]), le.Uint32(body[12:])
	if index >= numRegions || n > maxTransfer {
		return 0, 0, 0, false
	}
	size := s.Function.RegionSize(int(index))
	ok = offset <= size && uint64(n) <= size-offset
	return int(index), offset, int(n), ok
}

func (s *Server) read(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	region, offset, count, ok := s.access(body)
	if !ok {
		return 0, unix.EINVAL
	}
	out := sock.payload(16 + count)
	copy(out, body[:16])
	s.Function.ReadRegion(region, offset, out[16:])
	return len(out), 0
}

func (s *Server) write(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	region, offset, count, ok := s.access(body)
	if !ok || len(body)-16 < count {
		return 0, unix.EINVAL
	}
	s.Function.WriteRegion(region, offset, body[16:16+count])
	return copy(sock.payload(16), body[:16]), 0
}

func (s *Server) reset(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	s.Function.Reset()
	return 0, 0
}
