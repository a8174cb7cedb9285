// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// PD is a protection domain. Users counts its objects.
type PD struct {
	Handle uint32
	Number uint32 // the hardware's number
	Users  int
}

// MR is a memory region.
type MR struct {
	Handle     uint32
	PD         *PD
	Mem        []byte
	Addr       uint64 // address of Mem[0] in work requests
	LKey, RKey uint32
	Access     uint32 // IB_UVERBS_ACCESS_...
}

// MW is a memory window.
type MW struct {
	Handle uint32
	PD     *PD
	Type   uint8 // 1 or 2
	RKey   uint32
	// MR is the region to which the window is bound, or nil. Addr, Base, Length and Access describe
	// the bind.
	MR     *MR
	Addr   uint64 // address of the first byte in requests of peers
	Base   uint64 // address of the first byte in MR
	Length uint64
	Access uint32
	QPN    uint32 // number of the QP, for type 2 only
}

func (c *Context) handleMemory() {
	c.Command(abi.IB_USER_VERBS_CMD_ALLOC_PD, c.allocPD)
	c.HandleDestroy(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY, func(req *uverbs.Request) error {
		p := c.PDs[Handle(req, abi.UVERBS_ATTR_DESTROY_PD_HANDLE)]
		switch {
		case p == nil:
			return syscall.ENOENT
		case p.Users > 0:
			return syscall.EBUSY
		}
		if c.Hardware != nil {
			c.Hardware.DeallocPD(p)
		}
		delete(c.PDs, p.Handle)
		return nil
	})
	c.Command(abi.IB_USER_VERBS_CMD_REG_MR, c.regMR)
	c.HandleDestroy(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY, c.deregMR)
}

func (c *Context) handleWindows() {
	c.Command(abi.IB_USER_VERBS_CMD_REREG_MR, c.reregMR)
	c.Command(abi.IB_USER_VERBS_CMD_ALLOC_MW, c.AllocMW)
	c.HandleDestroy(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY, func(req *uverbs.Request) error {
		w := c.MWs[Handle(req, abi.UVERBS_ATTR_DESTROY_MW_HANDLE)]
		if w == nil {
			return syscall.ENOENT
		}
		if c.Hardware != nil {
			c.Hardware.DeallocMW(w)
		}
		w.PD.Users--
		delete(c.MWs, w.Handle)
		return nil
	})
}

func (c *Context) allocPD(cmd *Command) error {
	_, err := c.NewPD(cmd)
	return err
}

// NewPD answers ALLOC_PD, except the driver's part.
func (c *Context) NewPD(cmd *Command) (*PD, error) {
	p := &PD{Handle: c.NewHandle()}
	if c.Hardware != nil {
		if err := c.Hardware.AllocPD(p); err != nil {
			return nil, err
		}
	}
	c.PDs[p.Handle] = p
	Answer(cmd, &abi.UverbsAllocPDResp{PDHandle: p.Handle})
	return p, nil
}

// validAccess reports whether the rights are consistent. A peer may change only memory that the local
// host may change. No fake supports on-demand paging.
func validAccess(access uint32) bool {
	if access&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0 {
		return false
	}
	const remote = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	return access&remote == 0 || access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0
}

func (c *Context) regMR(cmd *Command) error {
	in := Input[abi.UverbsRegMR](cmd)
	p := c.PDs[in.PDHandle]
	if p == nil || in.Length == 0 || !validAccess(in.AccessFlags) {
		return syscall.EINVAL
	}
	m := &MR{Handle: c.NewHandle(), PD: p, Mem: in.Start.Slice(int(in.Length)), Addr: in.HCAVA, Access: in.AccessFlags}
	if c.Hardware == nil {
		m.LKey, m.RKey = c.Keys()
	} else if err := c.Hardware.RegMR(m); err != nil {
		return err
	}
	p.Users++
	c.MRs[m.Handle] = m
	Answer(cmd, &abi.UverbsRegMRResp{MRHandle: m.Handle, LKey: m.LKey, RKey: m.RKey})
	return nil
}

