// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// ContextInfo is the answer of GetContext.
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
	return ContextInfo{CompVectors: vectors, CoreSupport: support}, err
}

// QueryDevice returns the attributes of the device
// (IB_USER_VERBS_CMD_QUERY_DEVICE).
func (f *File) QueryDevice() (abi.UverbsQueryDeviceResp, error) {
	var cmd abi.UverbsQueryDevice
	var resp abi.UverbsQueryDeviceResp
	err := f.invokeWrite(abi.IB_USER_VERBS_CMD_QUERY_DEVICE, abi.Bytes(&cmd), abi.Bytes(&resp), Driver{})
	return resp, err
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
