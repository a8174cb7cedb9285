// SPDX-License-Identifier: Apache-2.0

package cmdtrace

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// executeVar makes the test program execute a command instead of the tests.
const executeVar = "PURERDMA_CMDTRACE_EXECUTE"

func TestMain(m *testing.M) {
	Main()
	if os.Getenv(executeVar) != "" {
		os.Exit(execute())
	}
	m.Run()
}

// response is a response of the kernel. It is global, because stacks move.
var response = [8]byte([]byte("response"))

// request is an ioctl with two attributes.
type request struct {
	hdr   abi.UverbsIoctlHdr
	attrs [2]abi.UverbsAttr
}

// mem is the memory of attributes. It is global, because stacks move.
var mem [12]byte

// newRequest returns GET_CONTEXT with an input of the driver of 8 bytes, and an attribute of the driver that the core does not declare.
func newRequest() *request {
	r := &request{hdr: abi.UverbsIoctlHdr{ObjectID: abi.UVERBS_OBJECT_DEVICE, MethodID: abi.UVERBS_METHOD_GET_CONTEXT, NumAttrs: 2, DriverID: 5}}
	r.hdr.Length = uint16(unsafe.Sizeof(*r))
	r.attrs[0] = abi.UverbsAttr{AttrID: abi.UVERBS_ATTR_UHW_IN, Len: 8, Data: binary.NativeEndian.Uint64([]byte("driver's"))}
	r.attrs[1] = abi.UverbsAttr{AttrID: 0x1234, Len: uint16(len(mem)), Data: uint64(uintptr(unsafe.Pointer(&mem)))}
	return r
}

var requests []*request // on the heap

// addr returns the address of the request, which does not move.
func (r *request) addr() uint64 {
	requests = append(requests, r)
	return uint64(uintptr(unsafe.Pointer(r)))
}

// execute executes a request on a file that has no such commands. Its status is 7 if the result is as expected.
func execute() int {
	f, err := os.Open("/dev/null")
	if err != nil {
		return 1
	}
	defer f.Close()
	mem[0], mem[11] = 'a', 'z'
	r := newRequest()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), abi.RDMA_VERBS_IOCTL, uintptr(unsafe.Pointer(r))); errno != unix.ENOTTY {
		return 2
	}
	return 7
}

// TestProgram records a program that executes one command, on a thread of its own choice.
func TestProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "commands")
	cmd := Program(t.Context(), file, "/proc/self/exe")
	cmd.Env = append(cmd.Env, executeVar+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("Program: %v, %s, want the status 7 of the traced program", err, out)
	}
	all, err := Read(file)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if len(all) != 1 {
		t.Fatalf("len(Read) = %d, want 1 command", len(all))
	}
	c := all[0]
	if c.Device != "ioctl" || c.Method != abi.UVERBS_METHOD_GET_CONTEXT || c.Driver != 5 || c.Errno != int64(syscall.ENOTTY) || len(c.Attrs) != 2 {
		t.Fatalf("Read = %+v, want GET_CONTEXT of driver 5 with 2 attributes, failed with ENOTTY", c)
	}
	if in := string(c.Attrs[0].In); in != "driver's" {
		t.Errorf("input of the driver = %q, want %q", in, "driver's")
	}
	if a := c.Attrs[1]; a.ID != 0x1234 || !bytes.Equal(a.In, []byte("a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00z")) || a.Out != nil {
		t.Errorf("attribute of the driver = %+v, want 12 bytes of input and no output", a)
	}
}

// TestNoProgram checks the status and the message of a program that cannot be started.
func TestNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "commands")
	cmd := Program(t.Context(), file, filepath.Join(t.TempDir(), "missing"))
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !bytes.Contains(out, []byte("trace: ")) {
		t.Errorf("Program(missing) = %d, %s, want 1 and a message", cmd.ProcessState.ExitCode(), out)
	}
	if _, err := Read(file); err == nil {
		t.Error("Read = nil error, want an error without a file")
	}
}

// TestOutputs reads commands of this process, and their outputs after the kernel's changes.
func TestOutputs(t *testing.T) {
	mem = [12]byte{0: 'a', 11: 'z'}
	r := newRequest()
	c := readIoctl(os.Getpid(), r.addr())
	c.readOutputs(os.Getpid())
	if a := c.Attrs[1]; a.Out != nil {
		t.Errorf("output of an unchanged attribute = %q, want none", a.Out)
	}
	mem[5] = 'm'
	c.readOutputs(os.Getpid())
	if a := c.Attrs[1]; !bytes.Equal(a.Out, mem[:]) || a.In[5] != 0 {
		t.Errorf("changed attribute = %+v, want the input without and the output with the change", a)
	}

	r.attrs[0] = abi.UverbsAttr{AttrID: abi.UVERBS_ATTR_UHW_OUT, Len: 12, Data: uint64(uintptr(unsafe.Pointer(&mem)))}
	c = readIoctl(os.Getpid(), r.addr())
	mem[6] = 'n'
	c.readOutputs(os.Getpid())
	if a := c.Attrs[0]; a.In != nil || !bytes.Equal(a.Out, mem[:]) {
		t.Errorf("output of the driver = %+v, want %q and no input", a, mem)
	}

	hdr := abi.UverbsCmdHdr{Command: abi.IB_USER_VERBS_CMD_QUERY_DEVICE, InWords: 4, OutWords: 2}
	w := &Command{Device: "uverbs", Bytes: binary.NativeEndian.AppendUint64(bytes.Clone(abi.Bytes(&hdr)), uint64(uintptr(unsafe.Pointer(&response))))}
	w.readOutputs(os.Getpid())
	if string(w.Result) != "response" {
		t.Errorf("response to a write = %q, want %q", w.Result, "response")
	}
}
