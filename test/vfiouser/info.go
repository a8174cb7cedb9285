// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Flags of linux/vfio.h.
const (
	deviceReset = 1 << 0
	devicePCI   = 1 << 1

	regionRead  = 1 << 0
	regionWrite = 1 << 1

	irqEventFD = 1 << 0
)

// Kinds of interrupts of PCI functions. This server implements MSI-X.
const (
	msixIndex = 2
	numIRQs   = 5
)

// version negotiates version 0.0 of the protocol, or the client's minor version, and returns
// the capabilities.
func (s *Server) version(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	if le.Uint16(body) != 0 {
		return 0, unix.ENOTSUP
	}
	caps := fmt.Sprintf(`{"capabilities":{"max_msg_fds":%d,"max_data_xfer_size":%d,"max_dma_maps":%d}}`, maxFDs, maxTransfer, maxWindows)
	out := sock.payload(4 + len(caps) + 1)
	copy(out[4:], caps)
	return len(out), 0
}

func (s *Server) info(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	out := sock.payload(16)
	le.PutUint32(out, 16)
	le.PutUint32(out[4:], deviceReset|devicePCI)
	le.PutUint32(out[8:], numRegions)
	le.PutUint32(out[12:], numIRQs)
	return len(out), 0
}

func (s *Server) regionInfo(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	index := le.Uint32(body[8:])
	if index >= numRegions {
		return 0, unix.EINVAL
	}
	out := sock.payload(32)
	le.PutUint32(out, 32)
	le.PutUint32(out[8:], index)
	if size := s.Function.RegionSize(int(index)); size > 0 {
		le.PutUint32(out[4:], regionRead|regionWrite)
		le.PutUint64(out[16:], size)
	}
	return len(out), 0
}

func (s *Server) irqInfo(sock *socket, body []byte, fds []int) (int, unix.Errno) {
	index := le.Uint32(body[8:])
	if index >= numIRQs {
		return 0, unix.EINVAL
	}
	out := sock.payload(16)
	le.PutUint32(out, 16)
	le.PutUint32(out[8:], index)
	if index == msixIndex {
		le.PutUint32(out[4:], irqEventFD)
		le.PutUint32(out[12:], uint32(len(s.Interrupts.vectors)))
	}
	return len(out), 0
}
