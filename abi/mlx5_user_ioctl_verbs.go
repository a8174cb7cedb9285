// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// enum mlx5_ib_uapi_flow_action_flags of rdma/mlx5_user_ioctl_verbs.h.
const MLX5_IB_UAPI_FLOW_ACTION_FLAGS_REQUIRE_METADATA = 1 << 0

// enum mlx5_ib_uapi_flow_table_type of rdma/mlx5_user_ioctl_verbs.h.
const (
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX = iota
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX // since Linux 7.3
	MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX // since Linux 7.3
)

// enum mlx5_ib_uapi_flow_action_packet_reformat_type of
// rdma/mlx5_user_ioctl_verbs.h.
const (
	MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2 = iota
	MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL
	MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2
	MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL
)

// enum mlx5_ib_uapi_reg_dmabuf_flags of rdma/mlx5_user_ioctl_verbs.h. Since
// Linux 6.12.
const MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT = 1 << 0

// enum mlx5_ib_uapi_dm_type of rdma/mlx5_user_ioctl_verbs.h.
const (
	MLX5_IB_UAPI_DM_TYPE_MEMIC = iota
	MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM
	MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM
	MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM
	MLX5_IB_UAPI_DM_TYPE_ENCAP_SW_ICM // since Linux 6.12
)

// enum mlx5_ib_uapi_devx_create_event_channel_flags of
// rdma/mlx5_user_ioctl_verbs.h.
const MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA = 1 << 0

// enum mlx5_ib_uapi_pp_alloc_flags of rdma/mlx5_user_ioctl_verbs.h.
const MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX = 1 << 0

// enum mlx5_ib_uapi_uar_alloc_type of rdma/mlx5_user_ioctl_verbs.h.
const (
	MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF = iota
	MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
)

// enum mlx5_ib_uapi_query_port_flags of rdma/mlx5_user_ioctl_verbs.h.
const (
	MLX5_IB_UAPI_QUERY_PORT_VPORT                 = 1 << 0
	MLX5_IB_UAPI_QUERY_PORT_VPORT_VHCA_ID         = 1 << 1
	MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_RX = 1 << 2
	MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_TX = 1 << 3
	MLX5_IB_UAPI_QUERY_PORT_VPORT_REG_C0          = 1 << 4
	MLX5_IB_UAPI_QUERY_PORT_ESW_OWNER_VHCA_ID     = 1 << 5
)

// enum mlx5_ib_uapi_var_alloc_flags of rdma/mlx5_user_ioctl_verbs.h. Since
// Linux 7.3.
const MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP = 1 << 0

// Mlx5UapiDevxAsyncCmdHdr mirrors struct mlx5_ib_uapi_devx_async_cmd_hdr
// (rdma/mlx5_user_ioctl_verbs.h) up to its flexible end, the header of the data of an asynchronous
// command file.
type Mlx5UapiDevxAsyncCmdHdr struct {
	_    structs.HostLayout
	WRID uint64
}

// Mlx5UapiDevxAsyncEventHdr mirrors struct mlx5_ib_uapi_devx_async_event_hdr
// (rdma/mlx5_user_ioctl_verbs.h) up to its flexible end, the header of the data of an asynchronous
// event file.
type Mlx5UapiDevxAsyncEventHdr struct {
	_      structs.HostLayout
	Cookie uint64
}

// Mlx5UapiReg mirrors struct mlx5_ib_uapi_reg (rdma/mlx5_user_ioctl_verbs.h), a register of the
// flow steering. It has a value and the mask of its significant bits.
type Mlx5UapiReg struct {
	_     structs.HostLayout
	Value uint32
	Mask  uint32
}

// Mlx5UapiQueryPort mirrors struct mlx5_ib_uapi_query_port (rdma/mlx5_user_ioctl_verbs.h), the port
// in the device's switch.
type Mlx5UapiQueryPort struct {
	_                  structs.HostLayout
	Flags              uint64
	VPort              uint16
	VPortVHCAID        uint16
	ESWOwnerVHCAID     uint16
	Rsvd0              uint16
	VPortSteeringICMRX uint64
	VPortSteeringICMTX uint64
	RegC0              Mlx5UapiReg
}
