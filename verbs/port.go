// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"syscall"

	"purerdma/abi"
)

// PortState is the state of a port: enum ibv_port_state of ibv_query_port(3).
type PortState uint8

// States of a port.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// String returns the name, as "ACTIVE".
func (s PortState) String() string {
	switch s {
	case PortDown:
		return "DOWN"
	case PortInit:
		return "INIT"
	case PortArmed:
		return "ARMED"
	case PortActive:
		return "ACTIVE"
	}
	return fmt.Sprintf("PortState(%d)", uint8(s))
}

// PortAttr holds the current attributes of a port (struct ibv_port_attr of ibv_query_port(3)).
type PortAttr struct {
	State         PortState // connections need PortActive.
	MaxMTU        MTU       // that the port supports
	ActiveMTU     MTU       // of the link, the largest for a QP.
	LinkLayer     LinkLayer
	GIDTableLen   int    // entries, also empty ones.
	PKeyTableLen  int    // likewise
	MaxMessage    uint32 // bytes
	LID           uint16 // of the port on InfiniBand, 0 elsewhere.
	SubnetTimeout uint8  // a code: 4.096 us times two to the power of it.
	GRHRequired   bool   // addresses must be Global

	PhysState      uint8  // enum ib_port_phys_state. 5 is link up.
	ActiveWidth    uint8  // of the link: enum ib_port_width, a bit.
	ActiveSpeed    uint8  // of a lane, one bit of enum ib_port_speed
	CapFlags       uint32 // enum ibv_port_cap_flags
	CapFlags2      uint16 // enum ibv_port_cap_flags2
	LMC            uint8  // log2 of how many LIDs the port has
	SMLID          uint16 // of the subnet manager
	SMSL           uint8  // service level of packets to it.
	MaxVLNum       uint8  // a code: ibv_query_port(3)
	InitTypeReply  uint8  // how the subnet manager initialized the port.
	BadPKeys       uint32 // packets that had a wrong P_Key
	QKeyViolations uint32 // packets that had a wrong Q_Key
}

// QueryPort queries the attributes of a port, counted from 1, from the kernel.
func (d *Device) QueryPort(port uint8) (PortAttr, error) {
	if err := d.checkPort("port", port); err != nil {
		return PortAttr{}, d.opError("query port of", err)
	}
	r, err := d.file.QueryPort(port)
	if err != nil {
		return PortAttr{}, d.opError("query port of", fmt.Errorf("port %d: %w", port, err))
	}
	k := &r.LegacyResp
	return PortAttr{
		State:         PortState(k.State),
		MaxMTU:        MTU(k.MaxMTU),
		ActiveMTU:     MTU(k.ActiveMTU),
		LinkLayer:     LinkLayer(k.LinkLayer),
		GIDTableLen:   int(k.GIDTblLen),
		PKeyTableLen:  int(k.PKeyTblLen),
		MaxMessage:    k.MaxMsgSz,
		LID:           k.LID,
		SubnetTimeout: k.SubnetTimeout,
		GRHRequired:   k.Flags&abi.IB_UVERBS_QPF_GRH_REQUIRED != 0,

		PhysState:      k.PhysState,
		ActiveWidth:    k.ActiveWidth,
		ActiveSpeed:    k.ActiveSpeed,
		CapFlags:       k.PortCapFlags,
		CapFlags2:      r.PortCapFlags2,
		LMC:            k.LMC,
		SMLID:          k.SMLID,
		SMSL:           k.SMSL,
		MaxVLNum:       k.MaxVLNum,
		InitTypeReply:  k.InitTypeReply,
		BadPKeys:       k.BadPKeyCntr,
		QKeyViolations: k.QKeyViolCntr,
	}, nil
}

// GIDType is the packet format that a GID selects: enum ibv_gid_type of ibv_query_gid_ex(3).
type GIDType uint8

// Types of GIDs.
const (
	GIDTypeIB     GIDType = abi.IB_UVERBS_GID_TYPE_IB
	GIDTypeRoCEv1 GIDType = abi.IB_UVERBS_GID_TYPE_ROCE_V1
	GIDTypeRoCEv2 GIDType = abi.IB_UVERBS_GID_TYPE_ROCE_V2
)

// String returns the name in the kernel's files in sysfs, as "RoCE v2".
func (t GIDType) String() string {
	switch t {
	case GIDTypeIB:
		return "IB"
	case GIDTypeRoCEv1:
		return "RoCE v1"
	case GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return fmt.Sprintf("GIDType(%d)", uint8(t))
}

// GIDEntry is one valid entry of a port's GID table (struct ibv_gid_entry of
// ibv_query_gid_ex(3)).
type GIDEntry struct {
	GID     GID
	Port    uint8
	Index   uint8 // what GlobalRoute.SGIDIndex names
	Type    GIDType
	Ifindex int // of the network interface, 0 if there is none
}

// GID returns one entry of a port's GID table (ibv_query_gid_ex(3), Linux 5.10). Ports count from
// 1. The error for an entry that is not valid wraps ENODATA.
func (d *Device) GID(port uint8, index int) (GIDEntry, error) {
	if index < 0 || index > 255 {
		return GIDEntry{}, d.opError("query GID of", fmt.Errorf("index %d: %w", index, syscall.EINVAL))
	}
	g, err := d.file.QueryGIDEntry(port, uint32(index))
	if err != nil {
		return GIDEntry{}, d.opError("query GID of", fmt.Errorf("port %d, index %d: %w", port, index, err))
	}
	return gidEntry(&g), nil
}

func gidEntry(g *abi.UverbsGIDEntry) GIDEntry {
	return GIDEntry{GID: g.GID, Port: uint8(g.PortNum), Index: uint8(g.GIDIndex), Type: GIDType(g.GIDType), Ifindex: int(g.NetdevIfindex)}
}

// GIDs returns the valid GIDs of all ports (ibv_query_gid_table(3), Linux 5.10).
func (d *Device) GIDs() ([]GIDEntry, error) {
	// QPs can name up to 256 entries of a table, because indices are bytes.
	raw, err := d.file.QueryGIDTable(256 * max(1, len(d.links)))
	if err != nil {
		return nil, d.opError("query GIDs of", err)
	}
	gids := make([]GIDEntry, len(raw))
	for i := range raw {
		gids[i] = gidEntry(&raw[i])
	}
	return gids, nil
}
