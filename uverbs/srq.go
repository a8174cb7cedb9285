// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// SRQConfig is the input of CreateSRQ.
type SRQConfig struct {
	Type       uint8 // IB_UVERBS_SRQT_...
	PD         uint32
	XRCD       uint32 // of type XRC
	CQ         uint32 // of types XRC and TM
	MaxTags    uint32 // of type TM
	UserHandle uint64
	MaxWR      uint32
	MaxSGE     uint32
	Limit      uint32
	Events     *AsyncChannel // for its asynchronous events, or nil
}

// SRQ is the result of CreateSRQ.
type SRQ struct {
	Handle uint32
	MaxWR  uint32
	MaxSGE uint32
	Num    uint32 // of type XRC
}

// CreateSRQ makes a shared receive queue (UVERBS_METHOD_SRQ_CREATE).
func (f *File) CreateSRQ(cfg SRQConfig, drv Driver) (SRQ, error) {
	var srq SRQ
	attrs := []Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE),
		handle(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, cfg.PD),
		u64(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, uint64(cfg.Type)),
		u64(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, cfg.UserHandle),
		u32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, cfg.MaxWR),
		u32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, cfg.MaxSGE),
		u32(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, cfg.Limit),
		out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &srq.MaxWR),
		out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &srq.MaxSGE),
	}
	switch cfg.Type {
	case abi.IB_UVERBS_SRQT_XRC:
		attrs = append(attrs, handle(abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, cfg.XRCD), handle(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cfg.CQ),
			out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &srq.Num))
	case abi.IB_UVERBS_SRQT_TM:
		attrs = append(attrs, handle(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cfg.CQ), u32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, cfg.MaxTags))
	}
	var err error
	if srq.Handle, err = f.createWith(abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD, cfg.Events, abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, drv.append(attrs)); err != nil {
		return SRQ{}, err
	}
	return srq, nil
}

// Changes of ModifySRQ: enum ib_srq_attr_mask of the kernel.
const (
	SRQMaxWR = 1 << 0
	SRQLimit = 1 << 1
)

// ModifySRQ changes the attributes of a shared receive queue that cmd.AttrMask names
// (IB_USER_VERBS_CMD_MODIFY_SRQ).
func (f *File) ModifySRQ(cmd *abi.UverbsModifySRQ, drv Driver) error {
	return runCommand(f, abi.IB_USER_VERBS_CMD_MODIFY_SRQ, cmd, drv)
}

// QuerySRQ returns the attributes of a shared receive queue
// (IB_USER_VERBS_CMD_QUERY_SRQ).
func (f *File) QuerySRQ(srq uint32) (abi.UverbsQuerySRQResp, error) {
	return runCommandResp[abi.UverbsQuerySRQResp](f, abi.IB_USER_VERBS_CMD_QUERY_SRQ, &abi.UverbsQuerySRQ{SRQHandle: srq}, Driver{})
}

// PostSRQRecv is File.PostRecv for a shared receive queue
// (IB_USER_VERBS_CMD_POST_SRQ_RECV).
func (f *File) PostSRQRecv(srq uint32, wrs []abi.UverbsRecvWR, sges []abi.UverbsSGE) (int, error) {
	cmd := abi.UverbsPostSRQRecv{SRQHandle: srq, WRCount: uint32(len(wrs)), SGECount: uint32(len(sges)), WQESize: uint32(abi.Size[abi.UverbsRecvWR]())}
	return f.post(abi.IB_USER_VERBS_CMD_POST_SRQ_RECV, bytesOf(bytesOf(abi.Bytes(&cmd), wrs), sges), len(wrs))
}

// DestroySRQ destroys a shared receive queue (UVERBS_METHOD_SRQ_DESTROY). It returns EBUSY for a
// queue in use.
func (f *File) DestroySRQ(srq uint32) error {
	var resp abi.UverbsDestroySRQResp
	_, err := f.ioctl(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE, srq),
		out(abi.UVERBS_ATTR_DESTROY_SRQ_RESP, &resp))
	return err
}
