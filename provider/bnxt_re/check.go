// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"purerdma/provider"
)

const (
	// maxMessage is the longest message (max_msg_sz of the port, BNXT_RE_MAX_MR_SIZE of the kernel).
	maxMessage = 1 << 30
	// atomicSize is the number of bytes of an atomic.
	atomicSize = 8
)

// errOtherDriver reports an object that another driver has made.
var errOtherDriver = errors.New("object of another driver")

// check returns the reason why a request cannot be posted, or nil.
//
//go:noinline
func (s *sendQueue) check(wr *provider.SendWR) error {
	if wr.Opcode == 0 {
		return provider.ErrNoOpcode
	}
	if wr.Opcode > 15 || !s.has(s.ops[wr.Opcode].kind) {
		return fmt.Errorf("%v on a QP of bnxt_re: %w", wr.Opcode, syscall.EOPNOTSUPP)
	}
	kind := s.ops[wr.Opcode].kind
	if wr.InlineData != nil {
		if kind == opReads || kind == opAtomics {
			return fmt.Errorf("inline data in a %v: %w", wr.Opcode, syscall.EINVAL)
		}
		if n := len(wr.InlineData); n > int(s.maxData) {
			return fmt.Errorf("%d bytes of inline data, %d fit: %w", n, s.maxData, syscall.EINVAL)
		}
	} else if err := checkElements(wr.SGList, s.maxSGE); err != nil {
		return err
	}
	if kind == opAtomics {
		return checkAtomic(wr)
	}
	if s.search.kind&searchUD != 0 {
		_, err := address(wr)
		return err
	}
	return nil
}

// has reports whether the QP has operations of a kind.
func (s *sendQueue) has(kind opKind) bool {
	switch kind {
	case opNone:
		return false
	case opAtomics:
		return s.atomics
	}
	return true
}

// checkElements checks the elements of a request or of a receive.
func checkElements(sg []provider.SGE, max int) error {
	if n := len(sg); n > max {
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", n, max, syscall.EINVAL)
	}
	var length uint64
	for i := range sg {
		length += uint64(sg[i].Length)
	}
	if length > maxMessage {
		return fmt.Errorf("message of %d bytes, at most %d: %w", length, maxMessage, syscall.EMSGSIZE)
	}
	return nil
}

func checkAtomic(wr *provider.SendWR) error {
	switch {
	case len(wr.SGList) != 1:
		return fmt.Errorf("%d scatter/gather elements in a %v, want one: %w", len(wr.SGList), wr.Opcode, syscall.EINVAL)
	case wr.SGList[0].Length < atomicSize:
		return fmt.Errorf("an atomic fills %d bytes, the element has %d: %w", atomicSize, wr.SGList[0].Length, syscall.EINVAL)
	case wr.RemoteAddr%atomicSize != 0:
		return fmt.Errorf("atomic at address %#x, no multiple of %d: %w", wr.RemoteAddr, atomicSize, syscall.EINVAL)
	}
	return nil
}

// address returns the destination of a datagram.
func address(wr *provider.SendWR) (*ah, error) {
	if wr.AH == nil {
		return nil, fmt.Errorf("datagram without address handle: %w", syscall.EINVAL)
	}
	switch a := wr.AH.ProviderAH().(type) {
	case *ah:
		if wr.RemoteQPN&^psnMask != 0 {
			return nil, fmt.Errorf("QP number %#x: %w", wr.RemoteQPN, syscall.EINVAL)
		}
		return a, nil
	case nil:
		return nil, fmt.Errorf("address handle: %w: %w", net.ErrClosed, syscall.EINVAL)
	}
	return nil, fmt.Errorf("address handle: %w: %w", errOtherDriver, syscall.EINVAL)
}
