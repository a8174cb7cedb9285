// SPDX-License-Identifier: Apache-2.0

package provider

// PacketCaps lists the capabilities of a device for whole packets that programs write and read. The
// kernel does not define them. Drivers report them in their own data, which libibverbs' providers
// add to the results of ibv_query_device_ex(3).
type PacketCaps struct {
	MaxTSO        uint32 // bytes of one OpLSO. 0 if the device does not segment (struct ibv_tso_caps).
	TSOQPTypes    uint32 // bit n is set for QPs of type n
	HashFunctions uint8  // for spreading received packets: enum ibv_rx_hash_function_flags.
	HashFields    uint64 // fields that can be hashed: enum ibv_rx_hash_fields.
	RateMin       uint32 // kbit/s of a QP that has a rate (struct ibv_packet_pacing_caps)
	RateMax       uint32 // kbit/s; 0: none can have one
	RateQPTypes   uint32 // bit n: QPs of type n
}

// PacketDevice is a Context whose driver reports these capabilities.
type PacketDevice interface {
	PacketCaps() PacketCaps
}
