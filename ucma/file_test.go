// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/trace"
)

// recorder is a device that records the commands and returns err for each of them.
type recorder struct {
	frames [][]byte
	err    error
}

func (r *recorder) Write(b []byte) error {
	r.frames = append(r.frames, append([]byte(nil), b...))
	return r.err
}

func (r *recorder) WriteWhenReadable(_ context.Context, b []byte) error { return r.Write(b) }
func (r *recorder) Wake()                                               {}
func (r *recorder) Control(fn func(fd uintptr)) error                   { fn(7); return nil }
func (r *recorder) Close() error                                        { return nil }

// TestFrames checks the command number in each command, the exact size of its struct, the size
// of its response buffer, and the offset of its ID. The kernel reads the whole struct, whatever
// size the header declares.
func TestFrames(t *testing.T) {
	const id = 0x11223344
	v4 := netip.MustParseAddrPort("10.8.0.1:7471")
	for _, tc := range []struct {
		name     string
		call     func(f *File) error
		cmd      uint32
		in, out  uint16
		idOffset int // in the struct, -1 if there is none
	}{
		{"CREATE_ID", func(f *File) error { _, err := f.CreateID(9, abi.RDMA_PS_TCP, 0); return err }, 0, 24, 4, -1},
		{"DESTROY_ID", func(f *File) error { _, err := f.DestroyID(id); return err }, 1, 16, 4, 8},
		{"RESOLVE_ROUTE", func(f *File) error { return f.ResolveRoute(id, time.Second) }, 4, 8, 0, 0},
		{"CONNECT", func(f *File) error { return f.Connect(id, &abi.UcmConnParam{}, abi.UcmECE{}) }, 6, 288, 0, 272},
		{"LISTEN", func(f *File) error { return f.Listen(id, 5) }, 7, 8, 0, 0},
		{"ACCEPT", func(f *File) error { return f.Accept(id, 3, &abi.UcmConnParam{}, abi.UcmECE{}) }, 8, 296, 0, 280},
		{"ESTABLISH", func(f *File) error { return f.Establish(id) }, 8, 296, 0, 280},
		{"REJECT", func(f *File) error { return f.Reject(id, []byte("no"), 0) }, 9, 264, 0, 0},
		{"DISCONNECT", func(f *File) error { return f.Disconnect(id) }, 10, 4, 0, 0},
		{"INIT_QP_ATTR", func(f *File) error { return f.InitQPAttr(id, 1, new(QPAttr)) }, 11, 16, 144, 8},
		{"GET_EVENT", func(f *File) error { _, err := f.GetEvent(context.Background()); return err }, 12, 8, 336, -1},
		{"SET_OPTION", func(f *File) error { return f.SetOption(id, 0, 1, []byte{1, 0, 0, 0}) }, 14, 24, 0, 8},
		{"NOTIFY", func(f *File) error { return f.Notify(id, 4) }, 15, 8, 0, 0},
		{"MIGRATE_ID", func(f *File) error { _, err := f.MigrateID(id, f); return err }, 18, 16, 4, 8},
		{"QUERY", func(f *File) error { return f.QueryAddr(id, new(Addrs)) }, 19, 16, 280, 8},
		{"BIND", func(f *File) error { return f.Bind(id, IP(v4)) }, 20, 136, 0, 0},
		{"RESOLVE_ADDR", func(f *File) error { return f.ResolveAddr(id, Addr{}, IP(v4), time.Second) }, 21, 272, 0, 0},
		{"LEAVE_MCAST", func(f *File) error { _, err := f.LeaveMcast(id); return err }, 17, 16, 4, 8},
		{"QUERY GID", func(f *File) error { return f.QueryGID(id, new(Addrs)) }, 19, 16, 280, 8},
		{"QUERY PATH", func(f *File) error { _, err := f.QueryPath(id); return err }, 19, 16, 8 + 6*72, 8},
		{"QUERY IB_SERVICE", func(f *File) error { _, err := f.QueryIBService(id); return err }, 19, 16, 8 + 16*176, 8},
		{"JOIN_MCAST", func(f *File) error { _, err := f.JoinMcast(id, 3, IP(v4), 1); return err }, 22, 152, 4, 16},
		{"RESOLVE_IB_SERVICE", func(f *File) error { return f.ResolveIBService(id, abi.UcmIBService{}) }, 23, 88, 0, 0},
		{"WRITE_CM_EVENT", func(f *File) error { return f.WriteCMEvent(id, 18, 0, 5) }, 24, 320, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dev := &recorder{}
			if err := tc.call(New(dev)); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			if len(dev.frames) != 1 {
				t.Fatalf("%d writes, want 1", len(dev.frames))
			}
			b := dev.frames[0]
			le := binary.NativeEndian
			if cmd, in, out := le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]); cmd != tc.cmd || in != tc.in || out != tc.out {
				t.Errorf("header = command %d, in %d, out %d, want %d, %d, %d", cmd, in, out, tc.cmd, tc.in, tc.out)
			}
			if len(b) < 8+int(tc.in) {
				t.Fatalf("wrote %d bytes, want at least %d, which the kernel reads", len(b), 8+tc.in)
			}
			if tc.idOffset >= 0 && le.Uint32(b[8+tc.idOffset:]) != id {
				t.Errorf("ID at offset %d = %#x, want %#x", tc.idOffset, le.Uint32(b[8+tc.idOffset:]), id)
			}
		})
	}
}

