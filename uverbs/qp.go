// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// QPConfig is the input of CreateQP.
type QPConfig struct {
	Type       uint8 // IB_UVERBS_QPT_...
	PD         uint32
	SendCQ     uint32
	RecvCQ     uint32
	UserHandle uint64
	Cap        abi.UverbsQPCap
	Flags      uint32 // IB_UVERBS_QP_CREATE_...
}

// QP is the answer of CreateQP.
type QP struct {
	Handle uint32
	Num    uint32
	Cap    abi.UverbsQPCap
}

// CreateQP makes a queue pair (UVERBS_METHOD_QP_CREATE).
func (f *File) CreateQP(cfg QPConfig, drv Driver) (QP, error) {
	var qp QP
	req, err := f.ioctl(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, drv.append([]Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_QP_HANDLE),
		handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, cfg.PD),
		handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cfg.SendCQ),
		handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cfg.RecvCQ),
		u64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, cfg.UserHandle),
		in(abi.UVERBS_ATTR_CREATE_QP_CAP, &cfg.Cap),
		u64(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(cfg.Type)),
		u32(abi.UVERBS_ATTR_CREATE_QP_FLAGS, cfg.Flags),
		out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp.Cap),
		out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp.Num),
	})...)
	if err != nil {
		return QP{}, err
	}
	qp.Handle = uint32(req.Attrs[0].Value)
	return qp, nil
}

// DestroyQP destroys a queue pair (UVERBS_METHOD_QP_DESTROY).
func (f *File) DestroyQP(qp uint32) error {
	var resp abi.UverbsDestroyQPResp
	_, err := f.ioctl(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, qp),
		out(abi.UVERBS_ATTR_DESTROY_QP_RESP, &resp))
	return err
}

// ModifyQP changes attributes of a queue pair (IB_USER_VERBS_CMD_MODIFY_QP).
// cmd.AttrMask says which.
func (f *File) ModifyQP(cmd *abi.UverbsModifyQP, drv Driver) error {
	return f.invokeWrite(abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.Bytes(cmd), nil, drv)
}

// QueryQP returns the attributes of a queue pair (IB_USER_VERBS_CMD_QUERY_QP);
// mask says which the caller needs.
func (f *File) QueryQP(qp uint32, mask uint32) (abi.UverbsQueryQPResp, error) {
	cmd := abi.UverbsQueryQP{QPHandle: qp, AttrMask: mask}
	var resp abi.UverbsQueryQPResp
	err := f.invokeWrite(abi.IB_USER_VERBS_CMD_QUERY_QP, abi.Bytes(&cmd), abi.Bytes(&resp), Driver{})
	return resp, err
}

// Doorbell makes a driver look at the send queue of one queue pair, by write(2)
// of a command that posts an empty list and was prepared once. It allocates
// nothing and may be used concurrently.
type Doorbell struct {
	f   *File
	cmd []byte
	// resp is where the kernel would write the index of a bad request, which an
	// empty list does not have. The command holds its address.
	resp *abi.UverbsPostSendResp
}

// postSend is the POST_SEND command in the form of write(2).
type postSend struct {
	hdr abi.UverbsCmdHdr
	cmd abi.UverbsPostSend
}

// NewDoorbell prepares the command for a queue pair
// (IB_USER_VERBS_CMD_POST_SEND).
func (f *File) NewDoorbell(qp uint32) *Doorbell {
	d := &Doorbell{f: f, resp: new(abi.UverbsPostSendResp)}
	d.cmd = abi.Bytes(&postSend{
		hdr: abi.UverbsCmdHdr{
			Command:  abi.IB_USER_VERBS_CMD_POST_SEND,
			InWords:  uint16(abi.Size[postSend]() / 4),
			OutWords: uint16(abi.Size[abi.UverbsPostSendResp]() / 4),
		},
		// The kernel checks wqe_size before it sees that there are none.
		cmd: abi.UverbsPostSend{Response: abi.NewPointer(d.resp), QPHandle: qp, WQESize: uint32(abi.Size[abi.UverbsSendWR]())},
	})
	return d
}

// Ring makes the driver look at the send queue.
func (d *Doorbell) Ring() error { return d.f.t.Write(d.cmd) }
