// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Transport is the protocol family of a device: enum ibv_transport_type.
type Transport uint8

// Transports. RoCE devices are TransportIB, with an Ethernet link.
const (
	TransportUnknown Transport = iota
	TransportIB
	TransportIWARP
)

// String returns "IB" or "iWARP".
func (t Transport) String() string {
	switch t {
	case TransportIB:
		return "IB"
	case TransportIWARP:
		return "iWARP"
	}
	return "unknown"
}

// LinkLayer is the link of a port: IBV_LINK_LAYER_... of ibv_query_port(3).
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// String returns "InfiniBand" or "Ethernet".
func (l LinkLayer) String() string {
	switch l {
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return "unspecified"
}

// Device is a reference to an open device (struct ibv_context of
// ibv_open_device(3)). All references to one device, and all their objects,
// share one context of the kernel.
type Device struct {
	*deviceContext
	borrowed bool
	closed   atomic.Bool
}

// Name returns the name of the device, as "rxe0".
func (d *Device) Name() string { return d.info.Name }

// String returns Name.
func (d *Device) String() string { return d.info.Name }

// Index returns the kernel's index of the device, or -1 if the kernel does not report it.
func (d *Device) Index() int { return d.info.Index }

// DriverID returns the kernel driver of the device, for example abi.RDMA_DRIVER_RXE.
func (d *Device) DriverID() abi.DriverID { return d.info.DriverID }

// NodeGUID returns the GUID of the node as a number whose highest byte is the
// first on the wire.
func (d *Device) NodeGUID() uint64 { return d.info.NodeGUID }

// Transport returns the protocol family.
func (d *Device) Transport() Transport {
	switch d.info.NodeType {
	case uverbs.NodeCA, uverbs.NodeSwitch, uverbs.NodeRouter:
		return TransportIB
	case uverbs.NodeRNIC:
		return TransportIWARP
	}
	return TransportUnknown
}

// LinkLayer returns the link of a port, counted from 1. It is LinkUnspecified for a port that does
// not exist, and for a port that the kernel fails to query. A port whose query failed is queried
// again in each call.
func (d *Device) LinkLayer(port uint8) LinkLayer {
	if port == 0 || int(port) > len(d.links) {
		return LinkUnspecified
	}
	if l := LinkLayer(d.links[port-1].Load()); l != LinkUnspecified {
		return l
	}
	return d.queryLink(port)
}

// Attr returns the capabilities of the device when it was opened (ibv_query_device(3)). The caller
// must not change it.
func (d *Device) Attr() *DeviceAttr { return &d.attr }

// Features returns the optional operations and objects that the device supports. It combines the
// responses of the kernel with the abilities of the driver and the transport, and allocates
// nothing.
func (d *Device) Features() Features { return d.ctx.Features() }

// Provider returns the provider's context, for extensions of one vendor. The caller closes objects
// that it makes through the context before the Device.
func (d *Device) Provider() provider.Context { return d.ctx }

// Same reports whether both references have the same context, so that their objects can be used
// together. It is false for a device and its successor of the same name after a removal.
func (d *Device) Same(o *Device) bool { return o != nil && d.deviceContext == o.deviceContext }

// Done returns a channel that is closed when the device has been removed, or has
// reported a fatal error. Close does not close it.
func (d *Device) Done() <-chan struct{} { return d.removed }

// Close releases the reference. It may be called more than once. The context is closed with the
// last reference and the last object of the device. The Device that an object returns as its own
// does not belong to the caller. Closing it does nothing.
func (d *Device) Close() error {
	if d.borrowed || d.closed.Swap(true) {
		return nil
	}
	return d.opError("close", d.unref())
}

// hold takes a reference for a new object.
func (d *Device) hold() error {
	if d.closed.Load() {
		return net.ErrClosed
	}
	return d.ref()
}

// DeviceAttr lists the capabilities of a device (struct ibv_device_attr of ibv_query_device(3)).
type DeviceAttr struct {
	FWVersion       uint64 // of the firmware, in the driver's encoding
	NodeGUID        uint64 // see Device.NodeGUID.
	SysImageGUID    uint64 // of the card, equal for all its devices.
	VendorID        uint32 // of the manufacturer
	VendorPartID    uint32 // of the model, chosen by the manufacturer.
	HWVersion       uint32 // of the hardware, chosen by the manufacturer
	MaxMRSize       uint64 // bytes
	PageSizes       uint64 // bit n: pages of 1<<n bytes
	MaxQP           int
	MaxQPWR         int // requests in one work queue
	MaxSGE          int // the smaller of the next two limits.
	MaxSendSGE      int // elements of one request that is not a READ
	MaxRecvSGE      int // elements of one receive
	MaxSGERd        int // elements of one READ
	MaxCQ           int
	MaxCQE          int // completions in one CQ
	MaxMR           int
	MaxPD           int
	MaxQPRdAtom     int // reads and atomics of peers in flight on one QP
	MaxResRdAtom    int // likewise, on all QPs
	MaxQPInitRdAtom int // outgoing reads and atomics in flight on one QP
	MaxSRQ          int
	MaxSRQWR        int // receives in one SRQ
	MaxSRQSGE       int // elements of one receive of an SRQ
	MaxPKeys        int // in the table of a port
	MaxMW           int // memory windows
	MaxAH           int // address handles
	MaxMcastGroups  int
	MaxMcastQPs     int    // queue pairs in one multicast group
	CapFlags        uint64 // IB_UVERBS_DEVICE_... of rdma/ib_user_verbs.h
	AtomicCap       uint32 // enum ibv_atomic_cap
	LocalCAAckDelay uint8  // a code: 4.096 us times two to the power of it
	Ports           int
	CompVectors     int // interrupts, for CQConfig.Vector

	// Limits of obsolete services. Current drivers report zero.
	MaxEE            int
	MaxEERdAtom      int
	MaxEEInitRdAtom  int
	MaxRDD           int
	MaxRawIPv6QP     int
	MaxRawEthyQP     int
	MaxTotalMcastQPs int // queue pairs in all multicast groups
	MaxFMR           int
	MaxMapPerFMR     int

	// The following fields are zero if the kernel or the driver does not support them.
	ODP           ODPCaps
	TimestampMask uint64        // the bits of a completion's timestamp that count
	CoreClock     uint64        // kHz, of the timestamps
	MaxDMSize     uint64        // bytes of device memory
	MaxCQCount    int           // for CQ.Moderate
	MaxCQPeriod   time.Duration // for CQ.Moderate
	RawPacketCaps uint32        // enum ibv_raw_packet_caps
	MaxWQ         int           // work queues of type RQ
	TagMatching   TMCaps
	RSS           RSSCaps
	Packets       PacketCaps
}

// TMCaps lists the tag matching capabilities (struct ibv_tm_caps of ibv_query_device_ex(3)).
type TMCaps struct {
	MaxRndvHdrSize int // bytes
	MaxTags        int // 0: there is no tag matching
	MaxOps         int
	MaxSGE         int
	Flags          uint32 // enum ibv_tm_cap_flags
}

// RSSCaps lists the capabilities for spreading received packets (struct ibv_rss_caps of
// ibv_query_device_ex(3)). PacketCaps has the fields that can be hashed.
type RSSCaps struct {
	QPTypes      uint32 // bit n: QPs of type n
	MaxTables    int    // indirection tables
	MaxTableSize int
}

// ODPCaps lists the uses of memory with the right OnDemand (struct ibv_odp_caps of
// ibv_query_device_ex(3)).
type ODPCaps struct {
	Implicit        bool   // of the whole address space
	Supported       bool   // at all
	RC, UC, UD, XRC uint32 // ODPSend and so on
}

// Bits of ODPCaps.RC, UC, UD and XRC.
const (
	ODPSend    = abi.IB_UVERBS_ODP_SUPPORT_SEND
	ODPRecv    = abi.IB_UVERBS_ODP_SUPPORT_RECV
	ODPWrite   = abi.IB_UVERBS_ODP_SUPPORT_WRITE
	ODPRead    = abi.IB_UVERBS_ODP_SUPPORT_READ
	ODPAtomic  = abi.IB_UVERBS_ODP_SUPPORT_ATOMIC
	ODPSRQRecv = abi.IB_UVERBS_ODP_SUPPORT_SRQ_RECV
)

// extend adds the results of the extended query.
func (a *DeviceAttr) extend(k *abi.UverbsExQueryDeviceResp) {
	a.CapFlags |= k.DeviceCapFlagsEx
	a.ODP = ODPCaps{
		Supported: k.ODPCaps.GeneralCaps&abi.IB_UVERBS_ODP_SUPPORT != 0,
		Implicit:  k.ODPCaps.GeneralCaps&abi.IB_UVERBS_ODP_SUPPORT_IMPLICIT != 0,
		RC:        k.ODPCaps.RCODPCaps,
		UC:        k.ODPCaps.UCODPCaps,
		UD:        k.ODPCaps.UDODPCaps,
		XRC:       k.XRCODPCaps,
	}
	a.TimestampMask, a.CoreClock = k.TimestampMask, k.HCACoreClock
	a.MaxDMSize = k.MaxDMSize
	a.MaxCQCount = int(k.CQModerationCaps.MaxCQModerationCount)
	a.MaxCQPeriod = time.Duration(k.CQModerationCaps.MaxCQModerationPeriod) * time.Microsecond
	a.RawPacketCaps, a.MaxWQ = k.RawPacketCaps, int(k.MaxWQTypeRQ)
	a.TagMatching = TMCaps{
		MaxRndvHdrSize: int(k.TMCaps.MaxRndvHdrSize),
		MaxTags:        int(k.TMCaps.MaxNumTags),
		MaxOps:         int(k.TMCaps.MaxOps),
		MaxSGE:         int(k.TMCaps.MaxSGE),
		Flags:          k.TMCaps.Flags,
	}
	a.RSS = RSSCaps{QPTypes: k.RSSCaps.SupportedQPTs, MaxTables: int(k.RSSCaps.MaxRWQIndirectionTables), MaxTableSize: int(k.RSSCaps.MaxRWQIndirectionTableSize)}
}

func deviceAttr(k *abi.UverbsQueryDeviceResp) DeviceAttr {
	return DeviceAttr{
		FWVersion:       k.FWVer,
		NodeGUID:        binary.BigEndian.Uint64(k.NodeGUID[:]),
		SysImageGUID:    binary.BigEndian.Uint64(k.SysImageGUID[:]),
		VendorID:        k.VendorID,
		VendorPartID:    k.VendorPartID,
		HWVersion:       k.HWVer,
		MaxMRSize:       k.MaxMRSize,
		PageSizes:       k.PageSizeCap,
		MaxQP:           int(k.MaxQP),
		MaxQPWR:         int(k.MaxQPWR),
		MaxSGE:          int(k.MaxSGE),
		MaxSendSGE:      int(k.MaxSGE),
		MaxRecvSGE:      int(k.MaxSGE),
		MaxSGERd:        int(k.MaxSGERd),
		MaxCQ:           int(k.MaxCQ),
		MaxCQE:          int(k.MaxCQE),
		MaxMR:           int(k.MaxMR),
		MaxPD:           int(k.MaxPD),
		MaxQPRdAtom:     int(k.MaxQPRdAtom),
		MaxResRdAtom:    int(k.MaxResRdAtom),
		MaxQPInitRdAtom: int(k.MaxQPInitRdAtom),
		MaxSRQ:          int(k.MaxSRQ),
		MaxPKeys:        int(k.MaxPKeys),
		MaxSRQWR:        int(k.MaxSRQWR),
		MaxSRQSGE:       int(k.MaxSRQSGE),
		MaxMW:           int(k.MaxMW),
		MaxAH:           int(k.MaxAH),
		MaxMcastGroups:  int(k.MaxMcastGrp),
		MaxMcastQPs:     int(k.MaxMcastQPAttach),
		CapFlags:        uint64(k.DeviceCapFlags),
		AtomicCap:       k.AtomicCap,
		LocalCAAckDelay: k.LocalCAAckDelay,
		Ports:           int(k.PhysPortCnt),

		MaxEE:            int(k.MaxEE),
		MaxEERdAtom:      int(k.MaxEERdAtom),
		MaxEEInitRdAtom:  int(k.MaxEEInitRdAtom),
		MaxRDD:           int(k.MaxRDD),
		MaxRawIPv6QP:     int(k.MaxRawIPv6QP),
		MaxRawEthyQP:     int(k.MaxRawEthyQP),
		MaxTotalMcastQPs: int(k.MaxTotalMcastQPAttach),
		MaxFMR:           int(k.MaxFMR),
		MaxMapPerFMR:     int(k.MaxMapPerFMR),
	}
}
