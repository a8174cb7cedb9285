// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"reflect"
	"strconv"

	"purerdma/abi"
)

// Method is the declaration of one method of an object, as in the kernel's sources. It lists the
// allowed and the required attributes of a request. The tables of methods and of commands validate
// the requests of this package, and name them in traces and errors.
type Method struct {
	Object uint16 // UVERBS_OBJECT_...
	ID     uint16 // UVERBS_METHOD_...
	Name   string // "CQ_CREATE" for UVERBS_METHOD_CQ_CREATE
	Since  string // the first Linux that has it, as "5.10"; "" if that is all that have the ioctl
	UHW    bool   // a driver may add UVERBS_ATTR_UHW_IN and _OUT
	Attrs  []AttrSpec

	byID     []*AttrSpec // Attrs by their numbers
	required uint64      // bits of the required attributes
}

// AttrSpec is the declaration of one attribute of a method.
type AttrSpec struct {
	ID       uint16
	Name     string // "comp_vector" for UVERBS_ATTR_CREATE_CQ_COMP_VECTOR
	Kind     AttrKind
	Object   uint16         // of a handle, UVERBS_OBJECT_...
	Min, Max int            // bytes of an input or output.
	Required bool           // the kernel refuses the method without it
	Type     reflect.Type   // what Buf holds: a mirrored struct, an integer, or nil for bytes
	Elems    []reflect.Type // by Attr.Elem, instead of Type. nil for no bytes

	bit uint64 // of the attribute in a set of the method's
}

// MethodOf returns the declaration of a method, or nil if the kernel's core does not have it.
func MethodOf(object, method uint16) *Method {
	if int(object) >= len(methods) || int(method) >= len(methods[object]) {
		return nil
	}
	return methods[object][method]
}

// Methods calls yield for every method, in no order.
func Methods(yield func(*Method) bool) {
	for _, object := range methods {
		for _, m := range object {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// methods indexes the declarations by object and method.
var methods = index(deviceMethods, memoryMethods, queueMethods, flowMethods)

func index(tables ...[]Method) [][]*Method {
	var all [][]*Method
	for _, t := range tables {
		for i := range t {
			m := &t[i]
			m.index()
			*at(at(&all, m.Object), m.ID) = m
		}
	}
	return all
}

// index prepares the lookup of attributes.
func (m *Method) index() {
	for i := range m.Attrs {
		s := &m.Attrs[i]
		s.bit = 1 << i
		if s.Required {
			m.required |= s.bit
		}
		*at(&m.byID, s.ID) = s
	}
}

// at returns the place of an index in a list, which grows for it.
func at[T any](list *[]T, i uint16) *T {
	if n := int(i) + 1 - len(*list); n > 0 {
		*list = append(*list, make([]T, n)...)
	}
	return &(*list)[i]
}

// Attr returns the declaration of an attribute, or nil. It includes the attributes of the driver's
// part.
func (m *Method) Attr(id uint16) *AttrSpec {
	if int(id) < len(m.byID) {
		return m.byID[id]
	}
	if m.UHW && id == abi.UVERBS_ATTR_UHW_IN {
		return &uhwIn
	}
	if m.UHW && id == abi.UVERBS_ATTR_UHW_OUT {
		return &uhwOut
	}
	return nil
}

var (
	uhwIn  = AttrSpec{ID: abi.UVERBS_ATTR_UHW_IN, Name: "uhw_in", Kind: AttrIn, Max: maxAttr, bit: 1 << 62}
	uhwOut = AttrSpec{ID: abi.UVERBS_ATTR_UHW_OUT, Name: "uhw_out", Kind: AttrOut, Max: maxAttr, bit: 1 << 63}
)

// maxAttr is the longest that an attribute can be.
const maxAttr = 1<<16 - 1

// objectNames has the names of enum uverbs_default_objects.
var objectNames = [...]string{
	abi.UVERBS_OBJECT_DEVICE: "DEVICE", abi.UVERBS_OBJECT_PD: "PD", abi.UVERBS_OBJECT_COMP_CHANNEL: "COMP_CHANNEL",
	abi.UVERBS_OBJECT_CQ: "CQ", abi.UVERBS_OBJECT_QP: "QP", abi.UVERBS_OBJECT_SRQ: "SRQ", abi.UVERBS_OBJECT_AH: "AH",
	abi.UVERBS_OBJECT_MR: "MR", abi.UVERBS_OBJECT_MW: "MW", abi.UVERBS_OBJECT_FLOW: "FLOW", abi.UVERBS_OBJECT_XRCD: "XRCD",
	abi.UVERBS_OBJECT_RWQ_IND_TBL: "RWQ_IND_TBL", abi.UVERBS_OBJECT_WQ: "WQ", abi.UVERBS_OBJECT_FLOW_ACTION: "FLOW_ACTION",
	abi.UVERBS_OBJECT_DM: "DM", abi.UVERBS_OBJECT_COUNTERS: "COUNTERS", abi.UVERBS_OBJECT_ASYNC_EVENT: "ASYNC_EVENT",
	abi.UVERBS_OBJECT_DMAH: "DMAH", abi.UVERBS_OBJECT_DMABUF: "DMABUF", abi.UVERBS_OBJECT_COMP_CNTR: "COMP_CNTR",
}

// ObjectName returns the name of an object, as "CQ" for UVERBS_OBJECT_CQ. For an unknown object, it
// returns the number.
func ObjectName(object uint16) string {
	if int(object) < len(objectNames) {
		return objectNames[object]
	}
	return "object " + strconv.Itoa(int(object))
}

// Name returns the name of the request's method, or for INVOKE_WRITE of the
// command in it, as the kernel spells it.
func (r *Request) Name() string {
	m := MethodOf(r.Object, r.Method)
	if m == nil {
		return ObjectName(r.Object) + " method " + strconv.Itoa(int(r.Method))
	}
	if code, ok := r.command(); ok {
		return commandName(code)
	}
	return "UVERBS_METHOD_" + m.Name
}

// command returns the code of the command that an INVOKE_WRITE carries.
func (r *Request) command() (uint32, bool) {
	if r.Object != abi.UVERBS_OBJECT_DEVICE || r.Method != abi.UVERBS_METHOD_INVOKE_WRITE {
		return 0, false
	}
	a := r.Find(abi.UVERBS_ATTR_WRITE_CMD)
	if a == nil || len(a.Buf) != 8 {
		return 0, false
	}
	return uint32(Number(a.Buf)), true
}
