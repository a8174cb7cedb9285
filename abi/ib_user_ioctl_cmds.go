// SPDX-License-Identifier: Apache-2.0

package abi

// Namespace of attributes that carry a driver's own data, from
// rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ID_NS_MASK  = 0xf000
	UVERBS_ID_NS_SHIFT = 12

	UVERBS_UDATA_DRIVER_DATA_NS   = 1
	UVERBS_UDATA_DRIVER_DATA_FLAG = 1 << UVERBS_ID_NS_SHIFT

	UVERBS_ATTR_UHW_IN  = UVERBS_UDATA_DRIVER_DATA_FLAG
	UVERBS_ATTR_UHW_OUT = UVERBS_UDATA_DRIVER_DATA_FLAG + 1
)

// enum uverbs_default_objects of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_OBJECT_DEVICE = iota
	UVERBS_OBJECT_PD
	UVERBS_OBJECT_COMP_CHANNEL
	UVERBS_OBJECT_CQ
	UVERBS_OBJECT_QP
	UVERBS_OBJECT_SRQ
	UVERBS_OBJECT_AH
	UVERBS_OBJECT_MR
	UVERBS_OBJECT_MW
	UVERBS_OBJECT_FLOW
	UVERBS_OBJECT_XRCD
	UVERBS_OBJECT_RWQ_IND_TBL
	UVERBS_OBJECT_WQ
	UVERBS_OBJECT_FLOW_ACTION
	UVERBS_OBJECT_DM
	UVERBS_OBJECT_COUNTERS
	UVERBS_OBJECT_ASYNC_EVENT
)

// enum uverbs_methods_device of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_INVOKE_WRITE = iota
	UVERBS_METHOD_INFO_HANDLES
	UVERBS_METHOD_QUERY_PORT
	UVERBS_METHOD_GET_CONTEXT
	UVERBS_METHOD_QUERY_CONTEXT
	UVERBS_METHOD_QUERY_GID_TABLE
	UVERBS_METHOD_QUERY_GID_ENTRY
)

// enum uverbs_attrs_invoke_write_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_CORE_IN = iota
	UVERBS_ATTR_CORE_OUT
	UVERBS_ATTR_WRITE_CMD
)

// enum uverbs_attrs_query_port_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_QUERY_PORT_PORT_NUM = iota
	UVERBS_ATTR_QUERY_PORT_RESP
)

// enum uverbs_attrs_get_context_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS = iota
	UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT
)

// enum uverbs_attrs_query_gid_table_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE = iota
	UVERBS_ATTR_QUERY_GID_TABLE_FLAGS
	UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES
)

// enum uverbs_methods_cq of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_CQ_CREATE = iota
	UVERBS_METHOD_CQ_DESTROY
)

// enum uverbs_attrs_create_cq_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_CREATE_CQ_HANDLE = iota
	UVERBS_ATTR_CREATE_CQ_CQE
	UVERBS_ATTR_CREATE_CQ_USER_HANDLE
	UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL
	UVERBS_ATTR_CREATE_CQ_COMP_VECTOR
	UVERBS_ATTR_CREATE_CQ_FLAGS
	UVERBS_ATTR_CREATE_CQ_RESP_CQE
	UVERBS_ATTR_CREATE_CQ_EVENT_FD
)

// enum uverbs_attrs_destroy_cq_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_DESTROY_CQ_HANDLE = iota
	UVERBS_ATTR_DESTROY_CQ_RESP
)

// enum uverbs_methods_qp of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_QP_CREATE = iota
	UVERBS_METHOD_QP_DESTROY
)

// enum uverbs_attrs_create_qp_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_CREATE_QP_HANDLE = iota
	UVERBS_ATTR_CREATE_QP_XRCD_HANDLE
	UVERBS_ATTR_CREATE_QP_PD_HANDLE
	UVERBS_ATTR_CREATE_QP_SRQ_HANDLE
	UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE
	UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE
	UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE
	UVERBS_ATTR_CREATE_QP_USER_HANDLE
	UVERBS_ATTR_CREATE_QP_CAP
	UVERBS_ATTR_CREATE_QP_TYPE
	UVERBS_ATTR_CREATE_QP_FLAGS
	UVERBS_ATTR_CREATE_QP_SOURCE_QPN
	UVERBS_ATTR_CREATE_QP_EVENT_FD
	UVERBS_ATTR_CREATE_QP_RESP_CAP
	UVERBS_ATTR_CREATE_QP_RESP_QP_NUM
)

// enum uverbs_attrs_destroy_qp_cmd_attr_ids of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_ATTR_DESTROY_QP_HANDLE = iota
	UVERBS_ATTR_DESTROY_QP_RESP
)

// enum uverbs_methods_pd and uverbs_attrs_pd_destroy_ids of
// rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_PD_DESTROY = 0

	UVERBS_ATTR_DESTROY_PD_HANDLE = 0
)

// enum uverbs_methods_mr of rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_DM_MR_REG = iota
	UVERBS_METHOD_MR_DESTROY
	UVERBS_METHOD_ADVISE_MR
	UVERBS_METHOD_QUERY_MR
	UVERBS_METHOD_REG_DMABUF_MR
)

// enum uverbs_attrs_mr_destroy_ids of rdma/ib_user_ioctl_cmds.h.
const UVERBS_ATTR_DESTROY_MR_HANDLE = 0

// enum uverbs_method_async_event and uverbs_attrs_async_event_create of
// rdma/ib_user_ioctl_cmds.h.
const (
	UVERBS_METHOD_ASYNC_EVENT_ALLOC = 0

	UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE = 0
)
