// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/provider/internal/count"
	"purerdma/uverbs"
)

// cq is a completion queue, a ring that the kernel fills.
type cq struct {
	file   *uverbs.File
	notify uverbs.Notifier
	leak   *leak.Entry

	windows *windows            // the context's
	resp    abi.RxeCreateCQResp // of CreateCQ. A variable there would be allocated

	handle uint32
	// arming is held by Arm, and by Close, because the kernel reuses the handle of a
	// destroyed CQ. It is not mu, so that polls do not wait for the kernel. It is taken
	// before mu.
	arming sync.Mutex
	closed bool // guarded by arming

	mu       sync.Mutex // guards the ring and the fields below
	ring     ring.Ring
	mapping  *uverbs.Mapping // nil after Close
	first    uverbs.Mapping  // the mapping of a CQ that was not resized
	consumer uint32
	broken   error // why the ring is not the kernel's
	counts   count.Completions
}

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	if cfg.Vendor != nil {
		return nil, fmt.Errorf("rxe: options of type %T: %w", cfg.Vendor, syscall.EINVAL)
	}
	q := &cq{file: c.File, windows: &c.windows}
	k, err := c.File.CreateCQ(uverbs.CQConfig{
		Entries:    uint32(cfg.Entries),
		UserHandle: cfg.UserHandle,
		Channel:    cfg.Channel,
		Vector:     cfg.Vector,
	}, uverbs.Driver{Out: abi.Bytes(&q.resp)})
	if err != nil {
		return nil, err
	}
	q.handle = k.Handle
	q.mapping = &q.first
	if q.ring, err = mapQueue(c.File, q.mapping, q.resp.MI, abi.Size[abi.UverbsWC]()); err != nil {
		c.File.DestroyCQ(k.Handle)
		return nil, err
	}
	q.consumer = q.ring.LoadConsumer()
	q.notify.Init(c.File, k.Handle)
	q.leak = leak.Track("rxe CQ", c.File.Info().Name)
	return q, nil
}

func (c *cq) Handle() uint32 { return c.handle }

func (c *cq) Entries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ring.Cap()
}

func (c *cq) Poll(wcs []provider.WC) (int, error) {
	c.mu.Lock()
	if c.mapping == nil || c.broken != nil {
		err := c.broken
		c.mu.Unlock()
		if err == nil {
			err = net.ErrClosed
		}
		return 0, err
	}
	n := min(c.ring.Count(c.ring.LoadProducer(), c.consumer), len(wcs))
	next := c.consumer
	for i := range n {
		decode(&wcs[i], ring.At[abi.UverbsWC](&c.ring, next))
		if wcs[i].Flags&provider.WCWithInv != 0 {
			c.windows.unbind(wcs[i].InvalidatedRKey)
		}
		next = c.ring.Next(next)
	}
	// Closing the file turns the ring to zeros, which look like completions. Closed returns true
	// before that.
	if c.file.Closed() {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	if n > 0 {
		c.consumer = next
		c.ring.StoreConsumer(next)
	}
	for i := range wcs[:n] {
		c.counts.Add(&wcs[i])
	}
	c.mu.Unlock()
	return n, nil
}

// Flags of a completion in rxe. They are enum ib_wc_flags of the kernel, which differs from
// libibverbs'.
const (
	kernelWithImm = 1 << 1
	kernelWithInv = 1 << 2
)

// decode fills w field by field, which is faster than a literal that is made
// first and then copied.
func decode(w *provider.WC, k *abi.UverbsWC) {
	w.ID = k.WRID
	w.Status = provider.WCStatus(k.Status)
	w.Opcode = provider.WCOpcode(k.Opcode)
	w.QPNum = k.QPNum
	w.ByteLen = k.ByteLen
	w.VendorErr = k.VendorErr
	w.SrcQP = k.SrcQP
	w.PKeyIndex = k.PKeyIndex
	w.SLID = k.SLID
	w.SL = k.SL
	w.DLIDPathBits = k.DLIDPathBits
	w.ImmData, w.InvalidatedRKey = 0, 0
	flags := provider.WCFlags(k.WCFlags) & provider.WCGRH
	if k.WCFlags&kernelWithImm != 0 {
		flags |= provider.WCWithImm
		w.ImmData = binary.BigEndian.Uint32(k.Ex[:])
	}
	if k.WCFlags&kernelWithInv != 0 {
		flags |= provider.WCWithInv
		w.InvalidatedRKey = binary.NativeEndian.Uint32(k.Ex[:])
	}
	w.Flags = flags
}

func (c *cq) Resize(entries int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapping == nil || c.file.Closed() {
		return net.ErrClosed
	}
	// The kernel moves the unpolled completions to the start of a new ring. With the lock held, no
	// goroutine polls the old one during the move.
	var resp abi.RxeResizeCQResp
	if _, err := c.file.ResizeCQ(c.handle, uint32(entries), uverbs.Driver{Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	m := new(uverbs.Mapping)
	r, err := mapQueue(c.file, m, resp.MI, abi.Size[abi.UverbsWC]())
	if err != nil {
		// The mapped ring is no longer filled.
		c.broken = fmt.Errorf("completion queue was lost while it was resized: %w", err)
		return c.broken
	}
	old := c.mapping
	c.mapping, c.ring, c.consumer = m, r, r.LoadConsumer()
	return old.Close()
}

func (c *cq) Arm(solicitedOnly bool) error {
	c.arming.Lock()
	defer c.arming.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.notify.Notify(solicitedOnly)
}

func (c *cq) Close() error {
	c.arming.Lock()
	defer c.arming.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if err := c.file.Destroyed(func() error { return c.file.DestroyCQ(c.handle) }); err != nil {
		return err
	}
	c.closed = true
	m := c.mapping
	c.mapping = nil
	c.leak.Done()
	return m.Close()
}
