// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"encoding/binary"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/uverbs"
)

// context is one open device file. The Kernel's lock guards it.
type context struct {
	k      *Kernel
	info   uverbs.DeviceInfo
	closed bool
	ready  bool // GET_CONTEXT has run

	last     uint32 // handle
	pds      map[uint32]*pd
	mrs      map[uint32]*mr
	cqs      map[uint32]*cq
	qps      map[uint32]*qp
	channels map[int]int // pipes: reading end, which is the program's, to writing end

	nextOffset uint64
	pending    map[uint64]*mem.Region // queues to map, by offset
	mapped     map[*byte]*mem.Region
}

func newContext(k *Kernel, info uverbs.DeviceInfo) *context {
	return &context{
		k:        k,
		info:     info,
		pds:      make(map[uint32]*pd),
		mrs:      make(map[uint32]*mr),
		cqs:      make(map[uint32]*cq),
		qps:      make(map[uint32]*qp),
		channels: make(map[int]int),
		pending:  make(map[uint64]*mem.Region),
		mapped:   make(map[*byte]*mem.Region),
	}
}

// method names a command as RDMA_VERBS_IOCTL does.
type method struct{ object, method uint16 }

var methods = map[method]func(*context, *uverbs.Request) error{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}:     (*context).getContext,
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT}:      (*context).queryPort,
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE}: (*context).queryGIDTable,
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}:    (*context).invokeWrite,
	{abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY}:          (*context).deallocPD,
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY}:          (*context).deregMR,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}:           (*context).createCQ,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}:          (*context).destroyCQ,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}:           (*context).createQP,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}:          (*context).destroyQP,
}

var writes = map[uint64]func(c *context, req *uverbs.Request, in, out []byte) error{
	abi.IB_USER_VERBS_CMD_QUERY_DEVICE:        (*context).queryDevice,
	abi.IB_USER_VERBS_CMD_ALLOC_PD:            (*context).allocPD,
	abi.IB_USER_VERBS_CMD_REG_MR:              (*context).regMR,
	abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: (*context).createCompChannel,
	abi.IB_USER_VERBS_CMD_MODIFY_QP:           (*context).modifyQP,
	abi.IB_USER_VERBS_CMD_QUERY_QP:            (*context).queryQP,
}

// Ioctl carries out one request.
func (c *context) Ioctl(req *uverbs.Request) error {
	if f := c.k.Intercept; f != nil {
		if err := f(req); err != nil {
			return err
		}
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	run := methods[method{req.Object, req.Method}]
	if run == nil {
		return syscall.EPROTONOSUPPORT
	}
	isGet := req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_GET_CONTEXT
	if c.ready == isGet {
		return syscall.EINVAL
	}
	return run(c, req)
}

func (c *context) invokeWrite(req *uverbs.Request) error {
	cmd, in := req.Find(abi.UVERBS_ATTR_WRITE_CMD), req.Find(abi.UVERBS_ATTR_CORE_IN)
	if cmd == nil || in == nil {
		return syscall.EINVAL
	}
	run := writes[number(cmd)]
	if run == nil {
		return syscall.EOPNOTSUPP
	}
	var out []byte
	if a := req.Find(abi.UVERBS_ATTR_CORE_OUT); a != nil {
		out = a.Buf
	}
	return run(c, req, in.Buf, out)
}

// Write takes the two commands of the data path.
func (c *context) Write(cmd []byte) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	hdr := abi.View[abi.UverbsCmdHdr](cmd)
	if int(hdr.InWords)*4 != len(cmd) {
		return syscall.EINVAL
	}
	body := cmd[abi.Size[abi.UverbsCmdHdr]():]
	switch hdr.Command {
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		n := abi.View[abi.UverbsReqNotifyCQ](body)
		q := c.cqs[n.CQHandle]
		if q == nil {
			return syscall.EINVAL
		}
		q.arm(n.SolicitedOnly != 0)
		return nil
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		p := abi.View[abi.UverbsPostSend](body)
		q := c.qps[p.QPHandle]
		if q == nil || p.WRCount != 0 || int(p.WQESize) < abi.Size[abi.UverbsSendWR]() {
			return syscall.EINVAL
		}
		return q.doorbell()
	}
	return syscall.EOPNOTSUPP
}

// Mmap maps a queue. As in the kernel, each can be mapped once.
func (c *context) Mmap(offset int64, length int) ([]byte, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	r := c.pending[uint64(offset)]
	if c.closed || r == nil || length > len(r.Bytes()) {
		return nil, syscall.EINVAL
	}
	delete(c.pending, uint64(offset))
	b := r.Bytes()
	c.mapped[&b[0]] = r
	return b[:length], nil
}

// Replace puts zeros in the place of a mapping.
func (c *context) Replace(b []byte) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return mem.Replace(c.mapped[&b[0]].Bytes())
}

// Munmap unmaps a queue. The objects that use it are gone by then.
func (c *context) Munmap(b []byte) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	r := c.mapped[&b[0]]
	if r == nil {
		return syscall.EINVAL
	}
	delete(c.mapped, &b[0])
	return r.Free()
}

// Close ends the context with all its objects.
func (c *context) Close() error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.k.open--
	for _, q := range c.qps {
		delete(c.k.qps, q.num)
	}
	for _, w := range c.channels {
		syscall.Close(w)
	}
	for _, r := range c.pending {
		r.Free()
	}
	return nil
}

// newQueue makes memory for a queue and says where it can be mapped.
func (c *context) newQueue(items, elem int) (*queue, abi.RxeMminfo, error) {
	q, err := newQueue(items, elem)
	if err != nil {
		return nil, abi.RxeMminfo{}, err
	}
	c.nextOffset += 1 << 20
	c.pending[c.nextOffset] = q.mem
	return q, abi.RxeMminfo{Offset: c.nextOffset, Size: uint32(len(q.mem.Bytes()))}, nil
}

func (c *context) newHandle() uint32 {
	c.last++
	return c.last
}

// number decodes an input of 4 or 8 bytes.
func number(a *uverbs.Attr) uint64 {
	if len(a.Buf) == 4 {
		return uint64(binary.NativeEndian.Uint32(a.Buf))
	}
	return binary.NativeEndian.Uint64(a.Buf)
}

// value is number of a mandatory attribute of a request.
func value(req *uverbs.Request, id uint16) uint64 {
	a := req.Find(id)
	if a == nil {
		return 0
	}
	if a.Kind == uverbs.AttrIn {
		return number(a)
	}
	return a.Value
}

// put fills an output, as much as fits.
func put[T any](req *uverbs.Request, id uint16, v *T) {
	if a := req.Find(id); a != nil {
		copy(a.Buf, abi.Bytes(v))
	}
}
