// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// WQConfig is the input of CreateWQ.
type WQConfig struct {
	PD         uint32
	CQ         uint32
	UserHandle uint64
	MaxWR      uint32
	MaxSGE     uint32
	Flags      uint32        // IB_UVERBS_WQ_FLAGS_...
	Events     *AsyncChannel // for its asynchronous events, or nil
}

// WQ is the result of CreateWQ.
type WQ struct {
	Handle uint32
	Num    uint32
	MaxWR  uint32
	MaxSGE uint32
}

// CreateWQ makes a work queue of receives (UVERBS_METHOD_WQ_CREATE).
func (f *File) CreateWQ(cfg WQConfig, drv Driver) (WQ, error) {
	var wq WQ
	attrs := []Attr{
		newHandle(abi.UVERBS_ATTR_CREATE_WQ_HANDLE),
		handle(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE, cfg.PD),
		handle(abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, cfg.CQ),
		u64(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE, cfg.UserHandle),
		u64(abi.UVERBS_ATTR_CREATE_WQ_TYPE, abi.IB_UVERBS_WQT_RQ),
		u32(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR, cfg.MaxWR),
		u32(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE, cfg.MaxSGE),
		u32(abi.UVERBS_ATTR_CREATE_WQ_FLAGS, cfg.Flags),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &wq.MaxWR),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &wq.MaxSGE),
		out(abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &wq.Num),
	}
	var err error
	if wq.Handle, err = f.createWith(abi.UVERBS_ATTR_CREATE_WQ_EVENT_FD, cfg.Events, abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE, drv.append(attrs)); err != nil {
		return WQ{}, err
	}
	return wq, nil
}

// ModifyWQ changes the attributes of a work queue that cmd.AttrMask names
// (IB_USER_VERBS_EX_CMD_MODIFY_WQ).
func (f *File) ModifyWQ(cmd *abi.UverbsExModifyWQ, drv Driver) error {
	return runCommand(f, ex|abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ, cmd, drv)
}

// DestroyWQ destroys a work queue (UVERBS_METHOD_WQ_DESTROY).
func (f *File) DestroyWQ(wq uint32) error {
	var events uint32
	_, err := f.ioctl(abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE, wq),
		out(abi.UVERBS_ATTR_DESTROY_WQ_RESP, &events))
	return err
}

// RWQIndTable is the result of CreateRWQIndTable.
type RWQIndTable struct {
	Handle uint32
	Num    uint32
}

// CreateRWQIndTable makes a table of 1<<logSize work queues that received packets are spread over
// (IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL). It is also the length of wqs.
func (f *File) CreateRWQIndTable(logSize uint32, wqs []uint32, drv Driver) (RWQIndTable, error) {
	cmd := bytesOf(abi.Bytes(&abi.UverbsExCreateRWQIndTable{LogIndTblSize: logSize}), wqs)
	if len(wqs)%2 != 0 {
		cmd = append(cmd, 0, 0, 0, 0) // commands of this kind consist of words of eight bytes
	}
	var resp abi.UverbsExCreateRWQIndTableResp
	err := f.InvokeWrite(ex|abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, cmd, abi.Bytes(&resp), drv)
	return RWQIndTable{Handle: resp.IndTblHandle, Num: resp.IndTblNum}, err
}

// DestroyRWQIndTable destroys a table (UVERBS_METHOD_RWQ_IND_TBL_DESTROY).
func (f *File) DestroyRWQIndTable(table uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY, abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, table)
}
