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

// File is an open /dev/infiniband/rdma_cm: a set of IDs and one queue of their
// events. librdmacm calls it an event channel.
type File struct {
	dev    Device
	tracer *trace.Tracer // nil: nobody wants to know
	quick  *File         // see Quick; nil if that is the File itself
	calm   *File         // see Undisturbed; nil if that is the File itself
}

// Device carries commands to the kernel. *cdev.File is the real one; tests have
// theirs.
type Device interface {
	// Write hands over one command, header and struct, and returns the errno.
	Write(b []byte) error
	// WriteWhenReadable is Write, repeated whenever the device has become
	// readable until the answer is not EAGAIN.
	WriteWhenReadable(ctx context.Context, b []byte) error
	// Wake has a WriteWhenReadable that waits try again.
	Wake()
	// Control runs fn with the descriptor.
	Control(fn func(fd uintptr)) error
	Close() error
}

// Open opens the device. The network namespace of IDs is that of the thread that
// creates them, not of the one that opened the file.
//
// Every command is written to logger, at level Debug; if that is nil, to standard
// error if the environment variable RDMA_TRACE is set and not 0.
func Open(logger *slog.Logger) (*File, error) {
	if err := versionOK(); err != nil {
		return nil, err
	}
	dev, err := cdev.Open(Path)
	if err != nil {
		return nil, openError(err)
	}
	tracer := trace.Select(logger)
	return &File{
		dev: dev, tracer: tracer,
		quick: &File{dev: quickDevice{dev}, tracer: tracer},
		calm:  &File{dev: calmDevice{dev}, tracer: tracer},
	}, nil
}

// quickDevice gives its commands as cdev.File.WriteQuick does.
type quickDevice struct{ *cdev.File }

func (d quickDevice) Write(b []byte) error { return d.WriteQuick(b) }

// Quick returns the same file for commands that wait for no hardware and no peer,
// which are computation in the kernel: the scheduler does not hear of them, and no
// other thread takes over meanwhile.
func (f *File) Quick() *File {
	if f.quick == nil {
		return f
	}
	return f.quick
}

// calmDevice gives its commands as cdev.File.WriteUndisturbed does.
type calmDevice struct{ *cdev.File }

func (d calmDevice) Write(b []byte) error { return d.WriteUndisturbed(b) }

// Undisturbed returns the same file for commands that no signal should interrupt. The
// kernel would have them begin again, which does not undo what the peer has seen.
func (f *File) Undisturbed() *File {
	if f.calm == nil {
		return f
	}
	return f.calm
}

// versionOK compares the kernel's ABI version with ours, once in a process.
var versionOK = sync.OnceValue(func() error {
	b, err := os.ReadFile("/sys/class/misc/rdma_cm/abi_version")
	if err != nil {
		// The module is not there, or /sys is not: opening the device tells.
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

// Kernel is a kernel other than the running one: a test's. A program puts it into the field
// Kernel of a verbs.Host, for which it implements uverbs.Kernel as well (package cmtest).
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

// Close closes the device. The kernel destroys every ID that is left, which may
// take as long as their DestroyID would; connections end. GetEvent and all later
// calls return net.ErrClosed.
func (f *File) Close() error { return f.dev.Close() }

// Wake has a GetEvent that waits look for an event again.
func (f *File) Wake() { f.dev.Wake() }

// frame is a command as it is written: the header and then the struct. A
// Pointer in the struct keeps what it points at alive while the frame is.
type frame[C any] struct {
	hdr abi.UcmCmdHdr
	cmd C
}

// frames has frames that serve again, by the code of the command.
var frames [abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT + 1]sync.Pool

// newFrame returns a frame, which its user frees.
func newFrame[C any](code uint32, cmd C, out int) *frame[C] {
	fr, _ := frames[code].Get().(*frame[C])
	if fr == nil {
		fr = new(frame[C])
	}
	fr.hdr = abi.UcmCmdHdr{Cmd: code, In: uint16(abi.Size[C]()), Out: uint16(out)}
	fr.cmd = cmd
	return fr
}

func (fr *frame[C]) free() {
	var none C
	fr.cmd = none // it holds on to the answer
	frames[fr.hdr.Cmd].Put(fr)
}

// send writes a command that has no answer.
func send[C any](f *File, code, id uint32, cmd C) error {
	fr := newFrame(code, cmd, 0)
	defer fr.free()
	return f.run(code, id, &fr.cmd, nil, abi.Bytes(fr))
}

// ask writes a command that has an answer, which cmd's Response points at. The
// kernel does not say how much of it it wrote, and an older kernel writes less:
// callers hand over zeroed memory.
func ask[C, R any](f *File, code, id uint32, cmd C, resp *R) error {
	fr := newFrame(code, cmd, abi.Size[R]())
	defer fr.free()
	return f.run(code, id, &fr.cmd, resp, abi.Bytes(fr))
}

// run writes a frame; cmd and resp are what it stands for, for the trace.
func (f *File) run(code, id uint32, cmd, resp any, frame []byte) error {
	start := f.begin()
	err := f.dev.Write(frame)
	if f.tracer != nil {
		f.tracer.Command("rdma_cm", CommandName(code), cmd, resp, err, time.Since(start))
	}
	if err != nil {
		return commandError(code, id, err)
	}
	return nil
}

// begin notes the time for the trace, if there is one.
func (f *File) begin() time.Time {
	if f.tracer == nil {
		return time.Time{}
	}
	return time.Now()
}
