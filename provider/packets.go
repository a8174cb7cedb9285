// SPDX-License-Identifier: Apache-2.0

package provider

// PacketCaps is what a device does for packets that programs write, and read, whole.
// The kernel leaves it to drivers' own answers, which libibverbs' providers add to those
// of ibv_query_device_ex(3).
type PacketCaps struct {
	MaxTSO        uint32 // bytes of one OpLSO; 0: the device does not cut them (struct ibv_tso_caps)
	TSOQPTypes    uint32 // bit n: QPs of type n
	HashFunctions uint8  // that spread what is received: enum ibv_rx_hash_function_flags
	HashFields    uint64 // that can be hashed: enum ibv_rx_hash_fields
	RateMin       uint32 // kbit/s of a QP that has a rate (struct ibv_packet_pacing_caps)
	RateMax       uint32 // kbit/s; 0: none can have one
	RateQPTypes   uint32 // bit n: QPs of type n
}

// PacketDevice is a Context whose driver says such things.
type PacketDevice interface {
	PacketCaps() PacketCaps
}
