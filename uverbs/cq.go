// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"net"

	"purerdma/abi"
)

// CQConfig is the input of CreateCQ.
type CQConfig struct {
	Entries    uint32
	UserHandle uint64       // what an event on the channel names
	Channel    *CompChannel // or nil
	Vector     uint32
	Flags      uint32        // IB_UVERBS_CQ_FLAGS_...
	Events     *AsyncChannel // for its asynchronous events, or nil
}

// CQ is the result of CreateCQ.
type CQ struct {
	Handle  uint32
	Entries uint32
}

// CreateCQ makes a completion queue (UVERBS_METHOD_CQ_CREATE).
func (f *File) CreateCQ(cfg CQConfig, drv Driver) (CQ, error) {
	if !cfg.isOrdinary() {
		return f.createSpecialCQ(cfg, drv)
	}
	req := createCQ.get()
	defer createCQ.put(req)
	v := &req.values
	v.entries, v.userHandle, v.vector = cfg.Entries, cfg.UserHandle, cfg.Vector
	if v.run == nil {
		v.run = func(fd uintptr) {
			req.Attrs[5].Value = uint64(fd)
			v.err = req.runWith(v.f, v.drv)
		}
	}
	v.f, v.drv, v.err = f, drv, net.ErrClosed
	_ = cfg.Channel.dev.Control(v.run) // fails only if the channel is closed
	v.f, v.drv = nil, Driver{}         // they hold on to memory
	if v.err != nil {
		return CQ{}, v.err
	}
	return CQ{Handle: uint32(req.Attrs[0].Value), Entries: v.respEntries}, nil
}

var createCQ = prepare(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, func(v *createCQValues) []Attr {
	return []Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE),
		in(abi.UVERBS_ATTR_CREATE_CQ_CQE, &v.entries),
		in(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &v.userHandle),
		in(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &v.vector),
		out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &v.respEntries),
		fd(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 0),
	}
})

type createCQValues struct {
	userHandle                   uint64
	entries, vector, respEntries uint32

	f   *File
	drv Driver
	err error            // the result of run
	run func(fd uintptr) // runs the request with the descriptor of the channel. Made once
}

// isOrdinary reports whether a completion queue has a channel for its completions and nothing else
// that it may lack, as most have.
func (c *CQConfig) isOrdinary() bool { return c.Channel != nil && c.Flags == 0 && c.Events == nil }

// createSpecialCQ is CreateCQ for all other completion queues.
func (f *File) createSpecialCQ(cfg CQConfig, drv Driver) (CQ, error) {
	req := newRequest(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	defer req.free()
	req.add(newHandle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE))
	req.in(abi.UVERBS_ATTR_CREATE_CQ_CQE, abi.Bytes(&cfg.Entries))
	req.number(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cfg.UserHandle)
	req.in(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, abi.Bytes(&cfg.Vector))
	entries := req.out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4)
	if cfg.Flags != 0 {
		req.in(abi.UVERBS_ATTR_CREATE_CQ_FLAGS, abi.Bytes(&cfg.Flags))
	}
	req.Attrs = drv.append(req.Attrs)
	req.events(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, cfg.Events)
	if cfg.Channel != nil {
		req.file(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, cfg.Channel.dev)
	}
	if err := req.runOn(f); err != nil {
		return CQ{}, err
	}
	return CQ{Handle: uint32(req.Attrs[0].Value), Entries: uint32(Number(entries))}, nil
}

// DestroyCQ destroys a completion queue (UVERBS_METHOD_CQ_DESTROY). It returns EBUSY for a queue in
// use. The kernel drops the unread events of the CQ.
func (f *File) DestroyCQ(cq uint32) error { return destroyCQ.run(f, cq) }

var destroyCQ = prepareDestroy[abi.UverbsDestroyCQResp](abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY,
	abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, abi.UVERBS_ATTR_DESTROY_CQ_RESP)

