// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// QPConfig is the input of CreateQP. A queue pair of type XRC_TGT has an XRCD and neither PD nor
// CQs. A queue pair of type XRC_INI, or with an IndTable, has no RecvCQ. CreateQP ignores those
// fields then.
type QPConfig struct {
	Type       uint8 // IB_UVERBS_QPT_...
	PD         uint32
	SendCQ     uint32
	RecvCQ     uint32
	SRQ        *uint32 // shared receive queue, or nil
	XRCD       *uint32 // or nil
	IndTable   *uint32 // of work queues, or nil
	UserHandle uint64
	Cap        abi.UverbsQPCap
	Flags      uint32        // IB_UVERBS_QP_CREATE_...
	SourceQPN  uint32        // of packets, if not 0
	Events     *AsyncChannel // for its asynchronous events, or nil
}

// QP is the result of CreateQP.
type QP struct {
	Handle uint32
	Num    uint32
	Cap    abi.UverbsQPCap
}

// CreateQP makes a queue pair (UVERBS_METHOD_QP_CREATE).
func (f *File) CreateQP(cfg QPConfig, drv Driver) (QP, error) {
	if !cfg.isOrdinary() {
		return f.createSpecialQP(cfg, drv)
	}
	req := createQP.get()
	defer createQP.put(req)
	v := &req.values
	v.userHandle, v.cap, v.typ = cfg.UserHandle, cfg.Cap, uint64(cfg.Type)
	for i, h := range [...]uint32{0, cfg.PD, cfg.SendCQ, cfg.RecvCQ} {
		req.Attrs[i].Value = uint64(h)
	}
	if err := req.runWith(f, drv); err != nil {
		return QP{}, err
	}
	return QP{Handle: uint32(req.Attrs[0].Value), Num: v.num, Cap: v.respCap}, nil
}

var createQP = prepare(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, func(v *createQPValues) []Attr {
	return []Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_QP_HANDLE),
		handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0),
		handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 0),
		handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, 0),
		in(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, &v.userHandle),
		in(abi.UVERBS_ATTR_CREATE_QP_CAP, &v.cap),
		in(abi.UVERBS_ATTR_CREATE_QP_TYPE, &v.typ),
		out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &v.respCap),
		out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &v.num),
	}
})

type createQPValues struct {
	userHandle, typ uint64
	cap, respCap    abi.UverbsQPCap
	num             uint32
}

// isOrdinary reports whether a queue pair has a PD, two CQs, and nothing else that it
// belongs to, as most have.
func (c *QPConfig) isOrdinary() bool {
	return c.SRQ == nil && c.XRCD == nil && c.IndTable == nil && c.Flags == 0 && c.SourceQPN == 0 && c.Events == nil &&
		c.Type != abi.IB_UVERBS_QPT_XRC_TGT && c.Type != abi.IB_UVERBS_QPT_XRC_INI
}

// createSpecialQP is CreateQP for all other queue pairs.
func (f *File) createSpecialQP(cfg QPConfig, drv Driver) (QP, error) {
	req := newRequest(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer req.free()
	req.add(newHandle(abi.UVERBS_ATTR_CREATE_QP_HANDLE))
	req.number(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, cfg.UserHandle)
	req.in(abi.UVERBS_ATTR_CREATE_QP_CAP, abi.Bytes(&cfg.Cap))
	req.number(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(cfg.Type))
	respCap := req.out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Size[abi.UverbsQPCap]())
	num := req.out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4)
	cfg.addObjects(req)
	if cfg.Flags != 0 {
		req.in(abi.UVERBS_ATTR_CREATE_QP_FLAGS, abi.Bytes(&cfg.Flags))
	}
	if cfg.SourceQPN != 0 {
		req.in(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN, abi.Bytes(&cfg.SourceQPN))
	}
	req.Attrs = drv.append(req.Attrs)
	req.events(abi.UVERBS_ATTR_CREATE_QP_EVENT_FD, cfg.Events)
	if err := req.runOn(f); err != nil {
		return QP{}, err
	}
	qp := QP{Handle: uint32(req.Attrs[0].Value), Num: uint32(Number(num))}
	copy(abi.Bytes(&qp.Cap), respCap)
	return qp, nil
}

