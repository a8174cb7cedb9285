// SPDX-License-Identifier: Apache-2.0

package cmdtrace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/uverbs"
)

// recorder traces a program with all its threads.
type recorder struct {
	threads map[int]*thread
	all     []*Command
}

// thread is a thread of the program. pending is its current command in the kernel.
type thread struct {
	pending *Command
}

// record runs a program, writes its commands to a file, and returns its status.
func record(file string, argv []string) (int, error) {
	runtime.LockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
		return 0, err
	}
	const exitKill = 1 << 20 // PTRACE_O_EXITKILL
	options := unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | exitKill
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return 0, err
	}
	r := &recorder{threads: map[int]*thread{pid: {}}}
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return 0, err
	}
	status, err := r.run(pid)
	if err != nil {
		return 0, err
	}
	b, err := json.Marshal(r.all)
	if err != nil {
		return 0, err
	}
	return status, os.WriteFile(file, b, 0o666)
}

// run follows the threads until the program ends, and returns its status.
func (r *recorder) run(pid int) (int, error) {
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case ws.Exited() || ws.Signaled():
			if tid == pid {
				if ws.Signaled() {
					return 128 + int(ws.Signal()), nil
				}
				return ws.ExitStatus(), nil
			}
			delete(r.threads, tid)
			continue
		case !ws.Stopped():
			continue
		}
		signal := 0
		switch s := ws.StopSignal(); {
		case s == unix.SIGTRAP|0x80:
			r.syscall(tid)
		case s == unix.SIGTRAP: // a new thread, or exec
		case s == unix.SIGSTOP && r.threads[tid] == nil: // start of a new thread
		default:
			signal = int(s)
		}
		if r.threads[tid] == nil {
			r.threads[tid] = &thread{}
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("continue: %w", err)
		}
	}
}

// syscallInfo is struct ptrace_syscall_info of linux/ptrace.h.
type syscallInfo struct {
	Op   uint8
	_    [3]byte
	Arch uint32
	IP   uint64
	SP   uint64
	Nr   uint64 // at the end, the result
	Args [6]uint64
	_    uint64
}

const (
	getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	infoEntry      = 1
	infoExit       = 2
)

// syscall handles a thread that enters or leaves a system call.
func (r *recorder) syscall(tid int) {
	th := r.threads[tid]
	if th == nil {
		th = &thread{}
		r.threads[tid] = th
	}
	var info syscallInfo
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); e != 0 {
		return
	}
	switch info.Op {
	case infoExit:
		if th.pending != nil {
			if res := int64(info.Nr); res < 0 && res > -4096 {
				th.pending.Errno = -res
			} else {
				th.pending.readOutputs(tid)
			}
			r.all = append(r.all, th.pending)
			th.pending = nil
		}
	case infoEntry:
		switch {
		case info.Nr == unix.SYS_IOCTL && uint32(info.Args[1]) == abi.RDMA_VERBS_IOCTL:
			th.pending = readIoctl(tid, info.Args[2])
		case info.Nr == unix.SYS_WRITE:
			th.pending = readWrite(tid, info.Args)
		case info.Nr == unix.SYS_MMAP && strings.HasPrefix(fileOf(tid, info.Args[4]), devices):
			th.pending = &Command{Device: "mmap", Offset: int64(info.Args[5]), Length: info.Args[1]}
		}
	}
}

// memory reads a thread's memory. Unreadable memory is returned as zeros.
func memory(tid int, addr uint64, n int) []byte {
	b := make([]byte, n)
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return b
	}
	defer f.Close()
	f.ReadAt(b, int64(addr))
	return b
}

// kindUnknown is the kind of an attribute that the core of the kernel does not declare.
const kindUnknown = uverbs.AttrKind(255)

func readIoctl(tid int, addr uint64) *Command {
	size := abi.Size[abi.UverbsIoctlHdr]()
	hdr := *abi.View[abi.UverbsIoctlHdr](memory(tid, addr, size))
	c := &Command{Device: "ioctl", Object: hdr.ObjectID, Method: hdr.MethodID, Driver: hdr.DriverID}
	m := uverbs.MethodOf(hdr.ObjectID, hdr.MethodID)
	n := abi.Size[abi.UverbsAttr]()
	for i := range int(hdr.NumAttrs) {
		w := *abi.View[abi.UverbsAttr](memory(tid, addr+uint64(size+i*n), n))
		a := Attr{ID: w.AttrID, Len: w.Len, Flags: w.Flags, Elem: w.ElemID}
		kind := kindUnknown
		if m != nil {
			if s := m.Attr(w.AttrID); s != nil {
				kind = s.Kind
			}
		}
		switch {
		case kind == uverbs.AttrOut:
			a.addr = w.Data
		case kind != uverbs.AttrIn && kind != kindUnknown:
		case w.Len <= 8:
			a.In = append(a.In, abi.Bytes(&w.Data)[:w.Len]...)
		default:
			a.In = memory(tid, w.Data, int(w.Len))
			if kind == kindUnknown {
				a.addr = w.Data
			}
		}
		c.Attrs = append(c.Attrs, a)
	}
	return c
}

// readOutputs reads the outputs of a command that has succeeded.
func (c *Command) readOutputs(tid int) {
	for i := range c.Attrs {
		a := &c.Attrs[i]
		if a.addr == 0 {
			continue
		}
		if out := memory(tid, a.addr, int(a.Len)); a.In == nil || !bytes.Equal(out, a.In) {
			a.Out = out
		}
	}
	hdr := abi.Size[abi.UverbsCmdHdr]()
	if c.Device != "uverbs" || len(c.Bytes) < hdr+8 {
		return
	}
	if h := abi.View[abi.UverbsCmdHdr](c.Bytes); h.OutWords > 0 {
		c.Result = memory(tid, binary.NativeEndian.Uint64(c.Bytes[hdr:]), 4*int(h.OutWords))
	}
}

// devices is the directory of the devices.
const devices = "/dev/infiniband/"

// fileOf returns the name of the file that a thread has open, or "".
func fileOf(tid int, fd uint64) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	if err != nil {
		return ""
	}
	return name
}

func readWrite(tid int, args [6]uint64) *Command {
	link := fileOf(tid, args[0])
	if !strings.HasPrefix(link, devices) || args[2] > 1<<16 {
		return nil
	}
	c := &Command{Device: "uverbs"}
	if strings.HasSuffix(link, "rdma_cm") {
		c.Device = "rdma_cm"
	}
	c.Bytes = memory(tid, args[1], int(args[2]))
	return c
}
