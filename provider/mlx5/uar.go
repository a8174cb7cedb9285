// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mmio"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// A user access region (UAR) is a page of registers (PRM, "UAR Page Format"). It has the doorbell
// of CQs, and from 0x800 on four pairs of doorbells of send queues. The halves of each pair are
// used in turn, so that a write need not wait until the one before has left the processor. Two of
// the four are for "fast path" users, and this package does not use them.
const (
	uarSize      = 4096
	uarDoorbells = 0x800 // offset of the first pair
	regsPerUAR   = 4
	usedPerUAR   = 2
)

// register is the doorbell of a send queue.
type register struct {
	mmio.Register      // of Size 0: it takes no BlueFlame
	shared        bool // between QPs. The lock is taken around each use
	lock          spin.Lock
	page          uint32 // the device's number of its UAR
	users         int    // QPs of a shared register
	pool          pool
}

// pool is the pool that a register returns to.
type pool uint8

const (
	poolNone      pool = iota
	poolDedicated      // for one QP each, without a lock
	poolShared         // for QPs beyond those
	poolPrivate        // for QPs of one goroutine
)

// uars are the registers of a context. There are two ways: objects that are made as
// they are needed (dynamic UARs, Linux 5.7), or a fixed number of pages that the
// kernel assigns to QPs (legacy).
type uars struct {
	ctx *Context
	cq  unsafe.Pointer // the UAR whose CQ doorbell is used

	mu       sync.Mutex
	mappings []*uverbs.Mapping
	legacy   []*register // by the kernel's number. nil if UARs are dynamic
	plain    *register   // takes no BlueFlame. Only with dynamic UARs
	free     [poolPrivate + 1][]*register
	made     [poolPrivate + 1]int
	limit    [poolPrivate + 1]int
}

// totalBFRegs returns the number of registers that a context requests.
func totalBFRegs(pageSize int) int { return max(8*usedPerUAR, pageSize/uarSize*usedPerUAR) }

// lowLatencyBFRegs returns how many of them belong to one QP each.
func lowLatencyBFRegs(total int) int { return max(4, total-12) }

// open maps what a context starts with.
func (u *uars) open(c *Context, r *abi.Mlx5AllocUcontextResp, total int) error {
	u.ctx = c
	low := lowLatencyBFRegs(total)
	if r.TotBFRegs != 0 {
		return u.openLegacy(r, low)
	}
	u.limit = [...]int{poolDedicated: low, poolShared: total - low, poolPrivate: int(^uint(0) >> 1)}
	base, page, err := u.alloc(abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
	if err != nil {
		return fmt.Errorf("allocate UAR: %w", err)
	}
	u.cq = base
	u.plain = &register{Register: mmio.Register{Base: unsafe.Add(base, uarDoorbells)}, page: page}
	return nil
}

// openLegacy maps the pages of a kernel that assigns registers itself.
func (u *uars) openLegacy(r *abi.Mlx5AllocUcontextResp, low int) error {
	perPage := u.ctx.caps.uarsPerPage * usedPerUAR
	total := int(r.TotBFRegs)
	if total > maxBFRegs || total < perPage || total%perPage != 0 || total <= low {
		return unsupported("%d BlueFlame registers, %d in a page", r.TotBFRegs, perPage)
	}
	size := u.ctx.caps.bfRegSize
	for page := range total / perPage {
		base, err := u.mmap(int64(page)*int64(u.ctx.pageSize), u.ctx.pageSize)
		if err != nil {
			return fmt.Errorf("map UAR %d: %w", page, err)
		}
		if page == 0 {
			u.cq = base
		}
		for i := range u.ctx.caps.uarsPerPage * regsPerUAR {
			n := len(u.legacy)
			reg := &register{
				Register: mmio.Register{Base: unsafe.Add(base, uintptr(i/regsPerUAR)*uarSize+uarDoorbells+uintptr(i%regsPerUAR)*size)},
				// The first is for all QPs, by single stores. The last ones are for one QP each.
				shared: n != 0 && n/2+n%2 < total-low,
			}
			if n != 0 && !u.ctx.noBlueFlame {
				reg.Size = size / 2
			}
			u.legacy = append(u.legacy, reg)
		}
	}
	return nil
}

// maxBFRegs is the maximum that libmlx5 requests.
const maxBFRegs = 1024 * usedPerUAR

// alloc makes and maps a UAR object.
func (u *uars) alloc(typ uint64) (base unsafe.Pointer, page uint32, err error) {
	var offset uint64
	var length uint32
	err = u.ctx.file.Ioctl(&uverbs.Request{
		Object: abi.MLX5_IB_OBJECT_UAR,
		Method: abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC,
		Attrs: []uverbs.Attr{
			{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, Kind: uverbs.AttrNewHandle},
			{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, Kind: uverbs.AttrIn, Buf: abi.Bytes(&typ)},
			{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, Kind: uverbs.AttrOut, Buf: abi.Bytes(&offset)},
			{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, Kind: uverbs.AttrOut, Buf: abi.Bytes(&length)},
			{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, Kind: uverbs.AttrOut, Buf: abi.Bytes(&page)},
		},
	})
	if err != nil {
		return nil, 0, err
	}
	if int64(offset) < 0 || int(length) < u.ctx.caps.uarsPerPage*uarSize || length > 1<<20 {
		return nil, 0, unsupported("a UAR of %d bytes at %#x", length, offset)
	}
	base, err = u.mmap(int64(offset), int(length))
	return base, page, err
}

// mmap maps registers, which stay mapped until close.
func (u *uars) mmap(offset int64, length int) (unsafe.Pointer, error) {
	m, err := u.ctx.file.Mmap(offset, length)
	if err != nil {
		return nil, err
	}
	u.mappings = append(u.mappings, m)
	return unsafe.Pointer(unsafe.SliceData(m.Bytes())), nil
}

// get returns a register for a new QP, or nil if the kernel assigns one. Private
// says that the QP belongs to one goroutine.
func (u *uars) get(private bool) (*register, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.legacy != nil:
		return nil, nil
	case u.ctx.caps.bfRegSize == 0 || u.ctx.noBlueFlame:
		return u.plain.single(), nil
	}
	p := poolDedicated
	if private {
		p = poolPrivate
	}
	if len(u.free[p]) == 0 && u.made[p] < u.limit[p] {
		if err := u.fill(p); err != nil {
			return nil, err
		}
	}
	if free := u.free[p]; len(free) > 0 {
		u.free[p] = free[1:]
		return free[0], nil
	}
	if u.made[poolShared] < u.limit[poolShared] {
		if err := u.fill(poolShared); err != nil && u.made[poolShared] == 0 {
			return nil, err
		}
	}
	var least *register
	for _, r := range u.free[poolShared] {
		if least == nil || r.users < least.users {
			least = r
		}
	}
	if least == nil {
		return nil, errors.New("mlx5: no BlueFlame register")
	}
	least.users++
	return least, nil
}

