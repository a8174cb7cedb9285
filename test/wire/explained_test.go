// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import "strings"

// explained lists the intended differences with their reasons. Any other difference fails the
// test.
var explained = []explanation{
	{key: "_CREATE", field: "event_fd", ours: "absent",
		why: "libibverbs makes a file of asynchronous events with every context; we make one when somebody wants the events"},
	{key: "CMD_POST_SEND", field: "core_in.WQESize", c: "80000000", ours: "38000000",
		why: "librxe gives the size of its own struct, we that of the kernel's; the kernel only asks that it be no smaller than that"},
	{key: "CMD_REQ_NOTIFY_CQ", field: "driver", ours: "absent", why: "libibverbs gives it by ioctl, we by write(2), which takes less time"},
	{key: "CMD_REQ_NOTIFY_CQ", field: "write_cmd*", ours: "absent", why: "the same"},
	{key: "CMD_REQ_NOTIFY_CQ", field: "core_in", ours: "absent", why: "the same"},
	{key: "CMD_REQ_NOTIFY_CQ", field: "hdr", c: "absent", ours: "in 4 out 0 words", why: "the same"},

	{key: "UcmBind", field: "Addr", ours: "020000000a080001" + strings.Repeat("00", 120),
		why: "a listener of ours binds a second ID, with port 0, to keep the device of its first request open"},

	// Differences between the two rpings themselves.
	{program: "rping", key: "CMD_MODIFY_QP", field: "core_in.Dest.FlowLabel",
		why: "the kernel computed it from the ports, and the client's is random"},
	{program: "rping", key: "CMD_REG_MR", field: "core_in.Length", why: "ours has other buffers"},
	{program: "rping", key: "CMD_REG_MR", field: "core_in.AccessFlags", c: "07000000",
		why: "ours gives the peer no more than it needs: memory that is only read is not writable"},
	{program: "rping", key: "CQ_CREATE", field: "cqe.=", why: "ours has queues of other lengths"},
	{program: "rping", key: "QP_CREATE", field: "cap.MaxInlineData", c: "00000000", ours: "20000000", why: "ours sends inline"},
	{program: "rping", key: "UcmResolveAddr", field: "TimeoutMS", c: "d0070000",
		why: "Dialer asks for a short time first, and again: the kernel misses the answer of a neighbour that it asks for the first time"},
}
