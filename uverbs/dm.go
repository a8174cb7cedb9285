// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"os"

	"purerdma/abi"
)

// AllocDM allocates memory of the device and returns its handle (UVERBS_METHOD_DM_ALLOC). logAlign
// is the logarithm of its alignment.
func (f *File) AllocDM(length uint64, logAlign uint32) (uint32, error) {
	return f.create(abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_ALLOC,
		newHandle(abi.UVERBS_ATTR_ALLOC_DM_HANDLE),
		u64(abi.UVERBS_ATTR_ALLOC_DM_LENGTH, length),
		u32(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, logAlign))
}

// FreeDM frees memory of the device (UVERBS_METHOD_DM_FREE). It returns EBUSY for memory that a
// region is registered on.
func (f *File) FreeDM(dm uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_FREE, abi.UVERBS_ATTR_FREE_DM_HANDLE, dm)
}

// DMAHConfig is the input of AllocDMAH. Nil fields are left out.
type DMAHConfig struct {
	CPU     *uint32 // whose cache the data is for
	MemType *uint8  // 0 volatile, 1 persistent
	PH      *uint8  // processing hint, two bits
}

// AllocDMAH allocates a DMA handle, which holds hints for writes of the device to memory
// (UVERBS_METHOD_DMAH_ALLOC, Linux 6.17).
func (f *File) AllocDMAH(cfg DMAHConfig) (uint32, error) {
	attrs := []Attr{newHandle(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE)}
	if cfg.CPU != nil {
		attrs = append(attrs, in(abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, cfg.CPU))
	}
	if cfg.MemType != nil {
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, Kind: AttrIn, Elem: *cfg.MemType})
	}
	if cfg.PH != nil {
		attrs = append(attrs, in(abi.UVERBS_ATTR_ALLOC_DMAH_PH, cfg.PH))
	}
	return f.create(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_ALLOC, attrs...)
}

// FreeDMAH frees a DMA handle (UVERBS_METHOD_DMAH_FREE).
func (f *File) FreeDMAH(dmah uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE, abi.UVERBS_ATTR_FREE_DMA_HANDLE, dmah)
}

// AllocDMABuf makes a dma-buf of the device's mapping at an offset of its file
// (UVERBS_METHOD_DMABUF_ALLOC, Linux 7). The caller closes it.
func (f *File) AllocDMABuf(offset uint64) (*os.File, error) {
	req, err := f.ioctl(abi.UVERBS_OBJECT_DMABUF, abi.UVERBS_METHOD_DMABUF_ALLOC,
		Attr{ID: abi.UVERBS_ATTR_ALLOC_DMABUF_HANDLE, Kind: AttrNewFD},
		u64(abi.UVERBS_ATTR_ALLOC_DMABUF_PGOFF, offset))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(uint32(req.Attrs[0].Value)), "dma-buf of "+f.info.Name), nil
}
