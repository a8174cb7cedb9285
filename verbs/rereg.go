// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net"
	"syscall"

	"purerdma/provider"
	"purerdma/uverbs"
)

// MRChange lists the changes of Reregister. nil fields stay as they are.
type MRChange struct {
	PD     *PD
	Access *Access
}

// Reregister moves the memory to another PD, or changes its rights, in less time than a new
// registration takes (ibv_rereg_mr(3)). No work request may name the memory during the call. The
// keys may change. Few drivers support it. After a refused Close the error
// wraps net.ErrClosed. If it wraps errors.ErrUnsupported or EINVAL, the MR is unchanged. After other
// errors, the MR may be unusable and can only be closed.
func (m *MR) Reregister(c MRChange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pd.dev.opError("reregister memory on", m.reregister(c))
}

func (m *MR) reregister(c MRChange) error {
	if m.closed.Load() || m.pd.refused.has(m) {
		return net.ErrClosed
	}
	cfg := &provider.MRConfig{PD: m.pd.p, Access: m.access}
	var mask provider.MRMask
	if c.Access != nil {
		if err := checkAccess(*c.Access); err != nil {
			return err
		}
		mask |= provider.MRAccess
		cfg.Access = *c.Access
	}
	pd := m.pd
	if c.PD != nil && c.PD != m.pd {
		if c.PD.dev != m.pd.dev {
			return fmt.Errorf("PD of another device: %w", syscall.EINVAL)
		}
		mask |= provider.MRPD
		pd, cfg.PD = c.PD, c.PD.p
	}
	if mask == 0 {
		return nil
	}
	// Until the end of the change, the rights that the MR has and will have both count.
	if err := pd.remote.add(cfg.Access); err != nil {
		return err
	}
	if err := m.moveTo(pd, cfg, mask); err != nil {
		pd.remote.drop(cfg.Access)
		return err
	}
	old := m.pd
	old.remote.drop(m.access)
	m.pd, m.access = pd, cfg.Access
	m.setKeys()
	pd.onDemand.add(m)
	if old != pd {
		return old.detach(kindMR)
	}
	return nil
}

// moveTo has the provider reregister the memory, and counts the MR on the PD if that is another one.
func (m *MR) moveTo(pd *PD, cfg *provider.MRConfig, mask provider.MRMask) error {
	if pd != m.pd {
		if err := pd.attach(kindMR); err != nil {
			return err
		}
	}
	if m.buf == nil {
		if err := pd.addUnmapped(cfg.Access); err != nil {
			if pd != m.pd {
				pd.detach(kindMR)
			}
			return err
		}
	}
	m.pd.onDemand.remove(m)
	if err := m.p.Reregister(cfg, mask); err != nil {
		m.pd.onDemand.add(m)
		if pd != m.pd {
			pd.detach(kindMR)
		}
		return memoryError(m.size, cfg.Access, err)
	}
	return nil
}

// RegDMABuf registers length bytes from offset on of a dma-buf (ibv_reg_dmabuf_mr(3), Linux 5.12).
// A dma-buf is memory of another device, such as a GPU. fd stays the caller's and may be closed.
// Work requests name the first byte by the address iova. Software devices do not support it, and
// the error then wraps errors.ErrUnsupported.
//
// Devices that put short data into completions (mlx5) must not do so for QPs that may receive into
// such memory, because Poll could not copy the data there. With LocalWrite, RegDMABuf disables it
// for all later QPs of the PD and of its SRQs. If it is already enabled for one of these QPs, which
// cannot be changed, the error wraps EBUSY. To avoid it, register first, or set
// QPConfig.NoScatterToCQE. For a connection of package cm, there are two ways. Register on the PD of
// its Resolved or Request before they make the QP, or set the option in Dialer.QP and
// ListenConfig.QP.
func (p *PD) RegDMABuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	mr, err := p.regDMABuf(fd, offset, length, iova, access)
	return mr, p.dev.opError("register dma-buf on", err)
}

func (p *PD) regDMABuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	if length == 0 || int(length) < 0 {
		return nil, fmt.Errorf("%d bytes: %w", length, syscall.EINVAL)
	}
	if err := checkAccess(access); err != nil {
		return nil, err
	}
	if err := p.attachMR(access); err != nil {
		return nil, err
	}
	if err := p.addUnmapped(access); err != nil {
		p.detachMR(access)
		return nil, err
	}
	k, err := p.dev.file.RegDMABufMR(p.p.Handle(), uverbs.DMABuf{FD: fd, Offset: offset, Length: length}, iova, uint32(access))
	if err != nil {
		p.detachMR(access)
		return nil, memoryError(int(length), access, err)
	}
	return newMR(p, provider.KernelObjects{File: p.dev.file}.MR(k), nil, iova, int(length), access), nil
}

// addUnmapped announces to the provider that memory which the program cannot address will be
// registered.
func (p *PD) addUnmapped(access Access) error {
	if u, ok := p.p.(provider.UnmappedPD); ok && access&LocalWrite != 0 {
		return u.AddUnmapped()
	}
	return nil
}

// checkAccess rejects rights that no device accepts.
func checkAccess(access Access) error {
	if access&(RemoteWrite|RemoteAtomic) != 0 && access&LocalWrite == 0 {
		return fmt.Errorf("%v requires LocalWrite: %w", access&(RemoteWrite|RemoteAtomic), syscall.EINVAL)
	}
	return nil
}
