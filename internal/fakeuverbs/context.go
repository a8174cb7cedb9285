// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"net"
	"strings"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/uverbs"
)

// Context is one open device file. A driver's context embeds it, and adds its handlers with Handle
// and Command. The handlers run with the kernel's lock held, and use the methods of Context under it.
type Context struct {
	Info uverbs.DeviceInfo
	// Attr is the response of QUERY_DEVICE, in the extended form.
	Attr abi.UverbsExQueryDeviceResp
	// Port is the response of QUERY_PORT for port 1, the only port.
	Port abi.UverbsQueryPortResp
	// GIDs is the table of the port.
	GIDs []abi.UverbsGIDEntry
	// Keys returns the lkey and rkey of a new memory region or window.
	Keys func() (lkey, rkey uint32)
	// MapAt, if not nil, returns the memory of an offset that Offer did not return.
	MapAt func(offset int64, length int) (*mem.Region, error)
	// OnUnmap, if not nil, is called before memory of the program is unmapped.
	OnUnmap func(b []byte)
	// OnClose is called once, when the file is closed or the device is removed.
	OnClose func()
	// Hardware, if not nil, also creates the objects in a device.
	Hardware Hardware
	// OnWrite, if not nil, handles a command that was passed with write(2) instead of a request. The
	// command includes its header.
	OnWrite func(cmd []byte) error

	PDs   map[uint32]*PD
	MRs   map[uint32]*MR
	MWs   map[uint32]*MW
	AHs   map[uint32]*AH
	XRCDs map[uint32]*XRCD

	mu        *sync.Mutex
	intercept func(*uverbs.Request) error
	methods   map[method]func(*uverbs.Request) error
	destroys  map[method]bool // the methods that destroy an object
	commands  map[uint32]func(*Command) error
	ready     bool // GET_CONTEXT has run
	gone      bool // the device was removed
	closed    bool
	handles   map[uint32]struct{} // handles of existing objects

	offset   uint64                 // the last offered offset
	offered  map[uint64]*mem.Region // memory that can be mapped, by offset
	mapped   map[*byte]*mem.Region
	channels map[int]int // completion channels, from the program's reading end to the writing end
	async    []int       // writing ends of the files of asynchronous events
}

// method names a request as RDMA_VERBS_IOCTL does.
type method struct{ object, method uint16 }

// New returns an open device file. mu is the lock of its kernel. intercept, if not nil, is called first
// with every request, without the lock.
func New(info uverbs.DeviceInfo, mu *sync.Mutex, intercept func(*uverbs.Request) error) *Context {
	c := &Context{
		Info:      info,
		PDs:       make(map[uint32]*PD),
		MRs:       make(map[uint32]*MR),
		MWs:       make(map[uint32]*MW),
		AHs:       make(map[uint32]*AH),
		XRCDs:     make(map[uint32]*XRCD),
		mu:        mu,
		intercept: intercept,
		handles:   make(map[uint32]struct{}),
		methods:   make(map[method]func(*uverbs.Request) error),
		destroys:  make(map[method]bool),
		commands:  make(map[uint32]func(*Command) error),
		offset:    1 << 32,
		offered:   make(map[uint64]*mem.Region),
		mapped:    make(map[*byte]*mem.Region),
		channels:  make(map[int]int),
	}
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE, c.invokeWrite)
	c.handleDevice()
	c.handleMemory()
	c.handleChannels()
	return c
}

// HandleRest adds the handlers of optional features, which are asynchronous events, changes of memory
// regions, memory windows, address handles and XRC domains.
func (c *Context) HandleRest() {
	c.handleWindows()
	c.handleObjects()
	c.handleAsync()
}

// Handle sets f as the handler of a method of an object. f replaces any earlier handler.
func (c *Context) Handle(object, id uint16, f func(*uverbs.Request) error) {
	c.methods[method{object, id}] = f
}

// HandleDestroy is Handle for a method that destroys an object. Such a method succeeds after the
// removal of the device, which has already destroyed the object.
func (c *Context) HandleDestroy(object, id uint16, f func(*uverbs.Request) error) {
	c.Handle(object, id, f)
	c.destroys[method{object, id}] = true
}

// Command sets f as the handler of a command of rdma/ib_user_verbs.h.
func (c *Context) Command(code uint32, f func(*Command) error) { c.commands[code] = f }

// Command is one command of rdma/ib_user_verbs.h, as INVOKE_WRITE carries it.
type Command struct {
	In        []byte
	out       []byte
	DriverIn  []byte // may be nil
	driverOut []byte
}

