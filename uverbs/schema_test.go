// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
)

// fakeTransport answers every request with the function answer.
type fakeTransport struct {
	answer func(*Request) error
	write  func([]byte) error
}

func (t *fakeTransport) Devices() ([]DeviceInfo, error)     { return nil, nil }
func (t *fakeTransport) Open(DeviceInfo) (Transport, error) { return t, nil }
func (t *fakeTransport) Ioctl(r *Request) error             { return t.answer(r) }
func (t *fakeTransport) Write(b []byte) error {
	if t.write != nil {
		return t.write(b)
	}
	return nil
}
func (t *fakeTransport) Mmap(int64, int) ([]byte, error) { return nil, syscall.EINVAL }
func (t *fakeTransport) Replace([]byte) error            { return nil }
func (t *fakeTransport) Munmap([]byte) error             { return nil }
func (t *fakeTransport) Close() error                    { return nil }

// giveFile fills in the response of a request that creates a file with one end of a pipe.
func giveFile(t testing.TB, r *Request) bool {
	var p [2]int
	give := func() int {
		if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
			t.Fatalf("syscall.Pipe2: %v", err)
		}
		t.Cleanup(func() { syscall.Close(p[1]) })
		return p[0]
	}
	if code, ok := r.command(); ok && code == abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL {
		*abi.View[abi.UverbsCreateCompChannelResp](r.Find(abi.UVERBS_ATTR_CORE_OUT).Buf) = abi.UverbsCreateCompChannelResp{FD: uint32(give())}
		return true
	}
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Kind == AttrNewFD {
			a.Value = uint64(give())
			return true
		}
	}
	return false
}