func TestAcceptAndEstablishValid(t *testing.T) {
	const valid = 8 + 8 + 271 // header, uid, last byte of the parameters
	dev := &recorder{}
	f := New(dev)
	f.Accept(1, 1, &abi.UcmConnParam{}, abi.UcmECE{})
	f.Establish(1)
	if dev.frames[0][valid] != 1 || dev.frames[1][valid] != 0 {
		t.Errorf("valid is %d for ACCEPT and %d for the RTU, want 1 and 0", dev.frames[0][valid], dev.frames[1][valid])
	}
}

func TestOpError(t *testing.T) {
	f := New(&recorder{err: syscall.ECONNREFUSED})
	err := f.Connect(5, &abi.UcmConnParam{}, abi.UcmECE{})
	var op *OpError
	if !errors.As(err, &op) || op.Op != "CONNECT" || op.ID != 5 {
		t.Fatalf("Connect = %#v, want an OpError with operation CONNECT and ID 5", err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Connect = %v, want ECONNREFUSED", err)
	}
	if s := err.Error(); !strings.Contains(s, "CONNECT id 5") || !strings.Contains(s, "refused") {
		t.Errorf("Error() = %q, want CONNECT, the ID and the cause in it", s)
	}
}

func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-time.Second:         1,
		0:                    1,
		time.Nanosecond:      1,
		time.Millisecond:     1,
		time.Millisecond + 1: 2,
		2 * time.Second:      2000,
		1<<63 - 1:            1<<31 - 1,
	} {
		if got := milliseconds(d); got != want {
			t.Errorf("milliseconds(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestRejectMaxLength(t *testing.T) {
	dev := &recorder{}
	New(dev).Reject(1, make([]byte, 300), 0)
	if n := dev.frames[0][8+4]; n != 255 {
		t.Errorf("length of 300 bytes of private data = %d, want 255, the maximum of its field", n)
	}
}

// oldKernel rejects the commands from number 23 on.
type oldKernel struct{ recorder }

func (k *oldKernel) Write(b []byte) error {
	if binary.NativeEndian.Uint32(b) >= 23 {
		return syscall.EINVAL
	}
	return k.recorder.Write(b)
}

// newKernel has all commands. It has one ID, in a state that allows none of them.
type newKernel struct{ recorder }

func (k *newKernel) Write(b []byte) error {
	if id := binary.NativeEndian.Uint32(b[8:]); id != 1 {
		return syscall.ENOENT
	}
	return syscall.EINVAL
}

func TestUnsupportedCommand(t *testing.T) {
	err := New(&oldKernel{}).ResolveIBService(1, abi.UcmIBService{})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "RESOLVE_IB_SERVICE") || !strings.Contains(err.Error(), "7.3") {
		t.Errorf("ResolveIBService on an old kernel = %v, want ErrUnsupported with RESOLVE_IB_SERVICE and 7.3", err)
	}
	err = New(&newKernel{}).WriteCMEvent(1, 18, 0, 0)
	if !errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("WriteCMEvent on a new kernel = %v, want EINVAL without ErrUnsupported", err)
	}
	err = New(&recorder{err: syscall.ENOSYS}).newQuery()
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("QueryIBService that returns ENOSYS = %v, want ErrUnsupported", err)
	}
}

func (f *File) newQuery() error { _, err := f.QueryIBService(1); return err }

func TestForeignVersion(t *testing.T) {
	if err := checkVersion("4\n"); err != nil {
		t.Errorf("checkVersion(4): %v", err)
	}
	var ve *VersionError
	if err := checkVersion("5\n"); !errors.As(err, &ve) || !strings.Contains(err.Error(), "5") || !strings.Contains(err.Error(), "4") {
		t.Errorf("checkVersion(5) = %v, want a VersionError with both versions", err)
	}
	if err := checkVersion(""); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("checkVersion of an empty file = %v, want ErrUnsupported", err)
	}
}

func TestOtherCredentials(t *testing.T) {
	f := New(&recorder{err: syscall.EACCES})
	for name, call := range map[string]func() error{
		"CONNECT":   func() error { return f.Connect(1, &abi.UcmConnParam{}, abi.UcmECE{}) },
		"GET_EVENT": func() error { _, err := f.GetEvent(context.Background()); return err },
		"BIND":      func() error { return f.Bind(1, IP(netip.MustParseAddrPort("10.0.0.1:80"))) },
	} {
		err := call()
		if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "other credentials") {
			t.Errorf("%s = %v, want EACCES and a hint about other credentials", name, err)
		}
		if strings.Contains(err.Error(), "1024") != (name == "BIND") {
			t.Errorf("%s = %v, want a hint about port 1024 only from BIND", name, err)
		}
	}
}

func TestTrace(t *testing.T) {
	var b strings.Builder
	f := &File{dev: &recorder{}, tracer: trace.New(&b)}
	f.Listen(3, 7)
	f.CreateID(9, abi.RDMA_PS_TCP, 0)
	f.QueryPath(1)
	f.GetEvent(context.Background())
	f.dev = &recorder{err: syscall.EINVAL}
	f.Connect(3, &abi.UcmConnParam{QPNum: 77}, abi.UcmECE{})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{"LISTEN(ID=3, Backlog=7) = ", "CREATE_ID(UID=9", "QUERY(", "GET_EVENT(", "CONNECT("} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], "rdma_cm: "+want) {
			t.Fatalf("line %d does not begin with %q:\n%s", i, want, b.String())
		}
	}
	if !strings.Contains(lines[4], "EINVAL") || !strings.Contains(lines[4], "77") {
		t.Errorf("trace line of the failed CONNECT = %q, want EINVAL and QP number 77 in it", lines[4])
	}
}
