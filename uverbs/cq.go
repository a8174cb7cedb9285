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
}

// CQ is the answer of CreateCQ.
type CQ struct {
	Handle  uint32
	Entries uint32
}

// CreateCQ makes a completion queue (UVERBS_METHOD_CQ_CREATE).
func (f *File) CreateCQ(cfg CQConfig, drv Driver) (CQ, error) {
	var entries uint32
	attrs := []Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE),
		u32(abi.UVERBS_ATTR_CREATE_CQ_CQE, cfg.Entries),
		u64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cfg.UserHandle),
		u32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, cfg.Vector),
		out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries),
	}
	var req *Request
	run := func(extra ...Attr) (err error) {
		req, err = f.ioctl(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, drv.append(append(attrs, extra...))...)
		return err
	}
	var err error
	if cfg.Channel == nil {
		err = run()
	} else if cerr := cfg.Channel.dev.Control(func(channel uintptr) {
		err = run(fd(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel))
	}); cerr != nil {
		return CQ{}, net.ErrClosed
	}
	if err != nil {
		return CQ{}, err
	}
	return CQ{Handle: uint32(req.Attrs[0].Value), Entries: entries}, nil
}

// DestroyCQ destroys a completion queue (UVERBS_METHOD_CQ_DESTROY). One that is
// in use gives EBUSY. The kernel drops the events of the CQ that nobody has read.
func (f *File) DestroyCQ(cq uint32) error {
	var resp abi.UverbsDestroyCQResp
	_, err := f.ioctl(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, cq),
		out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, &resp))
	return err
}

// Notifier arms one completion queue with write(2), by commands that were
// prepared once. It allocates nothing and may be used concurrently.
type Notifier struct {
	f         *File
	next      []byte
	solicited []byte
}

// reqNotifyCQ is the REQ_NOTIFY_CQ command in the form of write(2).
type reqNotifyCQ struct {
	hdr abi.UverbsCmdHdr
	cmd abi.UverbsReqNotifyCQ
}

// NewNotifier prepares the commands for a completion queue
// (IB_USER_VERBS_CMD_REQ_NOTIFY_CQ).
func (f *File) NewNotifier(cq uint32) *Notifier {
	command := func(solicited uint32) []byte {
		c := &reqNotifyCQ{cmd: abi.UverbsReqNotifyCQ{CQHandle: cq, SolicitedOnly: solicited}}
		c.hdr = abi.UverbsCmdHdr{Command: abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, InWords: uint16(abi.Size[reqNotifyCQ]() / 4)}
		return abi.Bytes(c)
	}
	return &Notifier{f: f, next: command(0), solicited: command(1)}
}

// Notify arms the queue: its next completion, or its next solicited one, puts
// one event on the completion channel.
func (n *Notifier) Notify(solicitedOnly bool) error {
	if solicitedOnly {
		return n.f.t.Write(n.solicited)
	}
	return n.f.t.Write(n.next)
}