// TestEveryMethod calls every function, and checks each request against its declaration. Each
// method, and each command without a method, must have a function that uses it.
func TestEveryMethod(t *testing.T) {
	seen, given := map[*Method]bool{}, map[uint32]bool{}
	attrs := map[*Method]map[uint16]bool{}
	k := &fakeTransport{answer: func(r *Request) error {
		m := MethodOf(r.Object, r.Method)
		if m == nil {
			t.Errorf("%s has no declaration", r.Name())
			return nil
		}
		seen[m] = true
		if attrs[m] == nil {
			attrs[m] = map[uint16]bool{}
		}
		for _, a := range r.Attrs {
			attrs[m][a.ID] = true
		}
		if code, ok := r.command(); ok {
			given[code] = true
		}
		giveFile(t, r)
		return nil
	}, write: func(b []byte) error {
		given[abi.View[abi.UverbsCmdHdr](b).Command] = true
		return nil
	}}
	f, err := Open(k, DeviceInfo{Name: "test"})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	o := &objects{mem: make([]byte, 4096)}
	for _, c := range calls() {
		// A request that does not match its declaration is refused here.
		if err := c.run(f, o); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && c.name != "InfoHandles" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	o.close()
	if err := f.Close(); err != nil {
		t.Errorf("File.Close: %v", err)
	}
	for m := range Methods {
		if !seen[m] {
			t.Errorf("no function uses method %s of %s", m.Name, ObjectName(m.Object))
		}
		for _, a := range m.Attrs {
			if !attrs[m][a.ID] && !leftOut[m.Name+" "+a.Name] {
				t.Errorf("no function uses attribute %s of %s", a.Name, m.Name)
			}
		}
	}
	for c := range Commands {
		if !given[c.Code] && !hasMethod[c.String()] {
			t.Errorf("no function uses command %v", c)
		}
	}
}

// leftOut lists the attributes that no function uses. They are for queues in memory from user
// space, and for access to features by files. No driver uses them yet. File.Ioctl can pass
// them.
var leftOut = map[string]bool{
	"GET_CONTEXT fd_arr": true, "CQ_CREATE buffer_va": true, "CQ_CREATE buffer_length": true, "CQ_CREATE buffer_fd": true,
	"CQ_CREATE buffer_offset": true, "CQ_CREATE buf_umem": true, "QP_CREATE buf_umem": true, "QP_CREATE rq_buf_umem": true,
	"QP_CREATE sq_buf_umem": true, "SRQ_CREATE buf_umem": true,
	// These replace the address, see TestOptionalAttributes.
	"REG_MR dmah": true, "REG_MR fd": true, "REG_MR fd_offset": true,
}

// hasMethod lists the commands that are also methods. The functions use the methods.
var hasMethod = map[string]bool{
	"IB_USER_VERBS_CMD_GET_CONTEXT": true, "IB_USER_VERBS_CMD_QUERY_PORT": true, "IB_USER_VERBS_CMD_DEALLOC_PD": true,
	"IB_USER_VERBS_CMD_DESTROY_AH": true, "IB_USER_VERBS_CMD_DEREG_MR": true, "IB_USER_VERBS_CMD_DEALLOC_MW": true,
	"IB_USER_VERBS_CMD_CREATE_CQ": true, "IB_USER_VERBS_EX_CMD_CREATE_CQ": true, "IB_USER_VERBS_CMD_DESTROY_CQ": true,
	"IB_USER_VERBS_CMD_CREATE_QP": true, "IB_USER_VERBS_EX_CMD_CREATE_QP": true, "IB_USER_VERBS_CMD_DESTROY_QP": true,
	"IB_USER_VERBS_CMD_CREATE_SRQ": true, "IB_USER_VERBS_CMD_CREATE_XSRQ": true, "IB_USER_VERBS_CMD_DESTROY_SRQ": true,
	"IB_USER_VERBS_CMD_CLOSE_XRCD": true, "IB_USER_VERBS_EX_CMD_DESTROY_FLOW": true, "IB_USER_VERBS_EX_CMD_CREATE_WQ": true,
	"IB_USER_VERBS_EX_CMD_DESTROY_WQ": true, "IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL": true,
}

func TestOptionalAttributes(t *testing.T) {
	var got *Request
	f, _ := Open(&fakeTransport{answer: func(r *Request) error { got = r; return nil }}, DeviceInfo{})
	dmah := uint32(4)
	if _, err := f.RegMRMethod(1, nil, 0, 1, RegMROptions{DMAH: &dmah, DMABuf: &DMABuf{FD: 3, Offset: 5, Length: 6}}, Driver{}); err != nil {
		t.Fatalf("File.RegMRMethod: %v", err)
	}
	if a := got.Find(abi.UVERBS_ATTR_REG_MR_FD); a == nil || a.Value != 3 || got.Find(abi.UVERBS_ATTR_REG_MR_ADDR) != nil {
		t.Errorf("request = %+v, want file descriptor 3 and no address", got)
	}
}

func TestCheck(t *testing.T) {
	ok := func() *Request {
		return &Request{Object: abi.UVERBS_OBJECT_CQ, Method: abi.UVERBS_METHOD_CQ_CREATE, Attrs: []Attr{
			newHandle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE), u32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 1), u64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1),
			u32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0), out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32)),
		}}
	}
	write := func(code uint32, in, out int) *Request {
		return &Request{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_INVOKE_WRITE, Attrs: []Attr{
			u64(abi.UVERBS_ATTR_WRITE_CMD, uint64(code)), {ID: abi.UVERBS_ATTR_CORE_IN, Kind: AttrIn, Buf: make([]byte, in)},
			outBytes(abi.UVERBS_ATTR_CORE_OUT, make([]byte, out)),
		}}
	}
	for _, tc := range []struct {
		req  *Request
		want string
	}{
		{ok(), ""},
		{with(ok(), Attr{ID: abi.UVERBS_ATTR_UHW_OUT, Kind: AttrOut, Buf: make([]byte, 16)}), ""},
		{with(ok(), Attr{ID: 0x1234, Kind: AttrIn}), ""}, // a driver-specific attribute
		{with(ok(), u32(77, 0)), "77: the method has none"},
		{with(ok(), u32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 1)), "cqe: is there twice"},
		{with(ok(), u64(abi.UVERBS_ATTR_CREATE_CQ_FLAGS, 1)), ""},
		{with(ok(), in(abi.UVERBS_ATTR_CREATE_CQ_FLAGS, new(uint16))), "flags: has 2 bytes, want 4 to 8"},
		{with(ok(), handle(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, 1)), "event_fd: is of kind handle, want file descriptor"},
		{with(ok(), Attr{ID: abi.UVERBS_ATTR_CREATE_CQ_FLAGS, Kind: AttrIn, Elem: 1, Buf: make([]byte, 4)}), "flags: has no form 1"},
		{&Request{Object: abi.UVERBS_OBJECT_CQ, Method: abi.UVERBS_METHOD_CQ_CREATE}, "UVERBS_METHOD_CQ_CREATE: attribute handle: is missing"},
		{write(abi.IB_USER_VERBS_CMD_ALLOC_PD, 8, 4), ""},
		{write(abi.IB_USER_VERBS_CMD_ALLOC_PD, 4, 4), "IB_USER_VERBS_CMD_ALLOC_PD: attribute core_in: has 4 bytes, want 8"},
		{write(abi.IB_USER_VERBS_CMD_ALLOC_PD, 8, 8), "core_out: has 8 bytes, want 4"},
		{write(abi.IB_USER_VERBS_CMD_POLL_CQ, 16, 8+48), ""},
		{write(abi.IB_USER_VERBS_CMD_PEEK_CQ, 8, 8), "there is no command 0x16"},
	} {
		err := MethodOf(tc.req.Object, tc.req.Method).Check(tc.req)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("Check(%s) = %v, want %q", tc.req.Name(), err, tc.want)
		}
	}
}

