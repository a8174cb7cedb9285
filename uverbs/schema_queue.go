// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// queueMethods lists the methods of completion queues, queue pairs, shared receive queues, work
// queues, and their parts.
var queueMethods = []Method{
	{
		Object: abi.UVERBS_OBJECT_CQ, ID: abi.UVERBS_METHOD_CQ_CREATE, Name: "CQ_CREATE", UHW: true,
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, abi.UVERBS_OBJECT_CQ),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_CQ_CQE, "cqe"),
			ptrIn[uint64](abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, "user_handle"),
			fdIn(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, "comp_channel"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, "comp_vector"),
			optional(flagsIn(abi.UVERBS_ATTR_CREATE_CQ_FLAGS, "flags")),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, "resp_cqe"),
			fdIn(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, "event_fd"),
			optional(ptrIn[abi.Pointer](abi.UVERBS_ATTR_CREATE_CQ_BUFFER_VA, "buffer_va")),
			optional(ptrIn[uint64](abi.UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, "buffer_length")),
			fdIn(abi.UVERBS_ATTR_CREATE_CQ_BUFFER_FD, "buffer_fd"),
			optional(ptrIn[uint64](abi.UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, "buffer_offset")),
			optional(ptrIn[abi.UverbsBufferDesc](abi.UVERBS_ATTR_CREATE_CQ_BUF_UMEM, "buf_umem")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_CQ, ID: abi.UVERBS_METHOD_CQ_DESTROY, Name: "CQ_DESTROY",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, "handle", abi.UVERBS_OBJECT_CQ),
			ptrOut[abi.UverbsDestroyCQResp](abi.UVERBS_ATTR_DESTROY_CQ_RESP, "resp"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_QP, ID: abi.UVERBS_METHOD_QP_CREATE, Name: "QP_CREATE", Since: "5.8", UHW: true,
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_CREATE_QP_HANDLE, abi.UVERBS_OBJECT_QP),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, "xrcd", abi.UVERBS_OBJECT_XRCD)),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD)),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, "srq", abi.UVERBS_OBJECT_SRQ)),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, "send_cq", abi.UVERBS_OBJECT_CQ)),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, "recv_cq", abi.UVERBS_OBJECT_CQ)),
			optional(obj(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, "ind_table", abi.UVERBS_OBJECT_RWQ_IND_TBL)),
			ptrIn[uint64](abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, "user_handle"),
			ptrIn[abi.UverbsQPCap](abi.UVERBS_ATTR_CREATE_QP_CAP, "cap"),
			constIn(abi.UVERBS_ATTR_CREATE_QP_TYPE, "type"),
			optional(flagsIn(abi.UVERBS_ATTR_CREATE_QP_FLAGS, "flags")),
			optional(ptrIn[uint32](abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN, "source_qpn")),
			fdIn(abi.UVERBS_ATTR_CREATE_QP_EVENT_FD, "event_fd"),
			ptrOut[abi.UverbsQPCap](abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, "resp_cap"),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, "qp_num"),
			optional(ptrIn[abi.UverbsBufferDesc](abi.UVERBS_ATTR_CREATE_QP_BUF_UMEM, "buf_umem")),
			optional(ptrIn[abi.UverbsBufferDesc](abi.UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM, "rq_buf_umem")),
			optional(ptrIn[abi.UverbsBufferDesc](abi.UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM, "sq_buf_umem")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_QP, ID: abi.UVERBS_METHOD_QP_DESTROY, Name: "QP_DESTROY",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, "handle", abi.UVERBS_OBJECT_QP),
			ptrOut[abi.UverbsDestroyQPResp](abi.UVERBS_ATTR_DESTROY_QP_RESP, "resp"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_QP, ID: abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR, Name: "QP_ATTACH_COMP_CNTR", Since: "7.3",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, "handle", abi.UVERBS_OBJECT_QP),
			obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, "comp_cntr", abi.UVERBS_OBJECT_COMP_CNTR),
			flagsIn(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, "op_mask"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_SRQ, ID: abi.UVERBS_METHOD_SRQ_CREATE, Name: "SRQ_CREATE", Since: "5.8", UHW: true,
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, abi.UVERBS_OBJECT_SRQ),
			obj(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			optional(obj(abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, "xrcd", abi.UVERBS_OBJECT_XRCD)),
			optional(obj(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, "cq", abi.UVERBS_OBJECT_CQ)),
			ptrIn[uint64](abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, "user_handle"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, "max_wr"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, "max_sge"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, "limit"),
			optional(ptrIn[uint32](abi.UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, "max_num_tags")),
			constIn(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, "type"),
			fdIn(abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD, "event_fd"),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, "resp_max_wr"),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, "resp_max_sge"),
			optional(ptrOut[uint32](abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, "srq_num")),
			optional(ptrIn[abi.UverbsBufferDesc](abi.UVERBS_ATTR_CREATE_SRQ_BUF_UMEM, "buf_umem")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_SRQ, ID: abi.UVERBS_METHOD_SRQ_DESTROY, Name: "SRQ_DESTROY",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE, "handle", abi.UVERBS_OBJECT_SRQ),
			ptrOut[abi.UverbsDestroySRQResp](abi.UVERBS_ATTR_DESTROY_SRQ_RESP, "resp"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_WQ, ID: abi.UVERBS_METHOD_WQ_CREATE, Name: "WQ_CREATE", Since: "5.8", UHW: true,
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_CREATE_WQ_HANDLE, abi.UVERBS_OBJECT_WQ),
			obj(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			optional(obj(abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, "cq", abi.UVERBS_OBJECT_CQ)),
			ptrIn[uint64](abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE, "user_handle"),
			constIn(abi.UVERBS_ATTR_CREATE_WQ_TYPE, "type"),
			fdIn(abi.UVERBS_ATTR_CREATE_WQ_EVENT_FD, "event_fd"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_WQ_MAX_WR, "max_wr"),
			ptrIn[uint32](abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE, "max_sge"),
			flagsIn(abi.UVERBS_ATTR_CREATE_WQ_FLAGS, "flags"),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, "resp_max_wr"),
			ptrOut[uint32](abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, "resp_max_sge"),
			optional(ptrOut[uint32](abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, "wq_num")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_WQ, ID: abi.UVERBS_METHOD_WQ_DESTROY, Name: "WQ_DESTROY",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE, "handle", abi.UVERBS_OBJECT_WQ),
			ptrOut[uint32](abi.UVERBS_ATTR_DESTROY_WQ_RESP, "events_reported"),
		},
	},
	destroyMethod(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY, abi.UVERBS_ATTR_DESTROY_AH_HANDLE, "AH_DESTROY", ""),
	destroyMethod(abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY, abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE, "XRCD_DESTROY", ""),
	destroyMethod(abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY, abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, "RWQ_IND_TBL_DESTROY", ""),
	{
		Object: abi.UVERBS_OBJECT_COMP_CNTR, ID: abi.UVERBS_METHOD_COMP_CNTR_CREATE, Name: "COMP_CNTR_CREATE", Since: "7.3",
		Attrs: []AttrSpec{newObj(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE, abi.UVERBS_OBJECT_COMP_CNTR)},
	},
	destroyMethod(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY, abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, "COMP_CNTR_DESTROY", "7.3"),
	{
		Object: abi.UVERBS_OBJECT_COMP_CNTR, ID: abi.UVERBS_METHOD_COMP_CNTR_MODIFY, Name: "COMP_CNTR_MODIFY", Since: "7.3",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, "handle", abi.UVERBS_OBJECT_COMP_CNTR),
			constIn(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, "entry"),
			constIn(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP, "op"),
			ptrIn[uint64](abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, "value"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_COMP_CNTR, ID: abi.UVERBS_METHOD_COMP_CNTR_READ, Name: "COMP_CNTR_READ", Since: "7.3",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE, "handle", abi.UVERBS_OBJECT_COMP_CNTR),
			constIn(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY, "entry"),
			ptrOut[uint64](abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, "value"),
		},
	},
}