// addObjects adds the handles of the parents of a queue pair of its type.
func (c *QPConfig) addObjects(req *pooled) {
	if c.XRCD != nil {
		req.add(handle(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, *c.XRCD))
	}
	if c.SRQ != nil {
		req.add(handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, *c.SRQ))
	}
	if c.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		return
	}
	req.add(handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, c.PD))
	if c.IndTable != nil {
		req.add(handle(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, *c.IndTable))
		if c.Cap.MaxSendWR == 0 {
			return
		}
	}
	req.add(handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, c.SendCQ))
	if c.IndTable == nil && c.Type != abi.IB_UVERBS_QPT_XRC_INI {
		req.add(handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, c.RecvCQ))
	}
}

// OpenQP opens the queue pair of type XRC_TGT that another process has made in
// the same XRC domain (IB_USER_VERBS_CMD_OPEN_QP).
func (f *File) OpenQP(xrcd, num uint32, userHandle uint64, drv Driver) (QP, error) {
	resp, err := runCommandResp[abi.UverbsCreateQPResp](f, abi.IB_USER_VERBS_CMD_OPEN_QP,
		&abi.UverbsOpenQP{UserHandle: userHandle, PDHandle: xrcd, QPN: num, QPType: abi.IB_UVERBS_QPT_XRC_TGT}, drv)
	return QP{Handle: resp.QPHandle, Num: resp.QPN}, err
}

// DestroyQP destroys a queue pair (UVERBS_METHOD_QP_DESTROY).
func (f *File) DestroyQP(qp uint32) error { return destroyQP.run(f, qp) }

var destroyQP = prepareDestroy[abi.UverbsDestroyQPResp](abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY,
	abi.UVERBS_ATTR_DESTROY_QP_HANDLE, abi.UVERBS_ATTR_DESTROY_QP_RESP)

// ModifyQP changes the attributes of a queue pair that cmd.AttrMask names
// (IB_USER_VERBS_CMD_MODIFY_QP).
func (f *File) ModifyQP(cmd *abi.UverbsModifyQP) error {
	req := modifyQP.get()
	defer modifyQP.put(req)
	req.values.cmd = *cmd
	return f.run(&req.Request)
}

var modifyQP = prepare(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE, func(v *modifyQPValues) []Attr {
	v.code = abi.IB_USER_VERBS_CMD_MODIFY_QP
	return []Attr{in(abi.UVERBS_ATTR_WRITE_CMD, &v.code), in(abi.UVERBS_ATTR_CORE_IN, &v.cmd)}
})

type modifyQPValues struct {
	code uint64
	cmd  abi.UverbsModifyQP
}

// ModifyQPEx is ModifyQP with a limit of the rate, for IB_QP_RATE_LIMIT
// (IB_USER_VERBS_EX_CMD_MODIFY_QP).
func (f *File) ModifyQPEx(cmd *abi.UverbsExModifyQP, drv Driver) error {
	_, err := runCommandResp[abi.UverbsExModifyQPResp](f, ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_QP, cmd, drv)
	return err
}

// QueryQP returns the attributes of a queue pair (IB_USER_VERBS_CMD_QUERY_QP). mask names the
// attributes that the caller needs.
func (f *File) QueryQP(qp uint32, mask uint32) (abi.UverbsQueryQPResp, error) {
	cmd := abi.UverbsQueryQP{QPHandle: qp, AttrMask: mask}
	var resp abi.UverbsQueryQPResp
	err := f.InvokeWrite(abi.IB_USER_VERBS_CMD_QUERY_QP, abi.Bytes(&cmd), abi.Bytes(&resp), Driver{})
	return resp, err
}

// AttachMcast makes a queue pair receive the messages to a multicast group
// (IB_USER_VERBS_CMD_ATTACH_MCAST).
func (f *File) AttachMcast(qp uint32, gid [16]byte, lid uint16) error {
	return runCommand(f, abi.IB_USER_VERBS_CMD_ATTACH_MCAST, &abi.UverbsAttachMcast{GID: gid, QPHandle: qp, MLID: lid}, Driver{})
}

