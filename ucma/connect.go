// SPDX-License-Identifier: Apache-2.0

package ucma

import "purerdma/abi"

// Connect sends a connection request, or for UD a service lookup (RDMA_USER_CM_CMD_CONNECT). It
// sets Valid.
func (f *File) Connect(id uint32, param *abi.UcmConnParam, ece abi.UcmECE) error {
	fr := newFrame[abi.UcmConnect](abi.RDMA_USER_CM_CMD_CONNECT, 0)
	defer fr.free()
	fr.cmd.ID, fr.cmd.ECE = id, ece
	fr.cmd.ConnParam = *param
	fr.cmd.ConnParam.Valid = 1
	return f.run(abi.RDMA_USER_CM_CMD_CONNECT, id, &fr.cmd, nil, abi.Bytes(fr))
}

// Listen starts to listen (RDMA_USER_CM_CMD_LISTEN). backlog bounds the connect requests that have
// not been fetched. Values of 0 or less, and values above the sysctl net.rdma_ucm.max_backlog, mean
// that maximum.
func (f *File) Listen(id uint32, backlog int32) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_LISTEN, id, abi.UcmListen{ID: id, Backlog: uint32(backlog)})
}

// Accept accepts a connect request (RDMA_USER_CM_CMD_ACCEPT) and sets the ID's uid. Before, its uid
// is 0 and its events are dropped. If Accept fails, the kernel has already rejected the peer.
func (f *File) Accept(id uint32, uid uint64, param *abi.UcmConnParam, ece abi.UcmECE) error {
	fr := newFrame[abi.UcmAccept](abi.RDMA_USER_CM_CMD_ACCEPT, 0)
	defer fr.free()
	fr.cmd.UID, fr.cmd.ID, fr.cmd.ECE = uid, id, ece
	fr.cmd.ConnParam = *param
	fr.cmd.ConnParam.Valid = 1
	return f.run(abi.RDMA_USER_CM_CMD_ACCEPT, id, &fr.cmd, nil, abi.Bytes(fr))
}

// Establish confirms a CONNECT_RESPONSE. It is the same command without parameters, which makes the
// kernel send the RTU.
func (f *File) Establish(id uint32) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_ACCEPT, id, abi.UcmAccept{ID: id})
}

// Reject refuses a connect request, or on the active side a response (RDMA_USER_CM_CMD_REJECT).
// privateData must not exceed RDMA_MAX_PRIVATE_DATA-1 bytes. reason is IB_CM_REJ_CONSUMER_DEFINED
// or IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED. 0 means the former.
func (f *File) Reject(id uint32, privateData []byte, reason uint8) error {
	cmd := abi.UcmReject{ID: id, Reason: reason}
	cmd.PrivateDataLen = uint8(copy(cmd.PrivateData[:abi.RDMA_MAX_PRIVATE_DATA-1], privateData))
	return runCommand(f, abi.RDMA_USER_CM_CMD_REJECT, id, cmd)
}

// Disconnect starts or confirms the end of a connection (RDMA_USER_CM_CMD_DISCONNECT). On IB and
// RoCE it succeeds even if no message could be sent.
func (f *File) Disconnect(id uint32) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_DISCONNECT, id, abi.UcmDisconnect{ID: id})
}

// Notify passes an asynchronous event of the QP to the connection manager
// (RDMA_USER_CM_CMD_NOTIFY). event is IB_EVENT_COMM_EST or IB_EVENT_PATH_MIG.
func (f *File) Notify(id, event uint32) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_NOTIFY, id, abi.UcmNotify{ID: id, Event: event})
}

// QPAttr holds the command and the response of InitQPAttr. It can be reused, by one call at a time.
type QPAttr struct {
	exchange[abi.UcmInitQPAttr, abi.UverbsQPAttr]
}

// Attr returns the attributes, which are a part of a.
func (a *QPAttr) Attr() *abi.UverbsQPAttr { return &a.resp }

// InitQPAttr computes the attributes that move the ID's QP to a state
// (RDMA_USER_CM_CMD_INIT_QP_ATTR). It writes them to memory of the caller, because each connection
// needs several.
func (f *File) InitQPAttr(id, state uint32, a *QPAttr) error {
	a.cmd = abi.UcmInitQPAttr{Response: abi.NewPointer(&a.resp), ID: id, QPState: state}
	return a.run(f, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR, id)
}
