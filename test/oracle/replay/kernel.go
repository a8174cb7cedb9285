// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package replay has the tests of providers replay the vectors of test/oracle. Run opens a driver on a kernel that returns
// the responses in a session's records, and compares the driver's commands. The driver's part creates the queues, posts and
// polls with the methods of Session, and compares the bytes in the memory that the driver shares with the device.
package replay

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/test/oracle/vector"
	"purerdma/uverbs"
)

// Command is a kind of commands.
type Command struct {
	Object, Method uint16
	Write          uint32 // command inside INVOKE_WRITE
}

// The kinds of commands that tests check.
var (
	GetContext  = Command{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_GET_CONTEXT}
	CreateCQ    = Command{Object: abi.UVERBS_OBJECT_CQ, Method: abi.UVERBS_METHOD_CQ_CREATE}
	CreateQP    = Command{Object: abi.UVERBS_OBJECT_QP, Method: abi.UVERBS_METHOD_QP_CREATE}
	CreateSRQ   = Command{Object: abi.UVERBS_OBJECT_SRQ, Method: abi.UVERBS_METHOD_SRQ_CREATE}
	RegMR       = write(abi.IB_USER_VERBS_CMD_REG_MR)
	CreateAH    = write(abi.IB_USER_VERBS_CMD_CREATE_AH)
	ModifyQP    = write(abi.IB_USER_VERBS_CMD_MODIFY_QP)
	ModifyQPEx  = write(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_MODIFY_QP)
	ResizeCQ    = write(abi.IB_USER_VERBS_CMD_RESIZE_CQ)
	ReqNotifyCQ = write(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ)
)

func write(num uint32) Command {
	return Command{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_INVOKE_WRITE, Write: num}
}

// Call is a command of the provider, with the oracle's command of equal kind and number, whose response was used.
type Call struct {
	Command
	Attrs  map[uint16][]byte // inputs. Handles are the 8 bytes of the value
	Oracle *vector.Call      // nil if the oracle has no such command
}

// Kernel is the kernel of one session. The n-th command of a kind gets the oracle's n-th response. Kernel implements
// uverbs.Kernel, and uverbs.Transport of its only device.
type Kernel struct {
	// Answer, if not nil, is called for each command before the response. It may change the oracle's response.
	Answer func(*Call)
	// Written is called for commands by write(2), without their header.
	Written func(num uint32, body []byte) error

	info    uverbs.DeviceInfo
	mu      sync.Mutex
	answers map[Command][]*vector.Call
	given   map[Command]int
	last    map[Command]*Call
	pages   map[uint64]*mem.Region // memory by offset
	heads   map[uint64][]byte      // initial bytes from the kernel, by offset
	handle  uint64
	closed  bool
}

var (
	_ uverbs.Kernel    = (*Kernel)(nil)
	_ uverbs.Transport = (*Kernel)(nil)
)

// NewKernel returns the kernel of a session.
func NewKernel(s *vector.Session, driver abi.DriverID, name string, abiVersion uint32) *Kernel {
	k := &Kernel{
		info:    uverbs.DeviceInfo{Name: name, Node: "/dev/infiniband/uverbs0", DriverID: driver, ABIVersion: abiVersion},
		answers: make(map[Command][]*vector.Call),
		given:   make(map[Command]int),
		last:    make(map[Command]*Call),
		pages:   make(map[uint64]*mem.Region),
		heads:   make(map[uint64][]byte),
		handle:  1 << 20,
	}
	for _, r := range s.Records {
		for _, c := range r.Kernel {
			if c.Mmap != nil {
				k.heads[*c.Mmap] = c.Bytes
			}
			if c.Mmap != nil || c.Written != nil || c.RC != 0 {
				continue
			}
			cmd := Command{Object: c.Object, Method: c.Method}
			if c.Write != nil {
				cmd.Write = *c.Write
			}
			k.answers[cmd] = append(k.answers[cmd], c)
		}
	}
	return k
}

