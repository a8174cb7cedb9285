// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// UverbsFlowSpecHdr mirrors struct ib_uverbs_flow_spec_hdr (rdma/ib_user_verbs.h), the header of
// each spec of a flow.
type UverbsFlowSpecHdr struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
}

// UverbsFlowEthFilter mirrors struct ib_uverbs_flow_eth_filter
// (rdma/ib_user_verbs.h), values or masks of the Ethernet header.
type UverbsFlowEthFilter struct {
	_         structs.HostLayout
	DstMAC    [6]uint8
	SrcMAC    [6]uint8
	EtherType [2]uint8 // __be16
	VLANTag   [2]uint8 // __be16
}

// UverbsFlowSpecEth mirrors struct ib_uverbs_flow_spec_eth
// (rdma/ib_user_verbs.h), the spec of the Ethernet header.
type UverbsFlowSpecEth struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowEthFilter
	Mask     UverbsFlowEthFilter
}

// UverbsFlowIPv4Filter mirrors struct ib_uverbs_flow_ipv4_filter
// (rdma/ib_user_verbs.h), values or masks of the IPv4 header.
type UverbsFlowIPv4Filter struct {
	_     structs.HostLayout
	SrcIP [4]uint8 // __be32
	DstIP [4]uint8 // __be32
	Proto uint8
	TOS   uint8
	TTL   uint8
	Flags uint8
}

// UverbsFlowSpecIPv4 mirrors struct ib_uverbs_flow_spec_ipv4
// (rdma/ib_user_verbs.h), the spec of the IPv4 header.
type UverbsFlowSpecIPv4 struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowIPv4Filter
	Mask     UverbsFlowIPv4Filter
}

// UverbsFlowTCPUDPFilter mirrors struct ib_uverbs_flow_tcp_udp_filter
// (rdma/ib_user_verbs.h), values or masks of the TCP or UDP header.
type UverbsFlowTCPUDPFilter struct {
	_       structs.HostLayout
	DstPort [2]uint8 // __be16
	SrcPort [2]uint8 // __be16
}

// UverbsFlowSpecTCPUDP mirrors struct ib_uverbs_flow_spec_tcp_udp
// (rdma/ib_user_verbs.h), the spec of the TCP or UDP header.
type UverbsFlowSpecTCPUDP struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowTCPUDPFilter
	Mask     UverbsFlowTCPUDPFilter
}

// UverbsFlowIPv6Filter mirrors struct ib_uverbs_flow_ipv6_filter
// (rdma/ib_user_verbs.h), values or masks of the IPv6 header.
type UverbsFlowIPv6Filter struct {
	_            structs.HostLayout
	SrcIP        [16]uint8
	DstIP        [16]uint8
	FlowLabel    [4]uint8 // __be32
	NextHdr      uint8
	TrafficClass uint8
	HopLimit     uint8
	Reserved     uint8
}

// UverbsFlowSpecIPv6 mirrors struct ib_uverbs_flow_spec_ipv6
// (rdma/ib_user_verbs.h), the spec of the IPv6 header.
type UverbsFlowSpecIPv6 struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowIPv6Filter
	Mask     UverbsFlowIPv6Filter
}

// UverbsFlowSpecActionTag mirrors struct ib_uverbs_flow_spec_action_tag
// (rdma/ib_user_verbs.h), the spec that marks packets.
type UverbsFlowSpecActionTag struct {
	_         structs.HostLayout
	Type      uint32
	Size      uint16
	Reserved  uint16
	TagID     uint32
	Reserved1 uint32
}

// UverbsFlowSpecActionDrop mirrors struct ib_uverbs_flow_spec_action_drop
// (rdma/ib_user_verbs.h), the spec that drops packets.
type UverbsFlowSpecActionDrop struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
}

// UverbsFlowSpecActionHandle mirrors struct ib_uverbs_flow_spec_action_handle
// (rdma/ib_user_verbs.h), the spec that applies a flow action.
type UverbsFlowSpecActionHandle struct {
	_         structs.HostLayout
	Type      uint32
	Size      uint16
	Reserved  uint16
	Handle    uint32
	Reserved1 uint32
}

