// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// PathFlags selects the uses of a path (enum ibv_path_flags, infiniband/sa.h).
type PathFlags uint32

// Uses of a path.
const (
	PathGMP            PathFlags = abi.IB_PATH_GMP
	PathPrimary        PathFlags = abi.IB_PATH_PRIMARY
	PathAlternate      PathFlags = abi.IB_PATH_ALTERNATE
	PathOutbound       PathFlags = abi.IB_PATH_OUTBOUND
	PathInbound        PathFlags = abi.IB_PATH_INBOUND
	PathInboundReverse PathFlags = abi.IB_PATH_INBOUND_REVERSE
	PathBidirectional  PathFlags = abi.IB_PATH_BIDIRECTIONAL
)

// Path is a path between two ports (struct ibv_path_data, infiniband/sa.h; IBTA specification,
// volume 1, 15.2.5.16). The subnet administrator describes it. On RoCE the kernel makes it up.
type Path struct {
	Flags        PathFlags
	ServiceID    uint64
	DGID, SGID   verbs.GID
	DLID, SLID   uint16
	FlowLabel    uint32 // 20 bits
	HopLimit     uint8
	TrafficClass uint8
	Reversible   bool
	NumPath      uint8 // 7 bits
	PKey         uint16
	QoSClass     uint16 // 12 bits
	SL           uint8  // 4 bits
	// MTU, Rate and LifeTime are codes of six bits. Each follows two bits of a selector (0
	// more than, 1 less than, 2 exactly, 3 the largest there is).
	MTU, MTUSelector           uint8
	Rate, RateSelector         uint8
	LifeTime, LifeTimeSelector uint8
	Preference                 uint8
}

// PacketLifeTime returns the longest time that a packet lives on the path. It is 4.096 us
// times two to the power of LifeTime. A LifeTime of 50 means 146 years. A larger one does not
// fit into a Duration and counts as 50.
func (p *Path) PacketLifeTime() time.Duration {
	return 4096 * time.Nanosecond << min(p.LifeTime, 50)
}

// QueryPath returns the paths of the ID (rdma_query_route of ucma, which fills
// cm_id.route.path_rec in C). It is for IDs whose route is resolved, and for connect requests.
// iWARP has no paths.
func (id *ID) QueryPath() ([]Path, error) {
	var paths []Path
	err := id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		recs, err := f.QueryPath(kid)
		for i := range recs {
			paths = append(paths, pathFromKernel(&recs[i]))
		}
		return err
	})
	return paths, err
}

// QueryGID returns the ID's addresses in the form of InfiniBand (RDMA_USER_CM_QUERY_GID;
// rdma_addr.addr.ibaddr of rdma_cma.h). They hold the GIDs of the two ports, and the service
// ID that stands for the port number.
func (id *ID) QueryGID() (local, remote IBAddr, err error) {
	var addrs ucma.Addrs
	err = id.run(opQuery, nil, func(f *ucma.File, kid uint32) error { return f.QueryGID(kid, &addrs) })
	if err != nil {
		return local, remote, err
	}
	resp := addrs.Resp()
	return addrFromKernel(&resp.SrcAddr).IB, addrFromKernel(&resp.DstAddr).IB, nil
}

var errNoPath = fmt.Errorf("no path is given: %w", syscall.EINVAL)

// SetIBPath sets the paths of the ID and replaces ResolveRoute (RDMA_OPTION_IB_PATH,
// rdma_set_option(3)). The address must be resolved. The kernel takes the first path whose
// flags are exactly PathGMP, PathPrimary and PathBidirectional, and ignores the others.
// Without such a path the error wraps EINVAL. The outcome is EventRouteResolved.
func (id *ID) SetIBPath(paths []Path) error {
	if len(paths) == 0 {
		return id.opError(opSetPath, errNoPath)
	}
	recs := make([]abi.IBPathRecData, len(paths))
	for i := range paths {
		recs[i] = paths[i].toKernel()
	}
	value := make([]byte, 0, len(recs)*abi.Size[abi.IBPathRecData]())
	for i := range recs {
		value = append(value, abi.Bytes(&recs[i])...)
	}
	return id.run(opSetPath, to(StateRouteQuery), func(f *ucma.File, kid uint32) error {
		return f.SetOption(kid, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, value)
	})
}

// pathFromKernel decodes the record from its wire format, in network byte order.
func pathFromKernel(k *abi.IBPathRecData) Path {
	b := abi.Bytes(&k.PathRec)
	be := binary.BigEndian
	hop, sl := be.Uint32(b[44:]), be.Uint16(b[52:])
	return Path{
		Flags:            PathFlags(k.Flags),
		ServiceID:        be.Uint64(b),
		DGID:             verbs.GID(b[8:24]),
		SGID:             verbs.GID(b[24:40]),
		DLID:             be.Uint16(b[40:]),
		SLID:             be.Uint16(b[42:]),
		FlowLabel:        hop >> 8 & 0xFFFFF,
		HopLimit:         uint8(hop),
		TrafficClass:     b[48],
		Reversible:       b[49]&0x80 != 0,
		NumPath:          b[49] & 0x7F,
		PKey:             be.Uint16(b[50:]),
		QoSClass:         sl >> 4,
		SL:               uint8(sl & 0xF),
		MTU:              b[54] & 0x3F,
		MTUSelector:      b[54] >> 6,
		Rate:             b[55] & 0x3F,
		RateSelector:     b[55] >> 6,
		LifeTime:         b[56] & 0x3F,
		LifeTimeSelector: b[56] >> 6,
		Preference:       b[57],
	}
}

func (p *Path) toKernel() abi.IBPathRecData {
	k := abi.IBPathRecData{Flags: uint32(p.Flags)}
	b := abi.Bytes(&k.PathRec)
	be := binary.BigEndian
	be.PutUint64(b, p.ServiceID)
	copy(b[8:], p.DGID[:])
	copy(b[24:], p.SGID[:])
	be.PutUint16(b[40:], p.DLID)
	be.PutUint16(b[42:], p.SLID)
	be.PutUint32(b[44:], p.FlowLabel&0xFFFFF<<8|uint32(p.HopLimit))
	b[48] = p.TrafficClass
	b[49] = flag(p.Reversible)<<7 | p.NumPath&0x7F
	be.PutUint16(b[50:], p.PKey)
	be.PutUint16(b[52:], p.QoSClass<<4|uint16(p.SL&0xF))
	b[54] = p.MTUSelector<<6 | p.MTU&0x3F
	b[55] = p.RateSelector<<6 | p.Rate&0x3F
	b[56] = p.LifeTimeSelector<<6 | p.LifeTime&0x3F
	b[57] = p.Preference
	return k
}
