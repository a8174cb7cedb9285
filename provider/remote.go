// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// RemoteMemory names memory of a peer for READ, WRITE, FLUSH and atomic requests. The peer makes
// the value with MR.Remote or MW.Remote and sends it to this host, for example as private data of
// the connection or in a message.
//
// RKey is a capability. Every peer with a connection to a QP of the memory's protection domain can
// use the key, with the rights of the MR or MW. Addr and Length protect nothing. The key of an MR
// opens the whole MR, even if the RemoteMemory is a part of it. The key of a window opens the bytes
// that the window is bound to. Devices choose keys that can be guessed, so peers that do not trust
// each other need protection domains of their own. A key ends with the MR or with the binding of
// the window. A later registration may get the same key.
//
// The encoding has RemoteMemoryLen bytes: Addr in 8, Length in 8 and RKey in 4, each big-endian.
// UnmarshalBinary fails with EINVAL for every other number of bytes, and if Addr+Length exceeds 64
// bits. On InfiniBand and RoCE zeros follow private data, so decode only the first RemoteMemoryLen
// bytes. The memory need not exist any more. Only the peer's device checks that.
//
// Slice returns the n bytes from off on. Like the slice expression b[off:off+n] it panics if they
// are not all in the memory. If a peer sent the value, check Length first. String omits the key.
//
// The zero value has no bytes.
type RemoteMemory struct {
	Addr   uint64 // of the first byte, in the peer's address space
	Length uint64 // bytes
	RKey   uint32
}

// RemoteMemoryLen is the size in bytes of an encoded RemoteMemory.
const RemoteMemoryLen = 20

// ErrRemoteLength reports a READ or WRITE of more bytes than its RemoteMemory has. It
// wraps EINVAL.
var ErrRemoteLength = fmt.Errorf("the remote memory is shorter than the local memory: %w", syscall.EINVAL)

// Slice returns the n bytes from off on, and panics if they are not all in r.
func (r RemoteMemory) Slice(off, n int) RemoteMemory {
	if off < 0 || n < 0 || uint64(off) > r.Length || uint64(n) > r.Length-uint64(off) {
		panic(fmt.Sprintf("verbs: %d bytes from %d on of remote memory of %d", n, off, r.Length))
	}
	return RemoteMemory{Addr: r.Addr + uint64(off), Length: uint64(n), RKey: r.RKey}
}

// String returns the length and the address, as "4096 bytes of remote memory at 0x7f31c8000000". It
// omits the key, because a log must not contain capabilities.
func (r RemoteMemory) String() string {
	return fmt.Sprintf("%d bytes of remote memory at %#x", r.Length, r.Addr)
}

// AppendBinary appends the encoding to b. The error is always nil.
func (r RemoteMemory) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	b = binary.BigEndian.AppendUint64(b, r.Length)
	return binary.BigEndian.AppendUint32(b, r.RKey), nil
}

// MarshalBinary returns the encoding. The error is always nil.
func (r RemoteMemory) MarshalBinary() ([]byte, error) {
	return r.AppendBinary(make([]byte, 0, RemoteMemoryLen))
}

// UnmarshalBinary decodes the encoding. If it fails, r is unchanged.
func (r *RemoteMemory) UnmarshalBinary(data []byte) error {
	if len(data) != RemoteMemoryLen {
		return fmt.Errorf("remote memory in %d bytes, want %d: %w", len(data), RemoteMemoryLen, syscall.EINVAL)
	}
	m := RemoteMemory{
		Addr:   binary.BigEndian.Uint64(data),
		Length: binary.BigEndian.Uint64(data[8:]),
		RKey:   binary.BigEndian.Uint32(data[16:]),
	}
	if m.Length > math.MaxUint64-m.Addr {
		return fmt.Errorf("remote memory of %d bytes at %#x: %w", m.Length, m.Addr, syscall.EINVAL)
	}
	*r = m
	return nil
}
