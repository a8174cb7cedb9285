// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"log/slog"
	"reflect"
	"time"

	"purerdma/abi"
	"purerdma/internal/trace"
)

// Traced returns a Kernel that does the same as k and logs every command to l at level Debug. It
// logs the decoded attributes, the response or error, and the duration. If l is nil, the
// environment variable RDMA_TRACE decides at this call. If it is set, and not to 0, commands are
// written to standard error, one line each. Otherwise Traced returns k itself, which costs nothing.
func Traced(k Kernel, l *slog.Logger) Kernel {
	t := trace.Select(l)
	if t == nil {
		return k
	}
	return &tracedKernel{Kernel: k, tracer: t}
}

type tracedKernel struct {
	Kernel
	tracer *trace.Tracer
}

func (k *tracedKernel) Open(info DeviceInfo) (Transport, error) {
	start := time.Now()
	t, err := k.Kernel.Open(info)
	k.tracer.Command(info.Name, "open", trace.List{{Name: "path", Value: info.Node}, {Name: "driver", Value: info.DriverID}}, nil, err, time.Since(start))
	if err != nil {
		return nil, err
	}
	return &tracedTransport{Transport: t, device: info.Name, tracer: k.tracer}, nil
}

type tracedTransport struct {
	Transport
	device string
	tracer *trace.Tracer
}

func (t *tracedTransport) Ioctl(req *Request) error {
	start := time.Now()
	err := t.Transport.Ioctl(req)
	took := time.Since(start)
	in, out := req.describe()
	t.tracer.Command(t.device, req.Name(), alone(in), alone(out), err, took)
	return err
}

func (t *tracedTransport) Write(cmd []byte) error {
	start := time.Now()
	err := t.Transport.Write(cmd)
	took := time.Since(start)
	name, in := describeWrite(cmd)
	t.tracer.Command(t.device, "write "+name, alone(in), nil, err, took)
	return err
}

func (t *tracedTransport) Mmap(offset int64, length int) ([]byte, error) {
	start := time.Now()
	b, err := t.Transport.Mmap(offset, length)
	t.tracer.Command(t.device, "mmap", trace.List{{Name: "offset", Value: uint64(offset)}, {Name: "length", Value: length}}, nil, err, time.Since(start))
	return b, err
}

func (t *tracedTransport) Close() error {
	start := time.Now()
	err := t.Transport.Close()
	t.tracer.Command(t.device, "close", nil, nil, err, time.Since(start))
	return err
}

// alone returns the only struct of a list in place of the list, and nil in place of an empty list.
func alone(l trace.List) any {
	switch {
	case len(l) == 0:
		return nil
	case len(l) == 1 && (l[0].Name == "cmd" || l[0].Name == "resp"):
		return l[0].Value
	}
	return l
}

// describe splits a request into inputs and outputs. It accepts requests of any form, even if they
// differ from their declaration.
func (r *Request) describe() (in, out trace.List) {
	m := MethodOf(r.Object, r.Method)
	code, isCommand := r.command()
	for i := range r.Attrs {
		a := &r.Attrs[i]
		var s *AttrSpec
		if m != nil {
			s = m.Attr(a.ID)
		}
		it := trace.Item{Name: "attr " + trace.Handle(a.ID).String()}
		if s != nil {
			it.Name = s.Name
		}
		if isCommand && a.Kind <= AttrOut {
			switch a.ID {
			case abi.UVERBS_ATTR_WRITE_CMD:
				continue // it is the name
			case abi.UVERBS_ATTR_CORE_IN:
				in = append(in, commandItem(code, a.Buf, false))
				continue
			case abi.UVERBS_ATTR_CORE_OUT:
				out = append(out, commandItem(code, a.Buf, true))
				continue
			}
		}
		switch a.Kind {
		case AttrHandle:
			it.Value = trace.Handle(a.Value)
		case AttrFD:
			it.Value = trace.FD(int32(a.Value))
		case AttrNewHandle:
			it.Value = trace.Handle(a.Value)
		case AttrNewFD:
			it.Value = trace.FD(int32(a.Value))
		default:
			it.Value = attrValue(s, a)
		}
		switch a.Kind {
		case AttrOut, AttrNewHandle, AttrNewFD:
			out = append(out, it)
		default:
			in = append(in, it)
		}
	}
	return in, out
}

// attrValue decodes an input or output by its declaration, if there is one.
func attrValue(s *AttrSpec, a *Attr) any {
	var t reflect.Type
	if s != nil {
		t = s.Type
		if int(a.Elem) < len(s.Elems) {
			t = s.Elems[a.Elem]
		}
	}
	switch {
	case t != nil && s.Elems == nil && s.Max == maxAttr:
		return trace.DecodeAll(t, a.Buf)
	case t != nil:
		return trace.Decode(t, a.Buf)
	case len(a.Buf) == 4 || len(a.Buf) == 8:
		return Number(a.Buf)
	}
	return a.Buf
}

// commandItem decodes the input or the response of a command.
func commandItem(code uint32, b []byte, answer bool) trace.Item {
	it := trace.Item{Name: "cmd", Value: b}
	if answer {
		it.Name = "resp"
	}
	c := CommandOf(code)
	if c == nil {
		return it
	}
	t := c.In
	if answer {
		t = c.Out
	}
	if t != nil {
		it.Value = trace.Decode(t, b)
	}
	return it
}

// describeWrite decodes a command in the form of write(2).
func describeWrite(cmd []byte) (name string, in trace.List) {
	header := abi.Size[abi.UverbsCmdHdr]()
	if len(cmd) < header {
		return "short command", trace.List{{Name: "bytes", Value: cmd}}
	}
	hdr := trace.Decode(reflect.TypeFor[abi.UverbsCmdHdr](), cmd).(abi.UverbsCmdHdr)
	if hdr.Command&ex != 0 {
		header += abi.Size[abi.UverbsExCmdHdr]()
	}
	return commandName(hdr.Command), trace.List{commandItem(hdr.Command, cmd[min(len(cmd), header):], false)}
}