// Answer fills the command's response up to the size of the program's buffer.
func Answer[T any](cmd *Command, resp *T) { copy(cmd.out, abi.Bytes(resp)) }

// AnswerDriver fills the driver's part of the response.
func (cmd *Command) AnswerDriver(resp []byte) { copy(cmd.driverOut, resp) }

// Input returns the command's struct.
func Input[T any](cmd *Command) *T { return abi.View[T](cmd.In) }

func (c *Context) invokeWrite(req *uverbs.Request) error {
	in := req.Find(abi.UVERBS_ATTR_CORE_IN)
	if in == nil {
		return syscall.EINVAL
	}
	code := uint32(Value(req, abi.UVERBS_ATTR_WRITE_CMD))
	run, decl := c.commands[code], uverbs.CommandOf(code)
	if run == nil || decl == nil {
		return syscall.EOPNOTSUPP
	}
	if len(in.Buf) < int(decl.In.Size()) {
		return syscall.EINVAL
	}
	cmd := &Command{In: in.Buf}
	for _, f := range []struct {
		id  uint16
		buf *[]byte
	}{
		{abi.UVERBS_ATTR_CORE_OUT, &cmd.out}, {abi.UVERBS_ATTR_UHW_IN, &cmd.DriverIn}, {abi.UVERBS_ATTR_UHW_OUT, &cmd.driverOut},
	} {
		if a := req.Find(f.id); a != nil {
			*f.buf = a.Buf
		}
	}
	return run(cmd)
}

// Ioctl executes one request.
func (c *Context) Ioctl(req *uverbs.Request) error {
	if c.intercept != nil {
		if err := c.intercept(req); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.gone {
		// rdma_lookup_get_uobject of Linux.
		if c.destroys[method{req.Object, req.Method}] {
			return nil
		}
		return syscall.EIO
	}
	run := c.methods[method{req.Object, req.Method}]
	if run == nil {
		return syscall.EPROTONOSUPPORT
	}
	if m := uverbs.MethodOf(req.Object, req.Method); m != nil && m.Check(req) != nil {
		return syscall.EINVAL
	}
	isGet := req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_GET_CONTEXT
	if c.ready == isGet {
		return syscall.EINVAL
	}
	if err := run(req); err != nil {
		return err
	}
	if isGet {
		c.ready = true
	}
	c.freeHandle(req)
	return nil
}

// Write executes a command in the form of write(2).
func (c *Context) Write(cmd []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.gone {
		return syscall.EIO
	}
	if len(cmd) < abi.Size[abi.UverbsCmdHdr]() || int(abi.View[abi.UverbsCmdHdr](cmd).InWords)*4 != len(cmd) {
		return syscall.EINVAL
	}
	if c.OnWrite == nil {
		return syscall.EOPNOTSUPP
	}
	return c.OnWrite(cmd)
}

// Close ends the context with all its objects.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.end()
	for _, r := range c.offered {
		r.Free()
	}
	return nil
}

// Disassociate removes the device from the context. The event files report DEVICE_FATAL and end, and
// the objects are destroyed. Every later command fails with EIO, except commands that destroy an
// object. The program keeps its mapped memory. The caller holds the kernel's lock.
func (c *Context) Disassociate() {
	c.Event(uverbs.EventDeviceFatal, 0)
	c.end()
	c.gone = true
}

// end destroys all objects.
func (c *Context) end() {
	if c.gone {
		return
	}
	if c.OnClose != nil {
		c.OnClose()
	}
	c.endHardware()
	c.closeEvents()
}

// Closed reports whether the program has closed the file, or the device was removed.
func (c *Context) Closed() bool { return c.closed || c.gone }

// NewHandle returns the lowest unused handle, as Linux does. A command with the handle of a destroyed
// object reaches the next object with this handle.
func (c *Context) NewHandle() uint32 {
	var h uint32
	for {
		if _, taken := c.handles[h]; !taken {
			c.handles[h] = struct{}{}
			return h
		}
		h++
	}
}

// freeHandle frees the handle of a destroyed object.
func (c *Context) freeHandle(req *uverbs.Request) {
	m := uverbs.MethodOf(req.Object, req.Method)
	if m == nil || !strings.HasSuffix(m.Name, "_DESTROY") {
		return
	}
	for i := range req.Attrs {
		if a := &req.Attrs[i]; a.Kind == uverbs.AttrHandle {
			delete(c.handles, uint32(a.Value))
		}
	}
}