// UverbsFlowSpecActionCount mirrors struct ib_uverbs_flow_spec_action_count
// (rdma/ib_user_verbs.h), the spec that counts packets.
type UverbsFlowSpecActionCount struct {
	_         structs.HostLayout
	Type      uint32
	Size      uint16
	Reserved  uint16
	Handle    uint32
	Reserved1 uint32
}

// UverbsFlowTunnelFilter mirrors struct ib_uverbs_flow_tunnel_filter
// (rdma/ib_user_verbs.h), values or masks of the VXLAN header.
type UverbsFlowTunnelFilter struct {
	_        structs.HostLayout
	TunnelID [4]uint8 // __be32
}

// UverbsFlowSpecTunnel mirrors struct ib_uverbs_flow_spec_tunnel
// (rdma/ib_user_verbs.h), the spec of the VXLAN header.
type UverbsFlowSpecTunnel struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowTunnelFilter
	Mask     UverbsFlowTunnelFilter
}

// UverbsFlowSpecESPFilter mirrors struct ib_uverbs_flow_spec_esp_filter
// (rdma/ib_user_verbs.h), values or masks of the ESP header.
type UverbsFlowSpecESPFilter struct {
	_   structs.HostLayout
	SPI uint32
	Seq uint32
}

// UverbsFlowSpecESP mirrors struct ib_uverbs_flow_spec_esp
// (rdma/ib_user_verbs.h), the spec of the ESP header.
type UverbsFlowSpecESP struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowSpecESPFilter
	Mask     UverbsFlowSpecESPFilter
}

// UverbsFlowGREFilter mirrors struct ib_uverbs_flow_gre_filter
// (rdma/ib_user_verbs.h), values or masks of the GRE header.
type UverbsFlowGREFilter struct {
	_          structs.HostLayout
	CKsRes0Ver [2]uint8 // __be16
	Protocol   [2]uint8 // __be16
	Key        [4]uint8 // __be32
}

// UverbsFlowSpecGRE mirrors struct ib_uverbs_flow_spec_gre
// (rdma/ib_user_verbs.h), the spec of the GRE header.
type UverbsFlowSpecGRE struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowGREFilter
	Mask     UverbsFlowGREFilter
}

// UverbsFlowMPLSFilter mirrors struct ib_uverbs_flow_mpls_filter
// (rdma/ib_user_verbs.h), values or masks of the MPLS label.
type UverbsFlowMPLSFilter struct {
	_     structs.HostLayout
	Label [4]uint8 // __be32
}

// UverbsFlowSpecMPLS mirrors struct ib_uverbs_flow_spec_mpls
// (rdma/ib_user_verbs.h), the spec of the MPLS label.
type UverbsFlowSpecMPLS struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	Reserved uint16
	Val      UverbsFlowMPLSFilter
	Mask     UverbsFlowMPLSFilter
}

// UverbsFlowAttr mirrors struct ib_uverbs_flow_attr (rdma/ib_user_verbs.h) up
// to its flexible end, a flow: which packets, in Size bytes of specs, go to a
// QP.
type UverbsFlowAttr struct {
	_          structs.HostLayout
	Type       uint32
	Size       uint16
	Priority   uint16
	NumOfSpecs uint8
	Reserved   [2]uint8
	Port       uint8
	Flags      uint32
}

// UverbsCreateFlow mirrors struct ib_uverbs_create_flow (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_EX_CMD_CREATE_FLOW.
type UverbsCreateFlow struct {
	_        structs.HostLayout
	CompMask uint32
	QPHandle uint32
	FlowAttr UverbsFlowAttr
}

// UverbsCreateFlowResp mirrors struct ib_uverbs_create_flow_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_CREATE_FLOW.
type UverbsCreateFlowResp struct {
	_          structs.HostLayout
	CompMask   uint32
	FlowHandle uint32
}

// UverbsDestroyFlow mirrors struct ib_uverbs_destroy_flow
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_DESTROY_FLOW.
type UverbsDestroyFlow struct {
	_          structs.HostLayout
	CompMask   uint32
	FlowHandle uint32
}
