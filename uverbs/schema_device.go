// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// deviceMethods lists the methods of the device itself and of its asynchronous events.
var deviceMethods = []Method{
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_INVOKE_WRITE, Name: "INVOKE_WRITE", Since: "5.0", UHW: true,
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_WRITE_CMD, "write_cmd"),
			{ID: abi.UVERBS_ATTR_CORE_IN, Name: "core_in", Kind: AttrIn, Min: 4, Max: maxAttr},
			{ID: abi.UVERBS_ATTR_CORE_OUT, Name: "core_out", Kind: AttrOut, Max: maxAttr},
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_INFO_HANDLES, Name: "INFO_HANDLES", Since: "5.0",
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_INFO_OBJECT_ID, "object_id"),
			optional(ptrOut[uint32](abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, "total_handles")),
			optional(arrayOut[uint32](abi.UVERBS_ATTR_INFO_HANDLES_LIST, "handles_list")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_PORT, Name: "QUERY_PORT", Since: "5.0",
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, "port_num"),
			ptrOut[abi.UverbsQueryPortRespEx](abi.UVERBS_ATTR_QUERY_PORT_RESP, "resp"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_GET_CONTEXT, Name: "GET_CONTEXT", Since: "5.6", UHW: true,
		Attrs: []AttrSpec{
			optional(ptrOut[uint32](abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, "num_comp_vectors")),
			optional(ptrOut[uint64](abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, "core_support")),
			optional(arrayIn[int32](abi.UVERBS_ATTR_GET_CONTEXT_FD_ARR, "fd_arr")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_CONTEXT, Name: "QUERY_CONTEXT", Since: "5.9",
		Attrs: []AttrSpec{
			optional(ptrOut[uint32](abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, "num_comp_vectors")),
			optional(ptrOut[uint64](abi.UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, "core_support")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_GID_TABLE, Name: "QUERY_GID_TABLE", Since: "5.10",
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, "entry_size"),
			optional(flagsIn(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, "flags")),
			arrayOut[abi.UverbsGIDEntry](abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, "entries"),
			ptrOut[uint64](abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, "num_entries"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_GID_ENTRY, Name: "QUERY_GID_ENTRY", Since: "5.10",
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, "port"),
			constIn(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, "gid_index"),
			flagsIn(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, "flags"),
			ptrOut[abi.UverbsGIDEntry](abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, "entry"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_PORT_SPEED, Name: "QUERY_PORT_SPEED", Since: "7.0",
		Attrs: []AttrSpec{
			constIn(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, "port_num"),
			ptrOut[uint64](abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, "speed"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DEVICE, ID: abi.UVERBS_METHOD_QUERY_COMP_CNTR_CAPS, Name: "QUERY_COMP_CNTR_CAPS", Since: "7.3",
		Attrs: []AttrSpec{
			ptrOut[uint32](abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, "max_counters"),
			ptrOut[uint64](abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, "max_value"),
			ptrOut[uint32](abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, "supported_qp_attach_ops"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_ASYNC_EVENT, ID: abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC, Name: "ASYNC_EVENT_ALLOC", Since: "5.6",
		Attrs: []AttrSpec{newFD(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, "fd_handle")},
	},
	{
		Object: abi.UVERBS_OBJECT_COUNTERS, ID: abi.UVERBS_METHOD_COUNTERS_CREATE, Name: "COUNTERS_CREATE",
		Attrs: []AttrSpec{newObj(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE, abi.UVERBS_OBJECT_COUNTERS)},
	},
	destroyMethod(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_DESTROY, abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, "COUNTERS_DESTROY", ""),
	{
		Object: abi.UVERBS_OBJECT_COUNTERS, ID: abi.UVERBS_METHOD_COUNTERS_READ, Name: "COUNTERS_READ",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_READ_COUNTERS_HANDLE, "handle", abi.UVERBS_OBJECT_COUNTERS),
			arrayOut[uint64](abi.UVERBS_ATTR_READ_COUNTERS_BUFF, "buff"),
			flagsIn(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS, "flags"),
		},
	},
}
