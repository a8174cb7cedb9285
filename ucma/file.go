// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/internal/trace"
)

// Path is the device of the connection manager.
const Path = "/dev/infiniband/rdma_cm"

// File is an open /dev/infiniband/rdma_cm. It has a set of IDs and one queue of their events.
// librdmacm calls it an event channel.
type File struct {
	dev    Device
	tracer *trace.Tracer // nil if tracing is off

	file  *cdev.File // dev, if that is the device of the running kernel
	calls cdev.Calls // of the driver of the IDs
	on    []onDriver // see On
}

// onDriver is a File for the IDs on the devices of one driver.
type onDriver struct {
	driver abi.DriverID
	File
}

// Device carries commands to the kernel. *cdev.File is the real one. Tests have fakes.
type Device interface {
	// Write sends one command, header and struct, and returns the errno.
	Write(b []byte) error
	// WriteWhenReadable is Write, repeated whenever the device has become readable until the result
	// is not EAGAIN.
	WriteWhenReadable(ctx context.Context, b []byte) error
	// Wake makes a waiting WriteWhenReadable try again.
	Wake()
	// Control runs fn with the descriptor.
	Control(fn func(fd uintptr)) error
	Close() error
}

// Open opens the device. IDs belong to the network namespace of the thread that creates them, not
// of the thread that opened the file.
//
// Every command is logged to logger, at level Debug. If logger is nil, commands are written to
// standard error if the environment variable RDMA_TRACE is set and not 0.
func Open(logger *slog.Logger) (*File, error) {
	if err := versionOK(); err != nil {
		return nil, err
	}
	dev, err := cdev.Open(Path)
	if err != nil {
		return nil, openError(err)
	}
	return open(dev, trace.Select(logger)), nil
}

// open returns a File on the device of the running kernel.
func open(dev *cdev.File, tracer *trace.Tracer) *File {
	f := File{dev: dev, tracer: tracer, file: dev}
	for _, driver := range cdev.Drivers {
		on := onDriver{driver.ID, f}
		on.calls = driver.Calls
		f.on = append(f.on, on)
	}
	return &f
}

// On returns the same file for commands on IDs whose device has that kernel driver. The driver
// decides how the system calls are made. Commands that only compute are raw system calls, and siw's
// CONNECT is made with signals blocked.
func (f *File) On(driver abi.DriverID) *File {
	for i := range f.on {
		if f.on[i].driver == driver {
			return &f.on[i].File
		}
	}
	return f
}

// mode returns how the system call of a command is made. The commands that set and query the
// address and the device of an ID only compute, with every driver.
func (f *File) mode(code uint32) cdev.Mode {
	switch code {
	case abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RDMA_USER_CM_CMD_BIND, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RDMA_USER_CM_CMD_QUERY:
		return cdev.Raw
	case abi.RDMA_USER_CM_CMD_CONNECT:
		return f.calls.Connect
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, abi.RDMA_USER_CM_CMD_ACCEPT,
		abi.RDMA_USER_CM_CMD_REJECT, abi.RDMA_USER_CM_CMD_DISCONNECT, abi.RDMA_USER_CM_CMD_DESTROY_ID:
		return f.calls.Command
	}
	return cdev.Ordinary
}

// write sends a command.
func (f *File) write(code uint32, frame []byte) error {
	if f.file == nil {
		return f.dev.Write(frame)
	}
	return f.file.WriteMode(frame, f.mode(code))
}

// versionOK compares the kernel's ABI version with the supported one, once in a process.
var versionOK = sync.OnceValue(func() error {
	b, err := os.ReadFile("/sys/class/misc/rdma_cm/abi_version")
	if err != nil {
		// The module or /sys is missing. Opening the device fails if it is the module.
		return nil
	}
	return checkVersion(string(b))
})

// checkVersion judges the text of an abi_version file.
func checkVersion(text string) error {
	v, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || v != abi.RDMA_USER_CM_ABI_VERSION {
		return &VersionError{Kernel: v, Library: abi.RDMA_USER_CM_ABI_VERSION}
	}
	return nil
}

