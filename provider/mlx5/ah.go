// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// ah is an address handle. Work requests carry the whole address. The kernel has an object only on
// RoCE, because it resolves the MAC address.
type ah struct {
	file   *uverbs.File
	kernel bool
	handle uint32
	av     addressVector
}

// addressVector is a datagram segment (PRM, "Address Vector") as the numbers of its words of 8
// bytes. Word 0 has the key. Word 1 has the number of the QP, the rate and service level, the path,
// and the LID or UDP port. Word 2 has the MAC after an unused part. Word 3 has the traffic class,
// hop limit and flow after an unused part. Words 4 and 5 have the GID.
type addressVector [6]uint64

// extendedAV marks an address vector that has the GID's segment.
const extendedAV = 1 << 31

// address writes a datagram segment.
func (w *wqe) address(av *addressVector, key uint64, num uint32) {
	for i := 0; i < len(av); i += 2 {
		p := w.next()
		a, b := av[i], av[i+1]
		if i == 0 {
			a, b = key, b|uint64(num|extendedAV)<<32
		}
		put64(p, a)
		put64(unsafe.Add(p, 8), b)
	}
}

// CreateAH makes an address handle. On RoCE the address is global.
func (c *Context) CreateAH(cfg *provider.AHConfig) (provider.AH, error) {
	at := &cfg.Attr
	port, err := c.port(at.Port)
	if err != nil {
		return nil, err
	}
	if !at.Global && (port.ethernet || port.grhRequired) {
		return nil, fmt.Errorf("mlx5: address without a GID on a port that routes by GIDs: %w", syscall.EINVAL)
	}
	if !port.ethernet {
		return &ah{file: c.file, av: ibAddress(at)}, nil
	}
	if !c.caps.createAH {
		return nil, unsupported("a kernel that does not find MAC addresses")
	}
	var sport uint16
	gid, err := c.file.QueryGIDEntry(at.Port, uint32(at.GRH.SGIDIndex))
	if err != nil {
		return nil, fmt.Errorf("GID %d of port %d: %w", at.GRH.SGIDIndex, at.Port, err)
	}
	if gid.GIDType == abi.IB_UVERBS_GID_TYPE_ROCE_V2 {
		sport = sourcePort(at.GRH.FlowLabel)
	}
	var resp abi.Mlx5CreateAHResp
	h, err := c.file.CreateAH(cfg.PD.Handle(), provider.AHAttrToKernel(at), 0, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	return &ah{file: c.file, kernel: true, handle: h, av: roceAddress(at, resp.DMAC, sport)}, nil
}

// ibAddress returns the address vector of an InfiniBand address.
func ibAddress(a *provider.AHAttr) addressVector {
	var av addressVector
	av[1] = uint64(rateCode(a.StaticRate)<<4|a.SL&0xf)<<24 | uint64(a.SrcPathBits&0x7f)<<16 | uint64(a.DLID)
	if a.Global {
		av.route(&a.GRH, 1<<30)
	}
	return av
}

// roceAddress returns the address vector of an address on Ethernet. sport is the
// source port of UDP, of RoCE v2.
func roceAddress(a *provider.AHAttr, mac [6]uint8, sport uint16) addressVector {
	var av addressVector
	av[1] = uint64(rateCode(a.StaticRate)<<4|a.SL&7<<1)<<24 | uint64(sport)
	av[2] = uint64(binary.BigEndian.Uint32(mac[:4]))
	av[3] = uint64(binary.BigEndian.Uint16(mac[4:])) << 48
	av.route(&a.GRH, 0)
	return av
}

// route fills in the routed part. flags are the flags of the word with the flow label.
func (av *addressVector) route(g *provider.GlobalRoute, flags uint32) {
	flow := flags | uint32(g.SGIDIndex)<<20 | g.FlowLabel&flowMask
	av[3] |= uint64(g.TrafficClass)<<40 | uint64(g.HopLimit)<<32 | uint64(flow)
	av[4] = binary.BigEndian.Uint64(g.DGID[:8])
	av[5] = binary.BigEndian.Uint64(g.DGID[8:])
}

// flowMask are the bits of a flow label.
const flowMask = 1<<20 - 1

// sourcePort returns the UDP source port for a flow label, any for 0. Routers distinguish flows by
// it.
func sourcePort(flow uint32) uint16 {
	const first = 0xc000 // of the ports that RoCE v2 may use, up to the last
	if flow &= flowMask; flow == 0 {
		return first | uint16(rand.Uint32())
	}
	return first | uint16(flow&0x3fff^flow>>14)
}

// rateCodes maps enum ibv_rate of ibv_create_ah(3) to the device's codes. Other rates are not
// limited.
var rateCodes = [...]uint8{
	2: 7, 3: 8, 4: 9, 5: 10, 6: 11, 7: 12, 8: 13, 9: 14, 10: 15, 11: 11, 12: 13, 13: 15, 15: 9, 16: 15, 19: 9, 20: 13,
}

func rateCode(rate uint8) uint8 {
	if int(rate) < len(rateCodes) {
		return rateCodes[rate]
	}
	return 0
}

// Close destroys the AH.
func (a *ah) Close() error {
	if !a.kernel {
		return nil
	}
	return a.file.DestroyAH(a.handle)
}
