// SPDX-License-Identifier: Apache-2.0

package abi_test

// sameBytes lists structs inside unions that have no mirror because another
// member of the union has the same bytes.
var sameBytes = map[string]string{
	"rxe_gid.global": "raw",
}

// The reasons for leaving a name out.
const (
	count     = "counts the others, and is another number in each kernel"
	parameter = "a macro with parameters; the shift that it is made of is here"
	text      = "not a number"
)

// leftOut lists the names of the headers that have no mirror, and the reasons.
var leftOut = map[string]string{
	"SIW_NUM_OPCODES":              count,
	"SIW_NUM_WC_STATUS":            count,
	"RDMA_NL_NUM_CLIENTS":          count,
	"RDMA_NL_NUM_GROUPS":           count,
	"RDMA_NL_IWPM_NUM_OPS":         count,
	"RDMA_NL_LS_NUM_OPS":           count,
	"RDMA_NLDEV_NUM_OPS":           count,
	"RDMA_NLDEV_ATTR_MAX":          count,
	"RDMA_COUNTER_MODE_MAX":        count,
	"LS_NLA_TYPE_MAX":              count,
	"LS_RESOLVE_PATH_USE_MAX":      count,
	"IWPM_NLA_REG_PID_MAX":         count,
	"IWPM_NLA_RREG_PID_MAX":        count,
	"IWPM_NLA_MANAGE_MAPPING_MAX":  count,
	"IWPM_NLA_RMANAGE_MAPPING_MAX": count,
	"IWPM_NLA_QUERY_MAPPING_MAX":   count,
	"IWPM_NLA_RQUERY_MAPPING_MAX":  count,
	"IWPM_NLA_MAPINFO_REQ_MAX":     count,
	"IWPM_NLA_MAPINFO_MAX":         count,
	"IWPM_NLA_MAPINFO_NUM_MAX":     count,
	"IWPM_NLA_ERR_MAX":             count,
	"IWPM_NLA_HELLO_MAX":           count,

	"RDMA_NL_GET_CLIENT(type)":    parameter,
	"RDMA_NL_GET_OP(type)":        parameter,
	"RDMA_NL_GET_TYPE(client,op)": parameter,

	"RDMA_UAPI_PTR(_type,_name)": "declares a field; Pointer takes its place",
	"RDMA_NLA_TYPE_MASK":         "made of flags of linux/netlink.h, which this header does not include",
	"SIW_NODE_DESC_COMMON":       text,
	"mlx5_ib_clock_info":         "the older name of struct ib_uverbs_clock_info",
}

// notMeasured lists constants in the kernel's spelling that none of the measured headers
// defines, and where they are defined.
var notMeasured = map[string]string{
	"AF_INET":                  "linux/socket.h of the kernel's own headers",
	"AF_INET6":                 "linux/socket.h of the kernel's own headers",
	"AF_IB":                    "linux/socket.h of the kernel's own headers",
	"RDMA_NL_GET_CLIENT_SHIFT": "the shift in RDMA_NL_GET_CLIENT",

	"RDMA_CM_EVENT_ADDR_RESOLVED":     cmEvent,
	"RDMA_CM_EVENT_ADDR_ERROR":        cmEvent,
	"RDMA_CM_EVENT_ROUTE_RESOLVED":    cmEvent,
	"RDMA_CM_EVENT_ROUTE_ERROR":       cmEvent,
	"RDMA_CM_EVENT_CONNECT_REQUEST":   cmEvent,
	"RDMA_CM_EVENT_CONNECT_RESPONSE":  cmEvent,
	"RDMA_CM_EVENT_CONNECT_ERROR":     cmEvent,
	"RDMA_CM_EVENT_UNREACHABLE":       cmEvent,
	"RDMA_CM_EVENT_REJECTED":          cmEvent,
	"RDMA_CM_EVENT_ESTABLISHED":       cmEvent,
	"RDMA_CM_EVENT_DISCONNECTED":      cmEvent,
	"RDMA_CM_EVENT_DEVICE_REMOVAL":    cmEvent,
	"RDMA_CM_EVENT_MULTICAST_JOIN":    cmEvent,
	"RDMA_CM_EVENT_MULTICAST_ERROR":   cmEvent,
	"RDMA_CM_EVENT_ADDR_CHANGE":       cmEvent,
	"RDMA_CM_EVENT_TIMEWAIT_EXIT":     cmEvent,
	"RDMA_CM_EVENT_ADDRINFO_RESOLVED": cmEvent,
	"RDMA_CM_EVENT_ADDRINFO_ERROR":    cmEvent,
	"RDMA_CM_EVENT_USER":              cmEvent,
	"RDMA_CM_EVENT_INTERNAL":          cmEvent,
}

// The kernel's own headers are not installed, but test/abi/btf finds the enum in
// the running kernel.
const cmEvent = "rdma/rdma_cm.h of the kernel's own headers"
