// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/mem"
	"purerdma/uverbs"
)

// The locations of the registers in a page.
const (
	UARSize       = 4096
	CQDoorbell    = 0x20  // 8 bytes: arms a completion queue
	BlueFlame     = 0x800 // the first buffer of the first register
	BlueFlameSize = 0x100 // the second follows
)

// UAR is a page of doorbell registers. It is plain memory, which holds the last values that
// were written.
type UAR struct {
	// ID is the number of the page. Allocated pages are numbered from 0x10 in the order of
	// allocation. Pages that came with the context are numbered from 0.
	ID uint32
	// Type is MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF or _NC. A page of type NC cannot be used for
	// BlueFlame.
	Type uint64
	// Offset is the mmap offset of the page.
	Offset uint64
	// Mem is allocated before the program maps the page, and freed after the program unmaps it.
	Mem []byte

	c      *context
	handle uint32
	users  int
}

func (c *context) handleUAR() {
	if c.k.LegacyUAR {
		c.MapAt = c.mapLegacy
		return
	}
	c.MapAt = func(offset int64, length int) (*mem.Region, error) {
		if c.dynamic {
			return nil, syscall.EINVAL
		}
		return c.mapLegacy(offset, length)
	}
	c.Handle(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC, c.allocUAR)
	c.HandleDestroy(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY, c.destroyUAR)
}

func (c *context) allocUAR(req *uverbs.Request) error {
	typ := fakeuverbs.Value(req, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE)
	handle := req.Find(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
	for _, a := range req.Attrs {
		if a.ID < abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE || a.ID > abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID {
			return syscall.EPROTONOSUPPORT
		}
	}
	if handle == nil || handle.Kind != uverbs.AttrNewHandle || len(req.Attrs) != 5 {
		return syscall.EINVAL
	}
	if typ != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && typ != abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC {
		return syscall.EOPNOTSUPP
	}
	r, err := mem.Alloc(UARSize)
	if err != nil {
		return err
	}
	u := &UAR{ID: 0x10 + c.k.madeUARs, Type: typ, Mem: r.Bytes(), c: c, handle: c.NewHandle()}
	if h := c.hardware(); h != nil {
		if err := h.MakeUAR(u); err != nil {
			r.Free()
			return err
		}
	}
	u.Offset = c.Offer(r)
	c.k.madeUARs++
	c.uars[u.handle] = u
	c.k.uars = append(c.k.uars, u)
	handle.Value = uint64(u.handle)
	length := uint32(UARSize)
	fakeuverbs.Put(req, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &u.Offset)
	fakeuverbs.Put(req, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length)
	fakeuverbs.Put(req, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &u.ID)
	return nil
}

func (c *context) destroyUAR(req *uverbs.Request) error {
	u := c.uars[fakeuverbs.Handle(req, abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)]
	switch {
	case u == nil:
		return syscall.ENOENT
	case u.users > 0: // the firmware refuses it
		return syscall.EBUSY
	}
	if h := c.hardware(); h != nil {
		h.EndUAR(u)
	}
	delete(c.uars, u.handle)
	remove(&c.k.uars, u)
	c.Withdraw(u.Offset)
	return nil
}

// mapLegacy maps one of the pages that came with the context. The offset contains a command and
// the index of the page.
func (c *context) mapLegacy(offset int64, length int) (*mem.Region, error) {
	page := uint64(offset) / UARSize
	cmd, index := page>>8&0xff, uint32(page&0xff|page>>16<<8)
	if cmd != abi.MLX5_IB_MMAP_REGULAR_PAGE && cmd != abi.MLX5_IB_MMAP_WC_PAGE && cmd != abi.MLX5_IB_MMAP_NC_PAGE ||
		length != UARSize || offset%UARSize != 0 || index >= c.resp.TotBFRegs/2 || c.legacyUAR(index) != nil {
		return nil, syscall.EINVAL
	}
	r, err := mem.Alloc(UARSize)
	if err != nil {
		return nil, err
	}
	u := &UAR{ID: index, Mem: r.Bytes(), Offset: uint64(offset), c: c, handle: c.NewHandle()}
	if cmd == abi.MLX5_IB_MMAP_NC_PAGE {
		u.Type = abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
	}
	if h := c.hardware(); h != nil {
		if err := h.MakeUAR(u); err != nil {
			r.Free()
			return nil, err
		}
		u.ID = index // programs use the index of the page among their pages
	}
	c.uars[u.handle] = u
	c.k.uars = append(c.k.uars, u)
	return r, nil
}

// legacyUAR returns a mapped page that came with the context.
func (c *context) legacyUAR(index uint32) *UAR {
	for _, u := range c.uars {
		if u.ID == index && !c.dynamic {
			return u
		}
	}
	return nil
}

// dynamicUAR returns a page that the program has allocated.
func (c *context) dynamicUAR(id uint32) *UAR {
	for _, u := range c.uars {
		if u.ID == id && c.dynamic {
			return u
		}
	}
	return nil
}