func with(r *Request, a Attr) *Request {
	r.Attrs = append(r.Attrs, a)
	return r
}

// TestNoAnswer checks the results of a kernel that fails after it has written garbage. The
// functions must not return the garbage.
func TestNoAnswer(t *testing.T) {
	f, _ := Open(&fakeTransport{answer: func(r *Request) error {
		for i := range r.Attrs {
			for j := range r.Attrs[i].Buf {
				if r.Attrs[i].Kind == AttrOut {
					r.Attrs[i].Buf[j] = 0xee
				}
			}
		}
		return syscall.ENOMEM
	}}, DeviceInfo{})
	if r, err := f.QueryDevice(); r != (abi.UverbsQueryDeviceResp{}) || err != syscall.ENOMEM {
		t.Errorf("File.QueryDevice() = %+v, %v, want %+v, ENOMEM", r, err, (abi.UverbsQueryDeviceResp{}))
	}
	if r, err := f.RegMR(1, []byte{1}, 0, 0, Driver{}); r != (MR{}) || err != syscall.ENOMEM {
		t.Errorf("File.RegMR = %+v, %v, want %+v, ENOMEM", r, err, (MR{}))
	}
}

func TestErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP, syscall.ENOSYS, notSupp} {
		f, _ := Open(&fakeTransport{answer: func(*Request) error { return errno }}, DeviceInfo{})
		_, err := f.RegMRMethod(1, []byte{1}, 0, 0, RegMROptions{}, Driver{})
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "UVERBS_METHOD_REG_MR is not supported (needs Linux 6.17") {
			t.Errorf("RegMRMethod on a kernel that returns %v = %v, want ErrUnsupported with the method and Linux 6.17", errno, err)
		}
		if err := f.ModifyCQ(1, abi.UverbsCQModeration{}); err == nil || !strings.Contains(err.Error(), "IB_USER_VERBS_EX_CMD_MODIFY_CQ") {
			t.Errorf("ModifyCQ on a kernel that returns %v = %v, want the command in the error", errno, err)
		}
	}
	f, _ := Open(&fakeTransport{write: func([]byte) error { return syscall.EACCES }}, DeviceInfo{Node: "/dev/infiniband/uverbs0"})
	var ce *CredentialsError
	if err := f.NewDoorbell(1).Ring(); !errors.As(err, &ce) || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "fork or exec") {
		t.Errorf("Ring() = %v, want a CredentialsError with a hint about fork or exec", err)
	}
}

func TestCheckVersion(t *testing.T) {
	file := t.TempDir() + "/abi_version"
	if err := checkVersion(file); err != nil {
		t.Errorf("checkVersion without a file = %v, want nil", err)
	}
	for content, want := range map[string]string{"6\n": "", "7\n": "has ABI version 7, this program supports 6", "x\n": "version 0"} {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		err := checkVersion(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("checkVersion of %q = %v, want %q", content, err, want)
		}
	}
}