// ResizeCQ changes the size of a completion queue and returns the new one
// (IB_USER_VERBS_CMD_RESIZE_CQ). It returns EINVAL for fewer entries than there are completions. If
// the kernel made the ring, drv.Out holds the offset at which the new one can be mapped.
func (f *File) ResizeCQ(cq, entries uint32, drv Driver) (uint32, error) {
	resp, err := runCommandResp[abi.UverbsResizeCQResp](f, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.UverbsResizeCQ{CQHandle: cq, CQE: entries}, drv)
	return resp.CQE, err
}

// PollCQ takes completions out of a queue whose driver has no ring in user space
// (IB_USER_VERBS_CMD_POLL_CQ). It returns their number.
func (f *File) PollCQ(cq uint32, wcs []abi.UverbsWC) (int, error) {
	header, size := abi.Size[abi.UverbsPollCQResp](), abi.Size[abi.UverbsWC]()
	wcs = wcs[:min(len(wcs), (maxAttr-header)/size)]
	raw := make([]byte, header+len(wcs)*size)
	if err := f.InvokeWrite(abi.IB_USER_VERBS_CMD_POLL_CQ, abi.Bytes(&abi.UverbsPollCQ{CQHandle: cq, Ne: uint32(len(wcs))}), raw, Driver{}); err != nil {
		return 0, err
	}
	var resp abi.UverbsPollCQResp
	copy(abi.Bytes(&resp), raw)
	n := int(min(uint64(resp.Count), uint64(len(wcs))))
	for i := range n {
		copy(abi.Bytes(&wcs[i]), raw[header+i*size:])
	}
	return n, nil
}

// ReqNotifyCQ arms a completion queue by ioctl (IB_USER_VERBS_CMD_REQ_NOTIFY_CQ). A Notifier takes
// less time, but depends on the credentials of the thread.
func (f *File) ReqNotifyCQ(cq uint32, solicitedOnly bool) error {
	cmd := abi.UverbsReqNotifyCQ{CQHandle: cq}
	if solicitedOnly {
		cmd.SolicitedOnly = 1
	}
	return runCommand(f, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &cmd, Driver{})
}

// ModifyCQ sets the number of completions, and the number of microseconds, after which a completion
// queue notifies (IB_USER_VERBS_EX_CMD_MODIFY_CQ).
func (f *File) ModifyCQ(cq uint32, m abi.UverbsCQModeration) error {
	const moderate = 1 << 0 // IB_CQ_MODERATE
	return runCommand(f, ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ, &abi.UverbsExModifyCQ{CQHandle: cq, AttrMask: moderate, Attr: m}, Driver{})
}

// Notifier arms one completion queue with write(2), by commands that were
// prepared once. It allocates nothing and may be used concurrently.
type Notifier struct {
	f         *File
	next      reqNotifyCQ
	solicited reqNotifyCQ
}

// reqNotifyCQ is the REQ_NOTIFY_CQ command in the form of write(2).
type reqNotifyCQ struct {
	hdr abi.UverbsCmdHdr
	cmd abi.UverbsReqNotifyCQ
}

// NewNotifier returns a Notifier for a completion queue.
func (f *File) NewNotifier(cq uint32) *Notifier {
	n := new(Notifier)
	n.Init(f, cq)
	return n
}

// Init prepares the commands for a completion queue (IB_USER_VERBS_CMD_REQ_NOTIFY_CQ).
func (n *Notifier) Init(f *File, cq uint32) {
	hdr := abi.UverbsCmdHdr{Command: abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, InWords: uint16(abi.Size[reqNotifyCQ]() / 4)}
	*n = Notifier{
		f:         f,
		next:      reqNotifyCQ{hdr, abi.UverbsReqNotifyCQ{CQHandle: cq}},
		solicited: reqNotifyCQ{hdr, abi.UverbsReqNotifyCQ{CQHandle: cq, SolicitedOnly: 1}},
	}
}

// Notify arms the queue. Its next completion, or its next solicited one, puts one event on the
// completion channel.
func (n *Notifier) Notify(solicitedOnly bool) error {
	if solicitedOnly {
		return n.f.write(abi.Bytes(&n.solicited))
	}
	return n.f.write(abi.Bytes(&n.next))
}