// DetachMcast undoes AttachMcast (IB_USER_VERBS_CMD_DETACH_MCAST). The queue pair cannot be
// destroyed before.
func (f *File) DetachMcast(qp uint32, gid [16]byte, lid uint16) error {
	return runCommand(f, abi.IB_USER_VERBS_CMD_DETACH_MCAST, &abi.UverbsDetachMcast{GID: gid, QPHandle: qp, MLID: lid}, Driver{})
}

// PostSend posts send requests through the kernel (IB_USER_VERBS_CMD_POST_SEND). sges are the
// elements of all of them, in the order of the requests. It returns the number of posted requests.
// Drivers with rings of their own do not accept requests from this command.
func (f *File) PostSend(qp uint32, wrs []abi.UverbsSendWR, sges []abi.UverbsSGE) (int, error) {
	cmd := abi.UverbsPostSend{QPHandle: qp, WRCount: uint32(len(wrs)), SGECount: uint32(len(sges)), WQESize: uint32(abi.Size[abi.UverbsSendWR]())}
	return f.post(abi.IB_USER_VERBS_CMD_POST_SEND, bytesOf(bytesOf(abi.Bytes(&cmd), wrs), sges), len(wrs))
}

// PostRecv is PostSend for receives (IB_USER_VERBS_CMD_POST_RECV).
func (f *File) PostRecv(qp uint32, wrs []abi.UverbsRecvWR, sges []abi.UverbsSGE) (int, error) {
	cmd := abi.UverbsPostRecv{QPHandle: qp, WRCount: uint32(len(wrs)), SGECount: uint32(len(sges)), WQESize: uint32(abi.Size[abi.UverbsRecvWR]())}
	return f.post(abi.IB_USER_VERBS_CMD_POST_RECV, bytesOf(bytesOf(abi.Bytes(&cmd), wrs), sges), len(wrs))
}

// post runs a command that posts n requests. The response is the number of the first refused
// request, from 1. The kernel also writes it with an error.
func (f *File) post(command uint32, cmd []byte, n int) (int, error) {
	var resp abi.UverbsPostSendResp // has the layout of the other two
	err := f.InvokeWrite(command, cmd, abi.Bytes(&resp), Driver{})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Doorbell makes a driver look at the send queue of one queue pair, by write(2)
// of a command that posts an empty list and was prepared once. It allocates
// nothing and may be used concurrently. It must not be copied after Init.
type Doorbell struct {
	f   *File
	cmd postSend
	// resp is the place for the index of a bad request, which an empty list does not have. The
	// command holds its address.
	resp abi.UverbsPostSendResp
}

// postSend is the POST_SEND command in the form of write(2).
type postSend struct {
	hdr abi.UverbsCmdHdr
	cmd abi.UverbsPostSend
}

// NewDoorbell returns a Doorbell for a queue pair.
func (f *File) NewDoorbell(qp uint32) *Doorbell {
	d := new(Doorbell)
	d.Init(f, qp)
	return d
}

// Init prepares the command for a queue pair (IB_USER_VERBS_CMD_POST_SEND).
func (d *Doorbell) Init(f *File, qp uint32) {
	d.f = f
	d.cmd = postSend{
		hdr: abi.UverbsCmdHdr{
			Command:  abi.IB_USER_VERBS_CMD_POST_SEND,
			InWords:  uint16(abi.Size[postSend]() / 4),
			OutWords: uint16(abi.Size[abi.UverbsPostSendResp]() / 4),
		},
		// The kernel checks wqe_size even for an empty list.
		cmd: abi.UverbsPostSend{Response: abi.NewPointer(&d.resp), QPHandle: qp, WQESize: uint32(abi.Size[abi.UverbsSendWR]())},
	}
}

// Ring makes the driver process the send queue.
func (d *Doorbell) Ring() error { return d.f.write(abi.Bytes(&d.cmd)) }
