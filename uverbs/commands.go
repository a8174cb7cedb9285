// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"fmt"
	"reflect"

	"purerdma/abi"
)

// Command is the declaration of one command of rdma/ib_user_verbs.h.
type Command struct {
	Code     uint32 // IB_USER_VERBS_CMD_... or IB_USER_VERBS_EX_CMD_... with IB_USER_VERBS_CMD_FLAG_EXTENDED
	Name     string // "MODIFY_QP" for IB_USER_VERBS_CMD_MODIFY_QP
	In       reflect.Type
	Out      reflect.Type // nil if it has no answer
	Flexible bool         // more follows the input, or the answer
}

// CommandOf returns the declaration of a command, or nil if no kernel has it.
func CommandOf(code uint32) *Command {
	list := commands.legacy
	if code&ex != 0 {
		list = commands.extended
	}
	if code &^= ex; code < uint32(len(list)) {
		return list[code]
	}
	return nil
}

// Commands calls yield for every command, in no order.
func Commands(yield func(*Command) bool) {
	for _, list := range [][]*Command{commands.legacy, commands.extended} {
		for _, c := range list {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// String returns the name of the command as the kernel spells it.
func (c *Command) String() string {
	if c.Code&ex != 0 {
		return "IB_USER_VERBS_EX_CMD_" + c.Name
	}
	return "IB_USER_VERBS_CMD_" + c.Name
}

func commandName(code uint32) string {
	if c := CommandOf(code); c != nil {
		return c.String()
	}
	return fmt.Sprintf("command %#x", code)
}

func (c *Command) inSize() int { return int(c.In.Size()) }

func (c *Command) outSize() int {
	if c.Out == nil {
		return 0
	}
	return int(c.Out.Size())
}

// command declares a command with a response. order declares one without.
func command[C, R any](code uint32, name string) *Command {
	return &Command{Code: code, Name: name, In: reflect.TypeFor[C](), Out: reflect.TypeFor[R]()}
}

func order[C any](code uint32, name string) *Command {
	return &Command{Code: code, Name: name, In: reflect.TypeFor[C]()}
}

func flexible(c *Command) *Command {
	c.Flexible = true
	return c
}

// commandTable indexes the commands by their codes.
type commandTable struct{ legacy, extended []*Command }

func indexCommands(all ...*Command) (t commandTable) {
	for _, c := range all {
		list := &t.legacy
		if c.Code&ex != 0 {
			list = &t.extended
		}
		*at(list, uint16(c.Code&^ex)) = c
	}
	return t
}

// commands lists all commands that the kernel implements. MODIFY_AH, QUERY_AH, REG_SMR, QUERY_MR,
// BIND_MW and PEEK_CQ have numbers, but were never implemented.
var commands = indexCommands(
	command[abi.UverbsGetContext, abi.UverbsGetContextResp](abi.IB_USER_VERBS_CMD_GET_CONTEXT, "GET_CONTEXT"),
	command[abi.UverbsQueryDevice, abi.UverbsQueryDeviceResp](abi.IB_USER_VERBS_CMD_QUERY_DEVICE, "QUERY_DEVICE"),
	command[abi.UverbsExQueryDevice, abi.UverbsExQueryDeviceResp](ex|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "QUERY_DEVICE"),
	command[abi.UverbsQueryPort, abi.UverbsQueryPortResp](abi.IB_USER_VERBS_CMD_QUERY_PORT, "QUERY_PORT"),
	command[abi.UverbsAllocPD, abi.UverbsAllocPDResp](abi.IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD"),
	order[abi.UverbsDeallocPD](abi.IB_USER_VERBS_CMD_DEALLOC_PD, "DEALLOC_PD"),
	command[abi.UverbsCreateAH, abi.UverbsCreateAHResp](abi.IB_USER_VERBS_CMD_CREATE_AH, "CREATE_AH"),
	order[abi.UverbsDestroyAH](abi.IB_USER_VERBS_CMD_DESTROY_AH, "DESTROY_AH"),
	command[abi.UverbsRegMR, abi.UverbsRegMRResp](abi.IB_USER_VERBS_CMD_REG_MR, "REG_MR"),
	command[abi.UverbsReregMR, abi.UverbsReregMRResp](abi.IB_USER_VERBS_CMD_REREG_MR, "REREG_MR"),
	order[abi.UverbsDeregMR](abi.IB_USER_VERBS_CMD_DEREG_MR, "DEREG_MR"),
	command[abi.UverbsAllocMW, abi.UverbsAllocMWResp](abi.IB_USER_VERBS_CMD_ALLOC_MW, "ALLOC_MW"),
	order[abi.UverbsDeallocMW](abi.IB_USER_VERBS_CMD_DEALLOC_MW, "DEALLOC_MW"),
	command[abi.UverbsCreateCompChannel, abi.UverbsCreateCompChannelResp](abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL"),
	command[abi.UverbsCreateCQ, abi.UverbsCreateCQResp](abi.IB_USER_VERBS_CMD_CREATE_CQ, "CREATE_CQ"),
	command[abi.UverbsExCreateCQ, abi.UverbsExCreateCQResp](ex|abi.IB_USER_VERBS_EX_CMD_CREATE_CQ, "CREATE_CQ"),
	command[abi.UverbsResizeCQ, abi.UverbsResizeCQResp](abi.IB_USER_VERBS_CMD_RESIZE_CQ, "RESIZE_CQ"),
	command[abi.UverbsDestroyCQ, abi.UverbsDestroyCQResp](abi.IB_USER_VERBS_CMD_DESTROY_CQ, "DESTROY_CQ"),
	flexible(command[abi.UverbsPollCQ, abi.UverbsPollCQResp](abi.IB_USER_VERBS_CMD_POLL_CQ, "POLL_CQ")),
	order[abi.UverbsReqNotifyCQ](abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, "REQ_NOTIFY_CQ"),
	order[abi.UverbsExModifyCQ](ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ, "MODIFY_CQ"),
	command[abi.UverbsCreateQP, abi.UverbsCreateQPResp](abi.IB_USER_VERBS_CMD_CREATE_QP, "CREATE_QP"),
	command[abi.UverbsExCreateQP, abi.UverbsExCreateQPResp](ex|abi.IB_USER_VERBS_EX_CMD_CREATE_QP, "CREATE_QP"),
	command[abi.UverbsOpenQP, abi.UverbsCreateQPResp](abi.IB_USER_VERBS_CMD_OPEN_QP, "OPEN_QP"),
	command[abi.UverbsQueryQP, abi.UverbsQueryQPResp](abi.IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP"),
	order[abi.UverbsModifyQP](abi.IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP"),
	command[abi.UverbsExModifyQP, abi.UverbsExModifyQPResp](ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_QP, "MODIFY_QP"),
	command[abi.UverbsDestroyQP, abi.UverbsDestroyQPResp](abi.IB_USER_VERBS_CMD_DESTROY_QP, "DESTROY_QP"),
	flexible(command[abi.UverbsPostSend, abi.UverbsPostSendResp](abi.IB_USER_VERBS_CMD_POST_SEND, "POST_SEND")),
	flexible(command[abi.UverbsPostRecv, abi.UverbsPostRecvResp](abi.IB_USER_VERBS_CMD_POST_RECV, "POST_RECV")),
	order[abi.UverbsAttachMcast](abi.IB_USER_VERBS_CMD_ATTACH_MCAST, "ATTACH_MCAST"),
	order[abi.UverbsDetachMcast](abi.IB_USER_VERBS_CMD_DETACH_MCAST, "DETACH_MCAST"),
	command[abi.UverbsCreateSRQ, abi.UverbsCreateSRQResp](abi.IB_USER_VERBS_CMD_CREATE_SRQ, "CREATE_SRQ"),
	command[abi.UverbsCreateXSRQ, abi.UverbsCreateSRQResp](abi.IB_USER_VERBS_CMD_CREATE_XSRQ, "CREATE_XSRQ"),
	order[abi.UverbsModifySRQ](abi.IB_USER_VERBS_CMD_MODIFY_SRQ, "MODIFY_SRQ"),
	command[abi.UverbsQuerySRQ, abi.UverbsQuerySRQResp](abi.IB_USER_VERBS_CMD_QUERY_SRQ, "QUERY_SRQ"),
	command[abi.UverbsDestroySRQ, abi.UverbsDestroySRQResp](abi.IB_USER_VERBS_CMD_DESTROY_SRQ, "DESTROY_SRQ"),
	flexible(command[abi.UverbsPostSRQRecv, abi.UverbsPostSRQRecvResp](abi.IB_USER_VERBS_CMD_POST_SRQ_RECV, "POST_SRQ_RECV")),
	command[abi.UverbsOpenXRCD, abi.UverbsOpenXRCDResp](abi.IB_USER_VERBS_CMD_OPEN_XRCD, "OPEN_XRCD"),
	order[abi.UverbsCloseXRCD](abi.IB_USER_VERBS_CMD_CLOSE_XRCD, "CLOSE_XRCD"),
	flexible(command[abi.UverbsCreateFlow, abi.UverbsCreateFlowResp](ex|abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW, "CREATE_FLOW")),
	order[abi.UverbsDestroyFlow](ex|abi.IB_USER_VERBS_EX_CMD_DESTROY_FLOW, "DESTROY_FLOW"),
	command[abi.UverbsExCreateWQ, abi.UverbsExCreateWQResp](ex|abi.IB_USER_VERBS_EX_CMD_CREATE_WQ, "CREATE_WQ"),
	order[abi.UverbsExModifyWQ](ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ, "MODIFY_WQ"),
	command[abi.UverbsExDestroyWQ, abi.UverbsExDestroyWQResp](ex|abi.IB_USER_VERBS_EX_CMD_DESTROY_WQ, "DESTROY_WQ"),
	flexible(command[abi.UverbsExCreateRWQIndTable, abi.UverbsExCreateRWQIndTableResp](ex|abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, "CREATE_RWQ_IND_TBL")),
	order[abi.UverbsExDestroyRWQIndTable](ex|abi.IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, "DESTROY_RWQ_IND_TBL"),
)
