// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// CreateCounters makes a set of counters that flows can count into, and returns
// its handle (UVERBS_METHOD_COUNTERS_CREATE).
func (f *File) CreateCounters() (uint32, error) {
	return f.create(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_CREATE, newHandle(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE))
}

// DestroyCounters destroys a set of counters (UVERBS_METHOD_COUNTERS_DESTROY).
func (f *File) DestroyCounters(counters uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_DESTROY, abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, counters)
}

// ReadCounters reads a set of counters into values (UVERBS_METHOD_COUNTERS_READ). flags are
// IB_UVERBS_READ_COUNTERS_....
func (f *File) ReadCounters(counters uint32, values []uint64, flags uint32) error {
	raw := make([]byte, 8*min(len(values), maxAttr/8))
	_, err := f.ioctl(abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_READ,
		handle(abi.UVERBS_ATTR_READ_COUNTERS_HANDLE, counters),
		outBytes(abi.UVERBS_ATTR_READ_COUNTERS_BUFF, raw),
		u32(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS, flags))
	if err != nil {
		return err
	}
	for i := range len(raw) / 8 {
		values[i] = Number(raw[8*i : 8*i+8])
	}
	return nil
}

// CompCntrCaps is the result of QueryCompCntrCaps.
type CompCntrCaps struct {
	MaxCounters uint32
	MaxValue    uint64
	AttachOps   uint32 // IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_...
}

// QueryCompCntrCaps returns the device's capabilities for completion counters
// (UVERBS_METHOD_QUERY_COMP_CNTR_CAPS, Linux 7.3).
func (f *File) QueryCompCntrCaps() (CompCntrCaps, error) {
	var c CompCntrCaps
	_, err := f.ioctl(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
		out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, &c.MaxCounters),
		out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, &c.MaxValue),
		out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, &c.AttachOps))
	return c, err
}

// CreateCompCntr makes a counter of completions and returns its handle
// (UVERBS_METHOD_COMP_CNTR_CREATE, Linux 7.3).
func (f *File) CreateCompCntr() (uint32, error) {
	return f.create(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE, newHandle(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE))
}

// DestroyCompCntr destroys a counter (UVERBS_METHOD_COMP_CNTR_DESTROY).
func (f *File) DestroyCompCntr(cntr uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY, abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, cntr)
}

// ModifyCompCntr changes a counter (UVERBS_METHOD_COMP_CNTR_MODIFY). entry is
// IB_UVERBS_COMP_CNTR_ENTRY_..., op is IB_UVERBS_COMP_CNTR_MODIFY_OP_....
func (f *File) ModifyCompCntr(cntr, entry, op uint32, value uint64) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_MODIFY,
		handle(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, cntr),
		u64(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, uint64(entry)),
		u64(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP, uint64(op)),
		u64(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value))
	return err
}

// ReadCompCntr reads a counter (UVERBS_METHOD_COMP_CNTR_READ). entry is
// IB_UVERBS_COMP_CNTR_ENTRY_....
func (f *File) ReadCompCntr(cntr, entry uint32) (uint64, error) {
	var value uint64
	_, err := f.ioctl(abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_READ,
		handle(abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE, cntr),
		u64(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY, uint64(entry)),
		out(abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &value))
	return value, err
}

// AttachCompCntr makes a counter count the operations of a queue pair
// (UVERBS_METHOD_QP_ATTACH_COMP_CNTR). ops are IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_....
func (f *File) AttachCompCntr(qp, cntr, ops uint32) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
		handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp),
		handle(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, cntr),
		u32(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, ops))
	return err
}
