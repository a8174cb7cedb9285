// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"encoding/binary"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

func (c *context) getContext(req *uverbs.Request) error {
	c.ready = true
	vectors, support := uint32(1), uint64(abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS)
	put(req, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors)
	put(req, abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support)
	return nil
}

func (c *context) queryDevice(_ *uverbs.Request, _, out []byte) error {
	r := abi.UverbsQueryDeviceResp{
		MaxMRSize: 1 << 40, PageSizeCap: 0xfffff000, MaxQP: 1024, MaxQPWR: 4096, MaxSGE: maxSGE, MaxSGERd: maxSGE,
		MaxCQ: 1024, MaxCQE: 32767, MaxMR: 1024, MaxPD: 1024, MaxQPRdAtom: 128, MaxResRdAtom: 1 << 16, MaxQPInitRdAtom: 128,
		MaxSRQ: 1024, MaxSRQWR: 4096, MaxSRQSGE: maxSGE, MaxPKeys: 1, PhysPortCnt: 1,
	}
	binary.BigEndian.PutUint64(r.NodeGUID[:], c.info.NodeGUID)
	binary.BigEndian.PutUint64(r.SysImageGUID[:], c.info.NodeGUID)
	copy(out, abi.Bytes(&r))
	return nil
}

func (c *context) queryPort(req *uverbs.Request) error {
	if value(req, abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1 {
		return syscall.EINVAL
	}
	r := abi.UverbsQueryPortRespEx{LegacyResp: abi.UverbsQueryPortResp{
		State: 4, MaxMTU: 5, ActiveMTU: 3, MaxMsgSz: 1 << 23, GIDTblLen: 1024, PKeyTblLen: 1, PhysState: 5,
		LinkLayer: 2, // Ethernet
		Flags:     abi.IB_UVERBS_QPF_GRH_REQUIRED,
	}}
	put(req, abi.UVERBS_ATTR_QUERY_PORT_RESP, &r)
	return nil
}

func (c *context) queryGIDTable(req *uverbs.Request) error {
	g := abi.UverbsGIDEntry{PortNum: 1, GIDType: abi.IB_UVERBS_GID_TYPE_ROCE_V2}
	g.GID[10], g.GID[11], g.GID[12], g.GID[15] = 0xff, 0xff, 10, byte(c.info.Index+1) // 10.0.0.n
	n := uint64(1)
	put(req, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &g)
	put(req, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
	return nil
}

// pd is a protection domain.
type pd struct{ users int }

func (c *context) allocPD(_ *uverbs.Request, _, out []byte) error {
	r := abi.UverbsAllocPDResp{PDHandle: c.newHandle()}
	c.pds[r.PDHandle] = &pd{}
	copy(out, abi.Bytes(&r))
	return nil
}

func (c *context) deallocPD(req *uverbs.Request) error {
	h := uint32(value(req, abi.UVERBS_ATTR_DESTROY_PD_HANDLE))
	p := c.pds[h]
	if p == nil {
		return syscall.ENOENT
	}
	if p.users > 0 {
		return syscall.EBUSY
	}
	delete(c.pds, h)
	return nil
}

// mr is a memory region. Its key is both its lkey and its rkey.
type mr struct {
	pd     *pd
	mem    []byte
	addr   uint64
	key    uint32
	access uint32
}

func (c *context) regMR(_ *uverbs.Request, in, out []byte) error {
	cmd := abi.View[abi.UverbsRegMR](in)
	p := c.pds[cmd.PDHandle]
	remote := uint32(abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	if p == nil || cmd.Length == 0 ||
		cmd.AccessFlags&remote != 0 && cmd.AccessFlags&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0 {
		return syscall.EINVAL
	}
	p.users++
	c.k.lastKey += 0x100
	h := c.newHandle()
	c.mrs[h] = &mr{pd: p, mem: cmd.Start.Slice(int(cmd.Length)), addr: cmd.HCAVA, key: c.k.lastKey, access: cmd.AccessFlags}
	r := abi.UverbsRegMRResp{MRHandle: h, LKey: c.k.lastKey, RKey: c.k.lastKey}
	copy(out, abi.Bytes(&r))
	return nil
}

func (c *context) deregMR(req *uverbs.Request) error {
	h := uint32(value(req, abi.UVERBS_ATTR_DESTROY_MR_HANDLE))
	m := c.mrs[h]
	if m == nil {
		return syscall.ENOENT
	}
	m.pd.users--
	delete(c.mrs, h)
	return nil
}

// memory returns a piece of registered memory, nil if the key, the PD, the
// bounds or the rights are wrong.
func (c *context) memory(p *pd, key uint32, addr uint64, length int, access uint32) []byte {
	for _, m := range c.mrs {
		if m.key != key || m.pd != p || m.access&access != access {
			continue
		}
		off := addr - m.addr
		if off > uint64(len(m.mem)) || uint64(length) > uint64(len(m.mem))-off {
			return nil
		}
		return m.mem[off : off+uint64(length)]
	}
	return nil
}
