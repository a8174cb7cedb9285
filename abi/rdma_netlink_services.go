// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// Versions and limits of the iWARP port mapper, from rdma/rdma_netlink.h.
const (
	IWPM_UABI_VERSION_MIN       = 3
	IWPM_UABI_VERSION           = 4
	IWPM_NLA_MAPINFO_SEND_MAX   = 3
	IWPM_NLA_REMOVE_MAPPING_MAX = 3
)

// RDMA_NL_LS_F_ERR is a flag of the local service's answers: there is no path.
const RDMA_NL_LS_F_ERR = 0x0100

// LS_DEVICE_NAME_MAX is the size of LSResolveHeader.DeviceName.
const LS_DEVICE_NAME_MAX = 64

// Flags of IWPM_NLA_MANAGE_FLAGS, from rdma/rdma_netlink.h.
const IWPM_FLAGS_NO_PORT_MAP = 1 << 0

// Operations of RDMA_NL_IWCM, the iWARP port mapper, from rdma/rdma_netlink.h.
const (
	RDMA_NL_IWPM_REG_PID = iota
	RDMA_NL_IWPM_ADD_MAPPING
	RDMA_NL_IWPM_QUERY_MAPPING
	RDMA_NL_IWPM_REMOVE_MAPPING
	RDMA_NL_IWPM_REMOTE_INFO
	RDMA_NL_IWPM_HANDLE_ERR
	RDMA_NL_IWPM_MAPINFO
	RDMA_NL_IWPM_MAPINFO_NUM
	RDMA_NL_IWPM_HELLO
)

// Attributes of RDMA_NL_IWPM_REG_PID, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_REG_PID_UNSPEC = iota
	IWPM_NLA_REG_PID_SEQ
	IWPM_NLA_REG_IF_NAME
	IWPM_NLA_REG_IBDEV_NAME
	IWPM_NLA_REG_ULIB_NAME
)

// Attributes of the answer to RDMA_NL_IWPM_REG_PID, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_RREG_PID_UNSPEC = iota
	IWPM_NLA_RREG_PID_SEQ
	IWPM_NLA_RREG_IBDEV_NAME
	IWPM_NLA_RREG_ULIB_NAME
	IWPM_NLA_RREG_ULIB_VER
	IWPM_NLA_RREG_PID_ERR
)

// Attributes of RDMA_NL_IWPM_ADD_MAPPING and RDMA_NL_IWPM_REMOVE_MAPPING, from
// rdma/rdma_netlink.h.
const (
	IWPM_NLA_MANAGE_MAPPING_UNSPEC = iota
	IWPM_NLA_MANAGE_MAPPING_SEQ
	IWPM_NLA_MANAGE_ADDR
	IWPM_NLA_MANAGE_FLAGS
)

// Attributes of the answer to RDMA_NL_IWPM_ADD_MAPPING, from
// rdma/rdma_netlink.h.
const (
	IWPM_NLA_RMANAGE_MAPPING_UNSPEC  = 0
	IWPM_NLA_RMANAGE_MAPPING_SEQ     = 1
	IWPM_NLA_RMANAGE_ADDR            = 2
	IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR = 3
	IWPM_NLA_MANAGE_MAPPED_LOC_ADDR  = 3
	IWPM_NLA_RMANAGE_MAPPING_ERR     = 4
)

// Attributes of RDMA_NL_IWPM_QUERY_MAPPING, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_QUERY_MAPPING_UNSPEC = iota
	IWPM_NLA_QUERY_MAPPING_SEQ
	IWPM_NLA_QUERY_LOCAL_ADDR
	IWPM_NLA_QUERY_REMOTE_ADDR
	IWPM_NLA_QUERY_FLAGS
)

// Attributes of the answer to RDMA_NL_IWPM_QUERY_MAPPING, and of
// RDMA_NL_IWPM_REMOTE_INFO, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_RQUERY_MAPPING_UNSPEC = iota
	IWPM_NLA_RQUERY_MAPPING_SEQ
	IWPM_NLA_RQUERY_LOCAL_ADDR
	IWPM_NLA_RQUERY_REMOTE_ADDR
	IWPM_NLA_RQUERY_MAPPED_LOC_ADDR
	IWPM_NLA_RQUERY_MAPPED_REM_ADDR
	IWPM_NLA_RQUERY_MAPPING_ERR
)

// Attributes of the request for RDMA_NL_IWPM_MAPINFO, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_MAPINFO_REQ_UNSPEC = iota
	IWPM_NLA_MAPINFO_ULIB_NAME
	IWPM_NLA_MAPINFO_ULIB_VER
)

// Attributes of RDMA_NL_IWPM_MAPINFO, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_MAPINFO_UNSPEC = iota
	IWPM_NLA_MAPINFO_LOCAL_ADDR
	IWPM_NLA_MAPINFO_MAPPED_ADDR
	IWPM_NLA_MAPINFO_FLAGS
)

// Attributes of RDMA_NL_IWPM_MAPINFO_NUM, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_MAPINFO_NUM_UNSPEC = iota
	IWPM_NLA_MAPINFO_SEQ
	IWPM_NLA_MAPINFO_SEND_NUM
	IWPM_NLA_MAPINFO_ACK_NUM
)

// Attributes of RDMA_NL_IWPM_HANDLE_ERR, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_ERR_UNSPEC = iota
	IWPM_NLA_ERR_SEQ
	IWPM_NLA_ERR_CODE
)

// Attributes of RDMA_NL_IWPM_HELLO, from rdma/rdma_netlink.h.
const (
	IWPM_NLA_HELLO_UNSPEC = iota
	IWPM_NLA_HELLO_ABI_VERSION
)

// Operations of RDMA_NL_LS, the local service that resolves paths, from
// rdma/rdma_netlink.h.
const (
	RDMA_NL_LS_OP_RESOLVE = iota
	RDMA_NL_LS_OP_SET_TIMEOUT
	RDMA_NL_LS_OP_IP_RESOLVE
)

// LSResolveHeader.PathUse, from rdma/rdma_netlink.h.
const (
	LS_RESOLVE_PATH_USE_ALL = iota
	LS_RESOLVE_PATH_USE_UNIDIRECTIONAL
	LS_RESOLVE_PATH_USE_GMP
)

// Attributes of RDMA_NL_LS, from rdma/rdma_netlink.h.
const (
	LS_NLA_TYPE_UNSPEC = iota
	LS_NLA_TYPE_PATH_RECORD
	LS_NLA_TYPE_TIMEOUT
	LS_NLA_TYPE_SERVICE_ID
	LS_NLA_TYPE_DGID
	LS_NLA_TYPE_SGID
	LS_NLA_TYPE_TCLASS
	LS_NLA_TYPE_PKEY
	LS_NLA_TYPE_QOS_CLASS
	LS_NLA_TYPE_IPV4
	LS_NLA_TYPE_IPV6
)

// LSResolveHeader mirrors struct rdma_ls_resolve_header (rdma/rdma_netlink.h), the header of a
// request for a path.
type LSResolveHeader struct {
	_          structs.HostLayout
	DeviceName [LS_DEVICE_NAME_MAX]uint8
	PortNum    uint8
	PathUse    uint8
}

// LSIPResolveHeader mirrors struct rdma_ls_ip_resolve_header (rdma/rdma_netlink.h), the header of a
// request for a GID.
type LSIPResolveHeader struct {
	_       structs.HostLayout
	Ifindex uint32
}

// LSGID mirrors struct rdma_nla_ls_gid (rdma/rdma_netlink.h), a GID.
type LSGID struct {
	_   structs.HostLayout
	GID [16]uint8
}
