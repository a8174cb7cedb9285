// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// ContextInfo is the result of GetContext.
type ContextInfo struct {
	CompVectors uint32 // number of completion vectors
	CoreSupport uint64 // IB_UVERBS_CORE_SUPPORT_...
}

// GetContext makes the kernel context of the file, of which there is one
// (UVERBS_METHOD_GET_CONTEXT). All other commands need it.
func (f *File) GetContext(drv Driver) (ContextInfo, error) {
	var vectors uint32
	var support uint64
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, drv.append([]Attr{
		out(abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors),
		out(abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support),
	})...)
	info := ContextInfo{CompVectors: vectors, CoreSupport: support}
	if err == nil {
		f.mu.Lock()
		f.context = info
		f.mu.Unlock()
	}
	return info, err
}

// QueryContext is GetContext for an existing context, for example after the file was received from
// another process (UVERBS_METHOD_QUERY_CONTEXT).
func (f *File) QueryContext() (ContextInfo, error) {
	var vectors uint32
	var support uint64
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT,
		out(abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors),
		out(abi.UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &support))
	return ContextInfo{CompVectors: vectors, CoreSupport: support}, err
}

// QueryDevice returns the attributes of the device
// (IB_USER_VERBS_CMD_QUERY_DEVICE).
func (f *File) QueryDevice() (abi.UverbsQueryDeviceResp, error) {
	return runCommandResp[abi.UverbsQueryDeviceResp](f, abi.IB_USER_VERBS_CMD_QUERY_DEVICE, &abi.UverbsQueryDevice{}, Driver{})
}

// QueryDeviceEx returns the attributes of the device and its newer attributes
// (IB_USER_VERBS_EX_CMD_QUERY_DEVICE). ResponseLength is the number of bytes that the kernel
// filled. The rest is zero.
func (f *File) QueryDeviceEx(drv Driver) (abi.UverbsExQueryDeviceResp, error) {
	resp, err := runCommandResp[abi.UverbsExQueryDeviceResp](f, ex|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &abi.UverbsExQueryDevice{}, drv)
	if b := abi.Bytes(&resp); uint64(resp.ResponseLength) < uint64(len(b)) {
		clear(b[resp.ResponseLength:])
	}
	return resp, err
}

// InfoHandles returns the handles of the objects of a kind that the context has,
// at most max of them (UVERBS_METHOD_INFO_HANDLES).
func (f *File) InfoHandles(object uint16, max int) ([]uint32, error) {
	list := make([]uint32, min(max, maxAttr/4))
	if len(list) == 0 {
		return nil, nil
	}
	var total uint32
	raw := make([]byte, 4*len(list))
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES,
		u64(abi.UVERBS_ATTR_INFO_OBJECT_ID, uint64(object)),
		out(abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, &total),
		outBytes(abi.UVERBS_ATTR_INFO_HANDLES_LIST, raw))
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = uint32(Number(raw[4*i : 4*i+4]))
	}
	return list[:min(uint64(total), uint64(len(list)))], nil
}

// QueryPort returns the attributes of a port, counted from 1
// (UVERBS_METHOD_QUERY_PORT).
func (f *File) QueryPort(port uint8) (abi.UverbsQueryPortRespEx, error) {
	var resp abi.UverbsQueryPortRespEx
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT,
		u64(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64(port)),
		out(abi.UVERBS_ATTR_QUERY_PORT_RESP, &resp))
	return resp, err
}

// QueryGIDTable returns the valid entries of the GID tables of all ports, at
// most max of them (UVERBS_METHOD_QUERY_GID_TABLE, Linux 5.10).
func (f *File) QueryGIDTable(max int) ([]abi.UverbsGIDEntry, error) {
	size := abi.Size[abi.UverbsGIDEntry]()
	max = min(max, (1<<16-1)/size)
	raw := make([]byte, max*size)
	var n uint64
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE,
		u64(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, uint64(size)),
		u32(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0),
		outBytes(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, raw),
		out(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n))
	if err != nil {
		return nil, err
	}
	entries := make([]abi.UverbsGIDEntry, min(n, uint64(max)))
	for i := range entries {
		copy(abi.Bytes(&entries[i]), raw[i*size:])
	}
	return entries, nil
}

// QueryGIDEntry returns one entry of the GID table of a port (UVERBS_METHOD_QUERY_GID_ENTRY, Linux
// 5.10). It returns ENODATA for an entry that is not valid.
func (f *File) QueryGIDEntry(port uint8, index uint32) (abi.UverbsGIDEntry, error) {
	var entry abi.UverbsGIDEntry
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY,
		u64(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64(port)),
		u64(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64(index)),
		u32(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0),
		out(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry))
	return entry, err
}

// QueryPortSpeed returns the speed of a port in units of 100 Mb/s
// (UVERBS_METHOD_QUERY_PORT_SPEED, Linux 7).
func (f *File) QueryPortSpeed(port uint8) (uint64, error) {
	var speed uint64
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED,
		u64(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, uint64(port)),
		out(abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &speed))
	return speed, err
}