// Device returns the only device.
func (k *Kernel) Device() uverbs.DeviceInfo { return k.info }

// Devices lists the only device.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) { return []uverbs.DeviceInfo{k.info}, nil }

// Open opens the device.
func (k *Kernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return k, nil }

// Last returns the last command of a kind, or nil.
func (k *Kernel) Last(c Command) *Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[c]
}

// equate has the provider's commands of a kind get the responses to the oracle's commands of another kind.
func (k *Kernel) equate(oracle, provider Command) {
	k.answers[provider] = append(k.answers[provider], k.answers[oracle]...)
	delete(k.answers, oracle)
}

// Missing returns the kinds of commands that the oracle runs more often than the provider does, with the numbers of both.
// Queries, of which the provider may need fewer, and the commands of package verbs are not among them.
func (k *Kernel) Missing() map[Command][2]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := make(map[Command][2]int)
	for c, calls := range k.answers {
		if n := k.given[c]; n < len(calls) && !isQuery(c) && !ofVerbs(c) {
			m[c] = [2]int{len(calls), n}
		}
	}
	return m
}

// isRegisters reports whether a mapping is for registers, which the provider does not read. The vectors have the start
// of other memory.
func (k *Kernel) isRegisters(offset uint64) bool { return k.heads[offset] == nil }

// Pages returns the provider's mappings, by offset.
func (k *Kernel) Pages() map[uint64][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := make(map[uint64][]byte)
	for off, r := range k.pages {
		m[off] = r.Bytes()
	}
	return m
}

// Ioctl answers a command.
func (k *Kernel) Ioctl(req *uverbs.Request) error {
	c := newCall(req)
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return net.ErrClosed
	}
	all, n := k.answers[c.Command], k.given[c.Command]
	k.given[c.Command]++
	k.last[c.Command] = c
	k.mu.Unlock()
	switch {
	case n < len(all):
		c.Oracle = all[n]
	case len(all) > 0 && isQuery(c.Command):
		c.Oracle = all[len(all)-1] // a repeated query gets the last response
	}
	if k.Answer != nil {
		k.Answer(c)
	}
	if c.Oracle == nil {
		return k.unknown(c, req)
	}
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.Kind {
		case uverbs.AttrOut:
			b, _ := vector.Attr(c.Oracle.Out, a.ID)
			copy(a.Buf, b)
		case uverbs.AttrNewHandle:
			a.Value, _ = vector.Attr(c.Oracle.New, a.ID)
		case uverbs.AttrNewFD:
			// The oracle's files do not exist in this process.
			fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			a.Value = uint64(fd)
		}
	}
	return nil
}

func newCall(req *uverbs.Request) *Call {
	c := &Call{Command: Command{Object: req.Object, Method: req.Method}, Attrs: make(map[uint16][]byte)}
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.Kind {
		case uverbs.AttrIn:
			c.Attrs[a.ID] = append([]byte(nil), a.Buf...)
		case uverbs.AttrHandle, uverbs.AttrFD:
			c.Attrs[a.ID] = binary.NativeEndian.AppendUint64(nil, a.Value)
		}
	}
	if req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_INVOKE_WRITE {
		c.Write = uint32(uverbs.Number(c.Attrs[abi.UVERBS_ATTR_WRITE_CMD]))
	}
	return c
}

// isQuery reports whether a command changes nothing.
func isQuery(c Command) bool {
	switch c {
	case Command{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_QUERY_PORT},
		Command{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_QUERY_GID_ENTRY},
		write(abi.IB_USER_VERBS_CMD_QUERY_DEVICE), write(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE):
		return true
	}
	return false
}