func (c *Context) reregMR(cmd *Command) error {
	in := Input[abi.UverbsReregMR](cmd)
	m := c.MRs[in.MRHandle]
	p := c.PDs[in.PDHandle]
	switch {
	case m == nil || in.Flags == 0 || in.Flags&^(uverbs.ReregTrans|uverbs.ReregPD|uverbs.ReregAccess) != 0,
		in.Flags&uverbs.ReregPD != 0 && p == nil,
		in.Flags&uverbs.ReregTrans != 0 && in.Length == 0,
		in.Flags&uverbs.ReregAccess != 0 && !validAccess(in.AccessFlags):
		return syscall.EINVAL
	case c.bound(m):
		return syscall.EBUSY
	}
	if in.Flags&uverbs.ReregTrans != 0 {
		m.Mem, m.Addr = in.Start.Slice(int(in.Length)), in.HCAVA
	}
	if in.Flags&uverbs.ReregPD != 0 {
		m.PD.Users--
		m.PD = p
		p.Users++
	}
	if in.Flags&uverbs.ReregAccess != 0 {
		m.Access = in.AccessFlags
	}
	if c.Hardware != nil {
		if err := c.Hardware.ReregMR(m); err != nil {
			return err
		}
	}
	Answer(cmd, &abi.UverbsReregMRResp{LKey: m.LKey, RKey: m.RKey})
	return nil
}

// bound reports whether a window is bound to the region.
func (c *Context) bound(m *MR) bool {
	for _, w := range c.MWs {
		if w.MR == m {
			return true
		}
	}
	return false
}

func (c *Context) deregMR(req *uverbs.Request) error {
	m := c.MRs[Handle(req, abi.UVERBS_ATTR_DESTROY_MR_HANDLE)]
	switch {
	case m == nil:
		return syscall.ENOENT
	case c.bound(m):
		return syscall.EBUSY
	}
	if c.Hardware != nil {
		if err := c.Hardware.DeregMR(m); err != nil {
			return err
		}
	}
	m.PD.Users--
	delete(c.MRs, m.Handle)
	return nil
}

// AllocMW answers ALLOC_MW, except the driver's part.
func (c *Context) AllocMW(cmd *Command) error {
	in := Input[abi.UverbsAllocMW](cmd)
	p := c.PDs[in.PDHandle]
	if p == nil || in.MWType != 1 && in.MWType != 2 {
		return syscall.EINVAL
	}
	w := &MW{Handle: c.NewHandle(), PD: p, Type: in.MWType}
	if c.Hardware == nil {
		_, w.RKey = c.Keys()
	} else if err := c.Hardware.AllocMW(w); err != nil {
		return err
	}
	p.Users++
	c.MWs[w.Handle] = w
	Answer(cmd, &abi.UverbsAllocMWResp{MWHandle: w.Handle, RKey: w.RKey})
	return nil
}

// Local returns the memory of an lkey in a work request. It returns nil if the key, the PD, the bounds or
// the rights are wrong.
func (c *Context) Local(p *PD, lkey uint32, addr uint64, length int, access uint32) []byte {
	for _, m := range c.MRs {
		if m.LKey == lkey {
			if m.PD != p || m.Access&access != access {
				return nil
			}
			return m.piece(addr, length)
		}
	}
	return nil
}

// Remote is Local for the rkey in a peer's request. The rkey belongs to a region or to a bound window.
func (c *Context) Remote(p *PD, qpn, rkey uint32, addr uint64, length int, access uint32) []byte {
	for _, w := range c.MWs {
		if w.RKey != rkey || w.MR == nil {
			continue
		}
		off := addr - w.Addr
		if w.PD != p || w.Access&access != access || w.Type == 2 && w.QPN != qpn || off > w.Length || uint64(length) > w.Length-off {
			return nil
		}
		return w.MR.piece(w.Base+off, length)
	}
	for _, m := range c.MRs {
		if m.RKey == rkey {
			if m.PD != p || m.Access&access != access {
				return nil
			}
			return m.piece(addr, length)
		}
	}
	return nil
}

// Has reports whether these bytes are within the region.
func (m *MR) Has(addr, length uint64) bool {
	off := addr - m.Addr
	return off <= uint64(len(m.Mem)) && length <= uint64(len(m.Mem))-off
}

func (m *MR) piece(addr uint64, length int) []byte {
	if length < 0 || !m.Has(addr, uint64(length)) {
		return nil
	}
	off := addr - m.Addr
	return m.Mem[off:][:length:length]
}