// fill makes a UAR for the registers of a pool.
func (u *uars) fill(p pool) error {
	base, page, err := u.alloc(abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
	if err != nil {
		return fmt.Errorf("allocate UAR: %w", err)
	}
	size := u.ctx.caps.bfRegSize
	for i := range u.ctx.caps.uarsPerPage * usedPerUAR {
		in, at := i/usedPerUAR, i%usedPerUAR
		u.free[p] = append(u.free[p], &register{
			Register: mmio.Register{
				Base: unsafe.Add(base, uintptr(in)*uarSize+uarDoorbells+uintptr(at)*size),
				Size: size / 2,
			},
			shared: p == poolShared,
			page:   page + uint32(in),
			pool:   p,
		})
		u.made[p]++
	}
	return nil
}

// cqPage returns the device's number of the UAR for arming CQs, and false if the kernel uses its
// own.
func (u *uars) cqPage() (uint32, bool) {
	if u.plain == nil {
		return 0, false
	}
	return u.plain.page, true
}

// assigned returns the register that the kernel's answer to CREATE_QP names.
func (u *uars) assigned(index uint32) (*register, error) {
	if uint64(index) >= uint64(len(u.legacy)) {
		return nil, fmt.Errorf("mlx5: the kernel assigned BlueFlame register %d of %d", index, len(u.legacy))
	}
	r := u.legacy[index]
	if r.Size == 0 { // single stores need no lock
		return r.single(), nil
	}
	return r, nil
}

// single returns a shared register, which takes single stores and no lock, for one more QP. Each QP
// has its own half-selection state, so two QPs that post at the same time share only the device's
// register.
func (r *register) single() *register {
	return &register{Register: r.Register, page: r.page}
}

// put takes back a register of get.
func (u *uars) put(r *register) {
	if r == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r.pool {
	case poolDedicated, poolPrivate:
		u.free[r.pool] = append(u.free[r.pool], r)
	case poolShared:
		r.users--
	}
}

func (u *uars) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, m := range u.mappings {
		errs = append(errs, m.Close())
	}
	u.mappings = nil
	return errors.Join(errs...)
}
