// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"bytes"
	"reflect"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/trace"
)

// FuzzAnswers calls every function on a kernel whose responses are arbitrary.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{2, 1, 0, 0, 0, 2, 0, 0, 0, 3})
	all := calls()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		rest := data
		k := &fakeTransport{answer: func(r *Request) error {
			r.describe()
			for i := range r.Attrs {
				switch a := &r.Attrs[i]; a.Kind {
				case AttrOut:
					for n := 0; n < len(a.Buf); {
						if len(rest) == 0 {
							rest = data
						}
						c := copy(a.Buf[n:], rest)
						n, rest = n+c, rest[c:]
					}
				case AttrNewHandle:
					a.Value = uint64(len(rest)) << 40
				}
			}
			if data[0]%16 == 15 {
				return syscall.EINVAL
			}
			giveFile(t, r)
			r.describe()
			return nil
		}, write: func(b []byte) error { describeWrite(b); return nil }}
		file, err := Open(k, DeviceInfo{Name: "fuzz"})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		o := &objects{mem: make([]byte, 64)}
		for _, c := range all {
			if c.name != "AsyncChannel.Next" { // which waits
				c.run(file, o)
			}
		}
		o.close()
		file.Close()
	})
}

// FuzzTrace decodes requests that no program would send.
func FuzzTrace(f *testing.F) {
	f.Add(uint16(abi.UVERBS_OBJECT_CQ), uint16(abi.UVERBS_METHOD_CQ_CREATE), []byte{1, 0, 0, 4, 1, 2, 3, 4})
	f.Add(uint16(abi.UVERBS_OBJECT_DEVICE), uint16(abi.UVERBS_METHOD_INVOKE_WRITE), []byte{2, 0, 0, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5})
	f.Add(uint16(0x1001), uint16(0x1002), []byte{2, 0x10, 0, 3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, object, method uint16, data []byte) {
		r := &Request{Object: object, Method: method}
		for b := data; len(b) >= 4; {
			n := min(int(b[3]), len(b)-4)
			a := Attr{ID: uint16(b[0]) | uint16(b[1])<<8, Kind: AttrKind(b[2] & 7), Elem: b[2] >> 3, Buf: b[4 : 4+n]}
			a.Value = Number(a.Buf)
			r.Attrs = append(r.Attrs, a)
			b = b[4+n:]
		}
		if m := MethodOf(object, method); m != nil {
			m.Check(r)
		}
		in, out := r.describe()
		var line bytes.Buffer
		trace.New(&line).Command("fuzz", r.Name(), in, out, nil, 0)
		if bytes.Count(line.Bytes(), []byte("\n")) != 1 {
			t.Errorf("trace = %q, want one line", line.String())
		}
		name, cmd := describeWrite(data)
		trace.New(&line).Command("fuzz", name, cmd, nil, nil, 0)
	})
}

// FuzzEvents decodes records of event files.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d abi.UverbsAsyncEventDesc
		copy(abi.Bytes(&d), b)
		e := asyncEvent(&d)
		if e.Type.String() == "" || uint32(e.Type) != d.EventType || e.Element != d.Element {
			t.Errorf("asyncEvent(%+v) = %+v of type %v, want the same type and element", d, e, e.Type)
		}
		if known := int64(e.Type) < int64(len(eventTypes)); known != (e.Type.Element() != ElementUnknown) {
			t.Errorf("Element() of event type %v = %v, want ElementUnknown only for an unknown type", e.Type, e.Type.Element())
		}
		if got := trace.Decode(reflect.TypeFor[abi.UverbsAsyncEventDesc](), b); got != d {
			t.Errorf("trace.Decode = %+v, want %+v", got, d)
		}
	})
}
