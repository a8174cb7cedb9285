// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// IBPathRecData.Flags, from rdma/ib_user_sa.h.
const (
	IB_PATH_GMP             = 1 << 0
	IB_PATH_PRIMARY         = 1 << 1
	IB_PATH_ALTERNATE       = 1 << 2
	IB_PATH_OUTBOUND        = 1 << 3
	IB_PATH_INBOUND         = 1 << 4
	IB_PATH_INBOUND_REVERSE = 1 << 5
	IB_PATH_BIDIRECTIONAL   = IB_PATH_OUTBOUND | IB_PATH_INBOUND_REVERSE
)

// IBPathRecData mirrors struct ib_path_rec_data (rdma/ib_user_sa.h), a path
// record in the form that goes over the wire.
type IBPathRecData struct {
	_        structs.HostLayout
	Flags    uint32
	Reserved uint32
	PathRec  [16]uint32
}

// IBUserPathRec mirrors struct ib_user_path_rec (rdma/ib_user_sa.h), a path
// record in the form that a program reads.
type IBUserPathRec struct {
	_                      structs.HostLayout
	DGID                   [16]uint8
	SGID                   [16]uint8
	DLID                   [2]uint8 // __be16
	SLID                   [2]uint8 // __be16
	RawTraffic             uint32
	FlowLabel              [4]uint8 // __be32
	Reversible             uint32
	MTU                    uint32
	PKey                   [2]uint8 // __be16
	HopLimit               uint8
	TrafficClass           uint8
	NumbPath               uint8
	SL                     uint8
	MTUSelector            uint8
	RateSelector           uint8
	Rate                   uint8
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	Preference             uint8
}

// IBUserServiceRec mirrors struct ib_user_service_rec (rdma/ib_user_sa.h), a service record of the
// subnet administrator. Since Linux 7.3.
type IBUserServiceRec struct {
	_        structs.HostLayout
	ID       [8]uint8 // __be64
	GID      [16]uint8
	PKey     [2]uint8 // __be16
	Reserved [2]uint8
	Lease    [4]uint8 // __be32
	Key      [16]uint8
	Name     [64]uint8
	Data8    [16]uint8
	Data16   [8][2]uint8 // __be16
	Data32   [4][4]uint8 // __be32
	Data64   [2][8]uint8 // __be64
}
