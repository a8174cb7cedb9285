// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// memoryMethods lists the methods of protection domains, memory regions and windows, and device
// memory.
var memoryMethods = []Method{
	destroyMethod(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY, abi.UVERBS_ATTR_DESTROY_PD_HANDLE, "PD_DESTROY", ""),
	destroyMethod(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY, abi.UVERBS_ATTR_DESTROY_MW_HANDLE, "MW_DESTROY", ""),
	destroyMethod(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY, abi.UVERBS_ATTR_DESTROY_MR_HANDLE, "MR_DESTROY", ""),
	{
		Object: abi.UVERBS_OBJECT_MR, ID: abi.UVERBS_METHOD_DM_MR_REG, Name: "DM_MR_REG",
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_REG_DM_MR_HANDLE, abi.UVERBS_OBJECT_MR),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_DM_MR_OFFSET, "offset"),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_DM_MR_LENGTH, "length"),
			obj(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			flagsIn(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, "access_flags"),
			obj(abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE, "dm", abi.UVERBS_OBJECT_DM),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, "lkey"),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY, "rkey"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_MR, ID: abi.UVERBS_METHOD_ADVISE_MR, Name: "ADVISE_MR", Since: "5.0",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			constIn(abi.UVERBS_ATTR_ADVISE_MR_ADVICE, "advice"),
			flagsIn(abi.UVERBS_ATTR_ADVISE_MR_FLAGS, "flags"),
			arrayIn[abi.UverbsSGE](abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, "sge_list"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_MR, ID: abi.UVERBS_METHOD_QUERY_MR, Name: "QUERY_MR", Since: "5.9",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_QUERY_MR_HANDLE, "handle", abi.UVERBS_OBJECT_MR),
			ptrOut[uint32](abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, "lkey"),
			ptrOut[uint32](abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, "rkey"),
			ptrOut[uint64](abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, "length"),
			optional(ptrOut[uint64](abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, "iova")),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_MR, ID: abi.UVERBS_METHOD_REG_DMABUF_MR, Name: "REG_DMABUF_MR", Since: "5.12",
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE, abi.UVERBS_OBJECT_MR),
			obj(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, "offset"),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, "length"),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, "iova"),
			ptrIn[uint32](abi.UVERBS_ATTR_REG_DMABUF_MR_FD, "fd"),
			flagsIn(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, "access_flags"),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, "lkey"),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, "rkey"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_MR, ID: abi.UVERBS_METHOD_REG_MR, Name: "REG_MR", Since: "6.17", UHW: true,
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_REG_MR_HANDLE, abi.UVERBS_OBJECT_MR),
			obj(abi.UVERBS_ATTR_REG_MR_PD_HANDLE, "pd", abi.UVERBS_OBJECT_PD),
			optional(obj(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE, "dmah", abi.UVERBS_OBJECT_DMAH)),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_MR_IOVA, "iova"),
			optional(ptrIn[abi.Pointer](abi.UVERBS_ATTR_REG_MR_ADDR, "addr")),
			ptrIn[uint64](abi.UVERBS_ATTR_REG_MR_LENGTH, "length"),
			flagsIn(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS, "access_flags"),
			fdIn(abi.UVERBS_ATTR_REG_MR_FD, "fd"),
			optional(ptrIn[uint64](abi.UVERBS_ATTR_REG_MR_FD_OFFSET, "fd_offset")),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_MR_RESP_LKEY, "lkey"),
			ptrOut[uint32](abi.UVERBS_ATTR_REG_MR_RESP_RKEY, "rkey"),
		},
	},
	{
		Object: abi.UVERBS_OBJECT_DM, ID: abi.UVERBS_METHOD_DM_ALLOC, Name: "DM_ALLOC",
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_ALLOC_DM_HANDLE, abi.UVERBS_OBJECT_DM),
			ptrIn[uint64](abi.UVERBS_ATTR_ALLOC_DM_LENGTH, "length"),
			ptrIn[uint32](abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, "alignment"),
		},
	},
	destroyMethod(abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_FREE, abi.UVERBS_ATTR_FREE_DM_HANDLE, "DM_FREE", ""),
	{
		Object: abi.UVERBS_OBJECT_DMAH, ID: abi.UVERBS_METHOD_DMAH_ALLOC, Name: "DMAH_ALLOC", Since: "6.17",
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE, abi.UVERBS_OBJECT_DMAH),
			optional(ptrIn[uint32](abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, "cpu_id")),
			optional(enumIn(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, "tph_mem_type", nil, nil)),
			optional(ptrIn[uint8](abi.UVERBS_ATTR_ALLOC_DMAH_PH, "ph")),
		},
	},
	destroyMethod(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE, abi.UVERBS_ATTR_FREE_DMA_HANDLE, "DMAH_FREE", "6.17"),
	{
		Object: abi.UVERBS_OBJECT_DMABUF, ID: abi.UVERBS_METHOD_DMABUF_ALLOC, Name: "DMABUF_ALLOC", Since: "7.0",
		Attrs: []AttrSpec{
			newFD(abi.UVERBS_ATTR_ALLOC_DMABUF_HANDLE, "handle"),
			ptrIn[uint64](abi.UVERBS_ATTR_ALLOC_DMABUF_PGOFF, "pgoff"),
		},
	},
}