// New returns a File on a device that is open already.
func New(dev Device) *File { return &File{dev: dev} }

// Kernel is a kernel other than the running one, for tests. A program puts it into the field Kernel
// of a verbs.Host, so it also implements uverbs.Kernel (package cmtest).
type Kernel interface {
	// OpenCM opens the device of the connection manager.
	OpenCM() (Device, error)
}

// OpenOn is Open on another kernel than the running one.
func OpenOn(kernel Kernel, logger *slog.Logger) (*File, error) {
	dev, err := kernel.OpenCM()
	if err != nil {
		return nil, openError(err)
	}
	return &File{dev: dev, tracer: trace.Select(logger)}, nil
}

// Close closes the device. The kernel destroys every remaining ID, which may take as long as their
// DestroyID would. Connections end. GetEvent and all later calls return net.ErrClosed.
func (f *File) Close() error { return f.dev.Close() }

// Wake makes a waiting GetEvent try again.
func (f *File) Wake() { f.dev.Wake() }

// frame is a command in wire format, the header and then the struct. A Pointer in the struct keeps
// its target alive as long as the frame.
type frame[C any] struct {
	hdr abi.UcmCmdHdr
	cmd C
}

// frames pools frames, by the code of the command.
var frames [abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT + 1]sync.Pool

// newFrame returns the frame of a command whose struct is zero. Its user frees it.
func newFrame[C any](code uint32, out int) *frame[C] {
	fr, _ := frames[code].Get().(*frame[C])
	if fr == nil {
		fr = new(frame[C])
	}
	fr.hdr = abi.UcmCmdHdr{Cmd: code, In: uint16(abi.Size[C]()), Out: uint16(out)}
	return fr
}

func (fr *frame[C]) free() {
	var none C
	fr.cmd = none // it holds on to the answer, and the next user expects zeros
	frames[fr.hdr.Cmd].Put(fr)
}

// runCommand writes a command without a response.
func runCommand[C any](f *File, code, id uint32, cmd C) error {
	fr := newFrame[C](code, 0)
	defer fr.free()
	fr.cmd = cmd
	return f.run(code, id, &fr.cmd, nil, abi.Bytes(fr))
}

// runCommandResp writes a command with a response, which cmd's Response points at. The kernel does
// not report the length of the response, and an older kernel writes less. Therefore callers pass
// zeroed memory.
func runCommandResp[C, R any](f *File, code, id uint32, cmd C, resp *R) error {
	fr := newFrame[C](code, abi.Size[R]())
	defer fr.free()
	fr.cmd = cmd
	return f.run(code, id, &fr.cmd, resp, abi.Bytes(fr))
}

// exchange is a command and the memory of its response, which the command points at. It is for
// commands that a connection sends often, because its owner reuses it.
type exchange[C, R any] struct {
	frame[C]
	resp R
}

// run runs the command in cmd.
func (x *exchange[C, R]) run(f *File, code, id uint32) error {
	x.prepare(code)
	return f.run(code, id, &x.cmd, &x.resp, abi.Bytes(&x.frame))
}

// prepare writes the header, and clears the response, because an older kernel writes less.
func (x *exchange[C, R]) prepare(code uint32) {
	x.hdr = abi.UcmCmdHdr{Cmd: code, In: uint16(abi.Size[C]()), Out: uint16(abi.Size[R]())}
	clear(abi.Bytes(&x.resp))
}

// run writes a frame. The trace shows cmd and resp, which the frame contains.
func (f *File) run(code, id uint32, cmd, resp any, frame []byte) error {
	start := f.begin()
	err := f.write(code, frame)
	if f.tracer != nil {
		f.tracer.Command("rdma_cm", CommandName(code), cmd, resp, err, time.Since(start))
	}
	if err != nil {
		return commandError(code, id, err)
	}
	return nil
}

// begin returns the start time for the trace, if there is one.
func (f *File) begin() time.Time {
	if f.tracer == nil {
		return time.Time{}
	}
	return time.Now()
}
