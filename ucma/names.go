// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"strconv"

	"purerdma/abi"
)

var commandNames = [...]string{
	abi.RDMA_USER_CM_CMD_CREATE_ID:     "CREATE_ID",
	abi.RDMA_USER_CM_CMD_DESTROY_ID:    "DESTROY_ID",
	abi.RDMA_USER_CM_CMD_BIND_IP:       "BIND_IP",
	abi.RDMA_USER_CM_CMD_RESOLVE_IP:    "RESOLVE_IP",
	abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE: "RESOLVE_ROUTE",
	abi.RDMA_USER_CM_CMD_QUERY_ROUTE:   "QUERY_ROUTE",
	abi.RDMA_USER_CM_CMD_CONNECT:       "CONNECT",
	abi.RDMA_USER_CM_CMD_LISTEN:        "LISTEN",
	abi.RDMA_USER_CM_CMD_ACCEPT:        "ACCEPT",
	abi.RDMA_USER_CM_CMD_REJECT:        "REJECT",
	abi.RDMA_USER_CM_CMD_DISCONNECT:    "DISCONNECT",
	abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:  "INIT_QP_ATTR",
	abi.RDMA_USER_CM_CMD_GET_EVENT:     "GET_EVENT",
	abi.RDMA_USER_CM_CMD_GET_OPTION:    "GET_OPTION",
	abi.RDMA_USER_CM_CMD_SET_OPTION:    "SET_OPTION",
	abi.RDMA_USER_CM_CMD_NOTIFY:        "NOTIFY",
	abi.RDMA_USER_CM_CMD_JOIN_IP_MCAST: "JOIN_IP_MCAST",
	abi.RDMA_USER_CM_CMD_LEAVE_MCAST:   "LEAVE_MCAST",
	abi.RDMA_USER_CM_CMD_MIGRATE_ID:    "MIGRATE_ID",
	abi.RDMA_USER_CM_CMD_QUERY:         "QUERY",
	abi.RDMA_USER_CM_CMD_BIND:          "BIND",
	abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:  "RESOLVE_ADDR",
	abi.RDMA_USER_CM_CMD_JOIN_MCAST:    "JOIN_MCAST",

	abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE: "RESOLVE_IB_SERVICE",
	abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT:     "WRITE_CM_EVENT",
}

// CommandName returns the name of a command, as "CREATE_ID" for RDMA_USER_CM_CMD_CREATE_ID. For an
// unknown command, it returns the number.
func CommandName(code uint32) string {
	if code < uint32(len(commandNames)) {
		return commandNames[code]
	}
	return "command " + strconv.Itoa(int(code))
}
