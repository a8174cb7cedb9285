// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"

	"purerdma/abi"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/trace"
	"purerdma/uverbs"
)

// recorded is a command of a program to the kernel.
type recorded struct{ *cmdtrace.Command }

// form is a command as a map from the name of a field to its value.
type form map[string]string

// key identifies a command, so that two programs' commands can be compared.
func (c recorded) key() string {
	switch c.Device {
	case "ioctl":
		req := uverbs.Request{Object: c.Object, Method: c.Method}
		for _, a := range c.Attrs {
			req.Attrs = append(req.Attrs, uverbs.Attr{ID: a.ID, Buf: a.In})
		}
		return req.Name()
	case "rdma_cm":
		return "RDMA_USER_CM_CMD_" + strconv.Itoa(int(c.header().Cmd)) + " " + c.cmType().Name()
	}
	hdr := trace.Decode(reflect.TypeFor[abi.UverbsCmdHdr](), c.Bytes).(abi.UverbsCmdHdr)
	if cmd := uverbs.CommandOf(hdr.Command); cmd != nil {
		return cmd.String()
	}
	return fmt.Sprintf("write %#x", hdr.Command)
}

func (c recorded) header() abi.UcmCmdHdr {
	return trace.Decode(reflect.TypeFor[abi.UcmCmdHdr](), c.Bytes).(abi.UcmCmdHdr)
}

// cmTypes contains the inputs of the connection manager's commands.
var cmTypes = map[uint32]reflect.Type{
	abi.RDMA_USER_CM_CMD_CREATE_ID:     reflect.TypeFor[abi.UcmCreateID](),
	abi.RDMA_USER_CM_CMD_DESTROY_ID:    reflect.TypeFor[abi.UcmDestroyID](),
	abi.RDMA_USER_CM_CMD_BIND_IP:       reflect.TypeFor[abi.UcmBindIP](),
	abi.RDMA_USER_CM_CMD_RESOLVE_IP:    reflect.TypeFor[abi.UcmResolveIP](),
	abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE: reflect.TypeFor[abi.UcmResolveRoute](),
	abi.RDMA_USER_CM_CMD_QUERY_ROUTE:   reflect.TypeFor[abi.UcmQuery](),
	abi.RDMA_USER_CM_CMD_CONNECT:       reflect.TypeFor[abi.UcmConnect](),
	abi.RDMA_USER_CM_CMD_LISTEN:        reflect.TypeFor[abi.UcmListen](),
	abi.RDMA_USER_CM_CMD_ACCEPT:        reflect.TypeFor[abi.UcmAccept](),
	abi.RDMA_USER_CM_CMD_REJECT:        reflect.TypeFor[abi.UcmReject](),
	abi.RDMA_USER_CM_CMD_DISCONNECT:    reflect.TypeFor[abi.UcmDisconnect](),
	abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:  reflect.TypeFor[abi.UcmInitQPAttr](),
	abi.RDMA_USER_CM_CMD_GET_EVENT:     reflect.TypeFor[abi.UcmGetEvent](),
	abi.RDMA_USER_CM_CMD_SET_OPTION:    reflect.TypeFor[abi.UcmSetOption](),
	abi.RDMA_USER_CM_CMD_NOTIFY:        reflect.TypeFor[abi.UcmNotify](),
	abi.RDMA_USER_CM_CMD_MIGRATE_ID:    reflect.TypeFor[abi.UcmMigrateID](),
	abi.RDMA_USER_CM_CMD_QUERY:         reflect.TypeFor[abi.UcmQuery](),
	abi.RDMA_USER_CM_CMD_BIND:          reflect.TypeFor[abi.UcmBind](),
	abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:  reflect.TypeFor[abi.UcmResolveAddr](),
}

func (c recorded) cmType() reflect.Type {
	if t := cmTypes[c.header().Cmd]; t != nil {
		return t
	}
	return reflect.TypeFor[[0]byte]()
}

// varying lists the fields that differ between runs. They are handles, ids, addresses of
// memory, and numbers chosen by the kernel or a program.
var varying = map[string]bool{
	"Response": true, "Start": true, "HCAVA": true, "ID": true, "UID": true, "UserHandle": true, "user_handle": true,
	"QPHandle": true, "PDHandle": true, "CQHandle": true, "MRHandle": true, "SRQHandle": true, "AHHandle": true, "Handle": true,
	"QPN": true, "QPNum": true, "DestQPNum": true, "RQPSN": true, "SQPSN": true, "FD": true, "Info": true, "OptVal": true, "Optval": true,
}

// form decodes a command.
func (c recorded) form() form {
	f := form{}
	switch c.Device {
	case "ioctl":
		f["driver"] = abi.DriverID(c.Driver).String()
		m := uverbs.MethodOf(c.Object, c.Method)
		code := uint32(0)
		for _, a := range c.Attrs {
			if m != nil && m.Name == "INVOKE_WRITE" && a.ID == abi.UVERBS_ATTR_WRITE_CMD {
				code = uint32(uverbs.Number(a.In))
			}
		}
		for _, a := range c.Attrs {
			c.attr(f, m, &a, code)
		}
	case "rdma_cm":
		hdr := c.header()
		f["hdr"] = fmt.Sprintf("in %d out %d", hdr.In, hdr.Out)
		f.add("", c.cmType(), c.Bytes[abi.Size[abi.UcmCmdHdr]():])
	default:
		hdr := trace.Decode(reflect.TypeFor[abi.UverbsCmdHdr](), c.Bytes).(abi.UverbsCmdHdr)
		f["hdr"] = fmt.Sprintf("in %d out %d words", hdr.InWords, hdr.OutWords)
		if cmd := uverbs.CommandOf(hdr.Command); cmd != nil {
			f.add("core_in.", cmd.In, c.Bytes[abi.Size[abi.UverbsCmdHdr]():])
		}
	}
	return f
}

func (c recorded) attr(f form, m *uverbs.Method, a *cmdtrace.Attr, code uint32) {
	name := "attr " + strconv.Itoa(int(a.ID))
	var s *uverbs.AttrSpec
	if m != nil {
		if s = m.Attr(a.ID); s != nil {
			name = s.Name
		}
	}
	f[name] = fmt.Sprintf("len %d flags %d elem %d", a.Len, a.Flags, a.Elem)
	if len(a.In) == 0 || s == nil || varying[name] {
		return
	}
	t := s.Type
	if name == "core_in" {
		if cmd := uverbs.CommandOf(code); cmd != nil {
			t = cmd.In
		}
	}
	if t == nil || t == reflect.TypeFor[abi.Pointer]() {
		f[name+" ="] = hex.EncodeToString(a.In)
		return
	}
	f.add(name+".", t, a.In)
}

// add flattens a struct.
func (f form) add(prefix string, t reflect.Type, b []byte) {
	if t.Kind() != reflect.Struct {
		f[prefix+"="] = hex.EncodeToString(b)
		return
	}
	for i := range t.NumField() {
		fd := t.Field(i)
		end := fd.Offset + fd.Type.Size()
		if fd.Name == "_" || varying[fd.Name] || int(end) > len(b) {
			continue
		}
		part := b[fd.Offset:end]
		if fd.Type.Kind() == reflect.Struct && fd.Type != reflect.TypeFor[abi.Pointer]() {
			f.add(prefix+fd.Name+".", fd.Type, part)
			continue
		}
		f[prefix+fd.Name] = hex.EncodeToString(part)
	}
}