// ofVerbs reports whether package verbs runs a command, rather than the provider. libibverbs runs these commands
// within its calls to the provider.
func ofVerbs(c Command) bool {
	return c == Command{Object: abi.UVERBS_OBJECT_ASYNC_EVENT, Method: abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC} ||
		c == write(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
}

// unknown answers commands that the oracle does not have, or has less often. It executes destructions and the creation
// of further UARs, and refuses all other commands.
func (k *Kernel) unknown(c *Call, req *uverbs.Request) error {
	switch {
	case c.Object == abi.MLX5_IB_OBJECT_UAR && c.Method == abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC:
		return k.allocUAR(req)
	case c.Object == abi.UVERBS_OBJECT_DEVICE && c.Method == abi.UVERBS_METHOD_INVOKE_WRITE:
		switch c.Write {
		case abi.IB_USER_VERBS_CMD_DEREG_MR, abi.IB_USER_VERBS_CMD_DEALLOC_MW, abi.IB_USER_VERBS_CMD_DEALLOC_PD,
			abi.IB_USER_VERBS_CMD_CLOSE_XRCD, abi.IB_USER_VERBS_CMD_DESTROY_AH, abi.IB_USER_VERBS_CMD_DESTROY_CQ,
			abi.IB_USER_VERBS_CMD_DESTROY_QP, abi.IB_USER_VERBS_CMD_DESTROY_SRQ:
			return nil
		}
	case c.Method == abi.UVERBS_METHOD_CQ_DESTROY && (c.Object == abi.UVERBS_OBJECT_CQ || c.Object == abi.UVERBS_OBJECT_QP || c.Object == abi.UVERBS_OBJECT_SRQ),
		c.Object == abi.UVERBS_OBJECT_PD && c.Method == abi.UVERBS_METHOD_PD_DESTROY,
		c.Object == abi.UVERBS_OBJECT_MR && c.Method == abi.UVERBS_METHOD_MR_DESTROY,
		c.Object == abi.UVERBS_OBJECT_MW && c.Method == abi.UVERBS_METHOD_MW_DESTROY,
		c.Object == abi.UVERBS_OBJECT_AH && c.Method == abi.UVERBS_METHOD_AH_DESTROY,
		c.Object == abi.UVERBS_OBJECT_XRCD && c.Method == abi.UVERBS_METHOD_XRCD_DESTROY,
		c.Object == abi.MLX5_IB_OBJECT_UAR:
		return nil
	}
	return syscall.EPROTONOSUPPORT
}

// allocUAR creates a UAR that the oracle does not have.
func (k *Kernel) allocUAR(req *uverbs.Request) error {
	k.handle++
	offset, length, page := k.handle<<24, uint32(4096), uint32(k.handle)
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.ID {
		case abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE:
			a.Value = k.handle
		case abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET:
			copy(a.Buf, abi.Bytes(&offset))
		case abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH:
			copy(a.Buf, abi.Bytes(&length))
		case abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID:
			copy(a.Buf, abi.Bytes(&page))
		}
	}
	return nil
}

// Write executes a command by write(2).
func (k *Kernel) Write(cmd []byte) error {
	hdr := abi.View[abi.UverbsCmdHdr](cmd)
	if k.Written == nil {
		return syscall.EINVAL
	}
	return k.Written(hdr.Command, cmd[abi.Size[abi.UverbsCmdHdr]():])
}

// Mmap returns memory for an offset. The offset is in a response, or is fixed.
func (k *Kernel) Mmap(offset int64, length int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pages[uint64(offset)] != nil {
		return nil, fmt.Errorf("offset %#x is mapped twice: %w", offset, syscall.EINVAL)
	}
	r, err := mem.Alloc((length + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1))
	if err != nil {
		return nil, err
	}
	copy(r.Bytes(), k.heads[uint64(offset)])
	k.pages[uint64(offset)] = r
	return r.Bytes()[:length], nil
}

// Replace keeps a mapping, because it belongs to no device.
func (k *Kernel) Replace([]byte) error { return nil }

// Munmap frees a mapping.
func (k *Kernel) Munmap(b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for off, r := range k.pages {
		if &r.Bytes()[0] == &b[0] {
			delete(k.pages, off)
			return r.Free()
		}
	}
	return syscall.EINVAL
}

// Close closes the device.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return nil
}
