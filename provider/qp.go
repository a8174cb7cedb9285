// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/netip"

	"purerdma/abi"
	"purerdma/internal/enum"
)

// QPType is the transport service of a QP: enum ib_uverbs_qp_type of
// rdma/ib_user_ioctl_verbs.h.
type QPType uint8

// Transport services.
const (
	RC QPType = abi.IB_UVERBS_QPT_RC // reliable connection
	UC QPType = abi.IB_UVERBS_QPT_UC // unreliable connection
	UD QPType = abi.IB_UVERBS_QPT_UD // unreliable datagram

	RawPacket QPType = abi.IB_UVERBS_QPT_RAW_PACKET // Ethernet frames as they are
	XRCSend   QPType = abi.IB_UVERBS_QPT_XRC_INI    // extended reliable connection, the side that sends
	XRCRecv   QPType = abi.IB_UVERBS_QPT_XRC_TGT    // the side that receives, by SRQs of its XRC domain
)

// String returns the usual name, as "RC".
func (t QPType) String() string {
	return enum.Name(t, "QPType", []string{RC: "RC", UC: "UC", UD: "UD", RawPacket: "RAW_PACKET", XRCSend: "XRC_SEND", XRCRecv: "XRC_RECV"})
}

// QPState is the state of a QP: enum ibv_qp_state of ibv_modify_qp(3).
type QPState uint8

// States of a QP.
const (
	QPReset QPState = iota
	QPInit
	QPRTR  // ready to receive
	QPRTS  // ready to send
	QPSQD  // send queue drains
	QPSQE  // send queue error
	QPErr  // everything posted is flushed
	qpLast = QPErr
)

// String returns the name of the state, as "RTS".
func (s QPState) String() string {
	return enum.Name(s, "QPState", []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"})
}

// Valid reports whether s is one of the states above.
func (s QPState) Valid() bool { return s <= qpLast }

// MTU is a path MTU: enum ibv_mtu of ibv_query_port(3).
type MTU uint8

// Path MTUs, payload bytes of one packet.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the MTU in bytes, 0 for an invalid one.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// String returns the MTU in bytes, as "1024".
func (m MTU) String() string {
	return enum.Name(m, "MTU", []string{MTU256: "256", MTU512: "512", MTU1024: "1024", MTU2048: "2048", MTU4096: "4096"})
}

// MigState is the state of automatic path migration: enum ibv_mig_state of
// ibv_modify_qp(3).
type MigState uint8

// States of path migration.
const (
	MigMigrated MigState = iota
	MigRearm
	MigArmed
)

// String returns the name of the state, as "ARMED".
func (s MigState) String() string {
	return enum.Name(s, "MigState", []string{"MIGRATED", "REARM", "ARMED"})
}

// QPCap holds the capacities of the queues of a QP (struct ibv_qp_cap of ibv_create_qp(3)).
type QPCap struct {
	SendWR  int // outstanding send requests
	RecvWR  int // outstanding receives
	SendSGE int // elements of one send request
	RecvSGE int // elements of one receive
	Inline  int // bytes of SendWR.InlineData
}

// GID is a global identifier. On RoCE it is an IPv6 or an IPv4-mapped address.
type GID [16]byte

// String returns the GID as an IPv6 address.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Addr returns the IP address of a GID of RoCE, an IPv4 address for a mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// GlobalRoute is the routed part of an address (struct ibv_global_route of
// ibv_create_ah(3)).
type GlobalRoute struct {
	DGID         GID
	FlowLabel    uint32
	SGIDIndex    uint8 // of this host's port
	HopLimit     uint8
	TrafficClass uint8
}

// AHAttr is the address of a remote port (struct ibv_ah_attr of ibv_create_ah(3)). On RoCE, Global
// must be set, and the kernel finds the MAC.
type AHAttr struct {
	Global      bool
	GRH         GlobalRoute // counts if Global
	DLID        uint16
	SL          uint8
	SrcPathBits uint8
	StaticRate  uint8
	Port        uint8 // this host's port, from 1
}

// QPAttr holds the attributes of a QP (struct ibv_qp_attr of ibv_modify_qp(3)).
type QPAttr struct {
	State            QPState
	CurState         QPState
	PathMTU          MTU
	PathMigState     MigState
	QKey             uint32
	RQPSN            uint32 // first packet number of receives
	SQPSN            uint32 // first packet number of sends
	DestQPNum        uint32
	Access           Access // rights of the peer
	AH               AHAttr
	AltAH            AHAttr
	Cap              QPCap
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSQDAsyncNotify bool
	SQDraining       bool  // answer of a query
	MaxRdAtomic      uint8 // outgoing reads and atomics in flight
	MaxDestRdAtomic  uint8 // incoming reads and atomics in flight
	MinRNRTimer      uint8 // a code: verbs.EncodeRNRTimer
	Port             uint8
	Timeout          uint8 // a code of the ACK timeout: verbs.EncodeAckTimeout
	RetryCount       uint8
	RNRRetryCount    uint8 // 7: for ever
	AltPort          uint8
	AltTimeout       uint8  // a code like Timeout
	RateLimit        uint32 // kbit/s
}

// QPAttrMask selects fields of a QPAttr: enum ibv_qp_attr_mask of ibv_modify_qp(3).
type QPAttrMask uint32

// Attributes of a QP.
const (
	QPAttrState QPAttrMask = 1 << iota
	QPAttrCurState
	QPAttrEnSQDAsyncNotify
	QPAttrAccess
	QPAttrPKeyIndex
	QPAttrPort
	QPAttrQKey
	QPAttrAV
	QPAttrPathMTU
	QPAttrTimeout
	QPAttrRetryCount
	QPAttrRNRRetryCount
	QPAttrRQPSN
	QPAttrMaxRdAtomic
	QPAttrAltPath
	QPAttrMinRNRTimer
	QPAttrSQPSN
	QPAttrMaxDestRdAtomic
	QPAttrPathMigState
	QPAttrCap
	QPAttrDestQPNum

	QPAttrRateLimit QPAttrMask = 1 << 25
)

var qpAttrNames = bitNames{
	{uint64(QPAttrState), "State"}, {uint64(QPAttrCurState), "CurState"}, {uint64(QPAttrEnSQDAsyncNotify), "EnSQDAsyncNotify"},
	{uint64(QPAttrAccess), "Access"}, {uint64(QPAttrPKeyIndex), "PKeyIndex"}, {uint64(QPAttrPort), "Port"},
	{uint64(QPAttrQKey), "QKey"}, {uint64(QPAttrAV), "AV"}, {uint64(QPAttrPathMTU), "PathMTU"}, {uint64(QPAttrTimeout), "Timeout"},
	{uint64(QPAttrRetryCount), "RetryCount"}, {uint64(QPAttrRNRRetryCount), "RNRRetryCount"}, {uint64(QPAttrRQPSN), "RQPSN"},
	{uint64(QPAttrMaxRdAtomic), "MaxRdAtomic"}, {uint64(QPAttrAltPath), "AltPath"}, {uint64(QPAttrMinRNRTimer), "MinRNRTimer"},
	{uint64(QPAttrSQPSN), "SQPSN"}, {uint64(QPAttrMaxDestRdAtomic), "MaxDestRdAtomic"}, {uint64(QPAttrPathMigState), "PathMigState"},
	{uint64(QPAttrCap), "Cap"}, {uint64(QPAttrDestQPNum), "DestQPNum"}, {uint64(QPAttrRateLimit), "RateLimit"},
}

// String lists the attributes, as "State|PKeyIndex|Port|Access".
func (m QPAttrMask) String() string { return qpAttrNames.format(uint64(m)) }
