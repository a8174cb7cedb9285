// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// MR is the result of RegMR.
type MR struct {
	Handle uint32
	LKey   uint32
	RKey   uint32
}

// RegMR pins memory and registers it (IB_USER_VERBS_CMD_REG_MR). Work requests name b[0] by the
// address iova, which has the same offset in its page as b[0]. The memory must not move until
// DeregMR. The kernel returns ENOMEM beyond RLIMIT_MEMLOCK.
func (f *File) RegMR(pd uint32, b []byte, iova uint64, access uint32, drv Driver) (MR, error) {
	// One struct, so that there is one allocation.
	var x struct {
		cmd  abi.UverbsRegMR
		resp abi.UverbsRegMRResp
	}
	x.cmd = abi.UverbsRegMR{
		Start:       abi.NewSlicePointer(b),
		Length:      uint64(len(b)),
		HCAVA:       iova,
		PDHandle:    pd,
		AccessFlags: access,
	}
	err := f.InvokeWrite(abi.IB_USER_VERBS_CMD_REG_MR, abi.Bytes(&x.cmd), abi.Bytes(&x.resp), drv)
	return MR{Handle: x.resp.MRHandle, LKey: x.resp.LKey, RKey: x.resp.RKey}, err
}

// DeregMR deregisters memory and unpins it (UVERBS_METHOD_MR_DESTROY). If it
// fails, the device may still reach the memory.
func (f *File) DeregMR(mr uint32) error { return deregMR.run(f, mr) }

var deregMR = prepareDestroy[struct{}](abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY, abi.UVERBS_ATTR_DESTROY_MR_HANDLE, 0)

// Changes of ReregMR: enum ib_mr_rereg_flags of the kernel.
const (
	ReregTrans  = 1 << 0 // the memory
	ReregPD     = 1 << 1
	ReregAccess = 1 << 2
)

// ReregMR makes the changes that flags name to a memory region (IB_USER_VERBS_CMD_REREG_MR). It
// returns the keys, which may have changed.
func (f *File) ReregMR(mr, flags, pd uint32, b []byte, iova uint64, access uint32, drv Driver) (MR, error) {
	resp, err := runCommandResp[abi.UverbsReregMRResp](f, abi.IB_USER_VERBS_CMD_REREG_MR, &abi.UverbsReregMR{
		MRHandle:    mr,
		Flags:       flags,
		Start:       abi.NewSlicePointer(b),
		Length:      uint64(len(b)),
		HCAVA:       iova,
		PDHandle:    pd,
		AccessFlags: access,
	}, drv)
	if err != nil {
		return MR{}, err
	}
	return MR{Handle: mr, LKey: resp.LKey, RKey: resp.RKey}, nil
}

// RegMRMethod is RegMR by a method of newer kernels, with additional options (UVERBS_METHOD_REG_MR,
// Linux 6.17).
func (f *File) RegMRMethod(pd uint32, b []byte, iova uint64, access uint32, opt RegMROptions, drv Driver) (MR, error) {
	var mr MR
	attrs := []Attr{
		newHandle(abi.UVERBS_ATTR_REG_MR_HANDLE),
		handle(abi.UVERBS_ATTR_REG_MR_PD_HANDLE, pd),
		u64(abi.UVERBS_ATTR_REG_MR_IOVA, iova),
		u32(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS, access),
		out(abi.UVERBS_ATTR_REG_MR_RESP_LKEY, &mr.LKey),
		out(abi.UVERBS_ATTR_REG_MR_RESP_RKEY, &mr.RKey),
	}
	if opt.DMAH != nil {
		attrs = append(attrs, handle(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE, *opt.DMAH))
	}
	if d := opt.DMABuf; d != nil {
		attrs = append(attrs, u64(abi.UVERBS_ATTR_REG_MR_LENGTH, d.Length), u64(abi.UVERBS_ATTR_REG_MR_FD_OFFSET, d.Offset),
			fd(abi.UVERBS_ATTR_REG_MR_FD, uintptr(d.FD)))
	} else {
		start := abi.NewSlicePointer(b)
		attrs = append(attrs, u64(abi.UVERBS_ATTR_REG_MR_LENGTH, uint64(len(b))), in(abi.UVERBS_ATTR_REG_MR_ADDR, &start))
	}
	var err error
	mr.Handle, err = f.create(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_MR, drv.append(attrs)...)
	return mr, err
}

// RegMROptions holds the options of RegMRMethod.
type RegMROptions struct {
	DMAH   *uint32 // a handle of AllocDMAH, or nil
	DMABuf *DMABuf // in place of the memory, or nil
}

// DMABuf is a piece of a dma-buf, which is memory of another device.
type DMABuf struct {
	FD     int
	Offset uint64
	Length uint64
}

// RegDMABufMR registers memory of another device (UVERBS_METHOD_REG_DMABUF_MR,
// Linux 5.12).
func (f *File) RegDMABufMR(pd uint32, buf DMABuf, iova uint64, access uint32) (MR, error) {
	var mr MR
	var err error
	mr.Handle, err = f.create(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR,
		newHandle(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE),
		handle(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd),
		u64(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, buf.Offset),
		u64(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, buf.Length),
		u64(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova),
		u32(abi.UVERBS_ATTR_REG_DMABUF_MR_FD, uint32(buf.FD)),
		u32(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access),
		out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr.LKey),
		out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr.RKey))
	return mr, err
}

// RegDMMR registers a piece of device memory (UVERBS_METHOD_DM_MR_REG). access
// must have IB_UVERBS_ACCESS_ZERO_BASED.
func (f *File) RegDMMR(pd, dm uint32, offset, length uint64, access uint32) (MR, error) {
	var mr MR
	var err error
	mr.Handle, err = f.create(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_DM_MR_REG,
		newHandle(abi.UVERBS_ATTR_REG_DM_MR_HANDLE),
		u64(abi.UVERBS_ATTR_REG_DM_MR_OFFSET, offset),
		u64(abi.UVERBS_ATTR_REG_DM_MR_LENGTH, length),
		handle(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd),
		u32(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access),
		handle(abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm),
		out(abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mr.LKey),
		out(abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mr.RKey))
	return mr, err
}

// MRInfo is the result of QueryMR.
type MRInfo struct {
	LKey, RKey   uint32
	Length, IOVA uint64
}

// QueryMR returns the kernel's data about a memory region, for example after its context was
// received from another process (UVERBS_METHOD_QUERY_MR, Linux 5.9).
func (f *File) QueryMR(mr uint32) (MRInfo, error) {
	var i MRInfo
	_, err := f.ioctl(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_QUERY_MR,
		handle(abi.UVERBS_ATTR_QUERY_MR_HANDLE, mr),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, &i.LKey),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, &i.RKey),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &i.Length),
		out(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, &i.IOVA))
	return i, err
}

// AdviseMR announces the use of memory that is paged on demand (UVERBS_METHOD_ADVISE_MR). advice is
// IB_UVERBS_ADVISE_MR_ADVICE_..., flags are IB_UVERBS_ADVISE_MR_FLAG_....
func (f *File) AdviseMR(pd uint32, advice, flags uint32, pieces []abi.UverbsSGE) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR,
		handle(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd),
		u64(abi.UVERBS_ATTR_ADVISE_MR_ADVICE, uint64(advice)),
		u32(abi.UVERBS_ATTR_ADVISE_MR_FLAGS, flags),
		Attr{ID: abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, Kind: AttrIn, Buf: bytesOf(nil, pieces)})
	return err
}
