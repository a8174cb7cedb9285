// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"purerdma/provider"
)

// check returns the reason why a request cannot be posted, and the address of a request that has
// one.
func (s *sendQueue) check(wr *provider.SendWR) (*addressVector, error) {
	if wr.Opcode == 0 {
		return nil, provider.ErrNoOpcode
	}
	if wr.Opcode > 15 || s.ops[wr.Opcode&15].kind == opNone {
		return nil, fmt.Errorf("%v, which the queue pair's transport or the device has not: %w", wr.Opcode, syscall.EOPNOTSUPP)
	}
	kind := s.ops[wr.Opcode&15].kind
	var err error
	switch {
	case kind == opUMR:
		if err = checkUMR(wr); wr.InlineData != nil || len(wr.SGList) > 0 {
			err = fmt.Errorf("data of a %v: %w", wr.Opcode, syscall.EINVAL)
		}
	case wr.InlineData != nil:
		err = s.checkInline(kind, wr)
	default:
		err = s.checkGather(wr.SGList)
	}
	if err == nil && kind == opAtomic {
		err = checkAtomic(wr)
	}
	if err != nil {
		return nil, err
	}
	switch s.transport {
	case transportXRC:
		if wr.RemoteSRQN&^maxNum != 0 {
			return nil, fmt.Errorf("SRQ number %#x: %w", wr.RemoteSRQN, syscall.EINVAL)
		}
	case transportRaw:
		return nil, s.checkPacket(kind, wr)
	case transportUD, transportDC:
		return findAddress(wr)
	}
	return nil, nil
}

// maxNum is the largest number of a QP or an SRQ.
const maxNum = 1<<24 - 1

// refusal returns the reason why build did not build a request.
//
//go:noinline
func (s *sendQueue) refusal(wr *provider.SendWR) error {
	if s.transport == transportDC {
		return fmt.Errorf("requests of a DC initiator are posted by PostDC: %w", syscall.EOPNOTSUPP)
	}
	return s.reason(wr)
}

// reason is refusal that also accepts requests of a DC initiator.
func (s *sendQueue) reason(wr *provider.SendWR) error {
	if _, err := s.check(wr); err != nil {
		return err
	}
	return fmt.Errorf("%v of more than %d segments: %w", wr.Opcode, maxSegments, syscall.EINVAL)
}

func (s *sendQueue) checkInline(kind opKind, wr *provider.SendWR) error {
	n, most := len(wr.InlineData), int(s.maxInline)
	switch {
	case kind == opRead || kind == opAtomic || kind == opLSO:
		return fmt.Errorf("inline data in a %v: %w", wr.Opcode, syscall.EINVAL)
	case s.transport == transportRaw && len(wr.Header) == 0:
		most += s.packets.minHeader
	}
	if n > most {
		return fmt.Errorf("%d bytes of inline data, %d fit: %w", n, most, syscall.EINVAL)
	}
	return nil
}

func (s *sendQueue) checkGather(sg []provider.SGE) error {
	if len(sg) > int(s.maxSGE) {
		return tooManySGE(len(sg), s.maxSGE)
	}
	for i := range sg {
		if n := sg[i].Length; n > maxSGELength {
			return tooLong(n)
		}
	}
	return nil
}

func checkAtomic(wr *provider.SendWR) error {
	if sg := wr.SGList; len(sg) > 1 || len(sg) == 1 && sg[0].Length > 0 && sg[0].Length < atomicSize {
		return fmt.Errorf("an atomic fills one element of %d bytes: %w", atomicSize, syscall.EINVAL)
	}
	if wr.RemoteAddr%atomicSize != 0 {
		return fmt.Errorf("atomic at address %#x, no multiple of %d: %w", wr.RemoteAddr, atomicSize, syscall.EINVAL)
	}
	return nil
}

// findAddress returns the address vector of a datagram.
func findAddress(wr *provider.SendWR) (*addressVector, error) {
	if wr.AH == nil {
		return nil, fmt.Errorf("datagram without address handle: %w", syscall.EINVAL)
	}
	switch a := wr.AH.ProviderAH().(type) {
	case *ah:
		if wr.RemoteQPN&^maxNum != 0 {
			return nil, fmt.Errorf("QP number %#x: %w", wr.RemoteQPN, syscall.EINVAL)
		}
		return &a.av, nil
	case nil:
		return nil, fmt.Errorf("address handle: %w: %w", net.ErrClosed, syscall.EINVAL)
	}
	return nil, fmt.Errorf("address handle: %w: %w", errOtherDriver, syscall.EINVAL)
}

var errOtherDriver = errors.New("object of another driver")
