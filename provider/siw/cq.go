// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/provider/internal/count"
	"purerdma/uverbs"
)

// cq is a completion queue. It has the slots that the kernel fills, then the word that arms it, and
// a list of completions that are not in slots.
type cq struct {
	file    *uverbs.File
	handle  uint32
	wake    func()
	leak    *leak.Entry
	control *atomic.Uint32

	mu      sync.Mutex // guards the slots and the fields below
	slots   ring.Slots
	mapping *uverbs.Mapping // nil after Close
	memory  uverbs.Mapping  // what mapping points to
	get     uint32          // counts the completions taken
	soft    softCompletions
	counts  count.Completions
}

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	if cfg.Vendor != nil {
		return nil, fmt.Errorf("siw: options of type %T: %w", cfg.Vendor, syscall.EINVAL)
	}
	var resp abi.SiwUrespCreateCQ
	k, err := c.File.CreateCQ(uverbs.CQConfig{
		Entries:    uint32(cfg.Entries),
		UserHandle: cfg.UserHandle,
		Channel:    cfg.Channel,
		Vector:     cfg.Vector,
	}, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	q := &cq{file: c.File, handle: k.Handle, wake: cfg.Wake}
	if err := q.mapSlots(&resp, uint32(cfg.Entries)); err != nil {
		c.File.DestroyCQ(k.Handle)
		return nil, err
	}
	q.leak = leak.Track("siw CQ", c.File.Info().Name)
	return q, nil
}

func (c *cq) mapSlots(resp *abi.SiwUrespCreateCQ, want uint32) error {
	size := abi.Size[abi.SiwCQE]()
	m := &c.memory
	s, err := mapSlots(c.file, m, resp.CQKey, resp.NumCQE, want, size, abi.Size[abi.SiwCQCtrl]())
	if err != nil {
		return err
	}
	if c.control, err = ring.Word(m.Bytes(), s.Len()*size); err != nil {
		return errors.Join(err, m.Close())
	}
	c.mapping, c.slots = m, s
	return nil
}

func (c *cq) Handle() uint32 { return c.handle }

func (c *cq) Entries() int { return c.slots.Len() }

func (c *cq) Resize(int) error {
	return fmt.Errorf("siw: another size of a completion queue: %w", errors.ErrUnsupported)
}

func (c *cq) Poll(wcs []provider.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapping == nil {
		return 0, net.ErrClosed
	}
	n := c.take(wcs)
	if c.file.Closed() {
		return 0, net.ErrClosed
	}
	for i := range wcs[:n] {
		c.counts.Add(&wcs[i])
	}
	return n, nil
}

// take is Poll for a caller that holds the lock.
func (c *cq) take(wcs []provider.WC) int {
	n := 0
	for n < len(wcs) {
		if c.soft.due(c.get) {
			wcs[n] = c.soft.take()
			n++
			continue
		}
		valid, opcode, status := cqeWord(c.slots.LoadWord(c.get))
		if !valid {
			break
		}
		decode(&wcs[n], ring.InSlot[abi.SiwCQE](&c.slots, c.get), opcode, status)
		c.slots.StoreWord(c.get, 0)
		c.get++
		n++
	}
	return n
}

// opcodes maps siw's operations of completions. Operations that siw does not complete are missing.
var opcodes = [...]provider.WCOpcode{
	abi.SIW_OP_WRITE:           provider.WCWrite,
	abi.SIW_OP_READ:            provider.WCRead,
	abi.SIW_OP_READ_LOCAL_INV:  provider.WCRead,
	abi.SIW_OP_SEND:            provider.WCSend,
	abi.SIW_OP_SEND_WITH_IMM:   provider.WCSend,
	abi.SIW_OP_SEND_REMOTE_INV: provider.WCSend,
	abi.SIW_OP_FETCH_AND_ADD:   provider.WCFetchAdd,
	abi.SIW_OP_COMP_AND_SWAP:   provider.WCCompareSwap,
	abi.SIW_OP_RECEIVE:         provider.WCRecv,
}

var statuses = [...]provider.WCStatus{
	abi.SIW_WC_SUCCESS:         provider.WCSuccess,
	abi.SIW_WC_LOC_LEN_ERR:     provider.WCLocLenErr,
	abi.SIW_WC_LOC_PROT_ERR:    provider.WCLocProtErr,
	abi.SIW_WC_LOC_QP_OP_ERR:   provider.WCLocQPOpErr,
	abi.SIW_WC_WR_FLUSH_ERR:    provider.WCWRFlushErr,
	abi.SIW_WC_BAD_RESP_ERR:    provider.WCBadRespErr,
	abi.SIW_WC_LOC_ACCESS_ERR:  provider.WCLocAccessErr,
	abi.SIW_WC_REM_ACCESS_ERR:  provider.WCRemAccessErr,
	abi.SIW_WC_REM_INV_REQ_ERR: provider.WCRemInvReqErr,
	abi.SIW_WC_GENERAL_ERR:     provider.WCGeneralErr,
}

// decode fills w. An undefined status becomes a general error, with the kernel's status as
// syndrome.
func decode(w *provider.WC, k *abi.SiwCQE, opcode uint8, status uint16) {
	*w = provider.WC{ID: k.ID, QPNum: uint32(k.QPID), ByteLen: k.Bytes}
	if int(opcode) >= len(opcodes) || int(status) >= len(statuses) {
		w.Status, w.VendorErr = provider.WCGeneralErr, uint32(status)<<8|uint32(opcode)
		return
	}
	w.Opcode, w.Status = opcodes[opcode], statuses[status]
}

// Arm stores the word that the kernel reads when it adds a completion. The store is a full barrier
// to the poll that follows it. The kernel's store of a completion is a full barrier to its read of
// this word.
//
// siw drops the solicited flag of receives, so a solicited event would never come. Therefore every
// completion causes an event.
func (c *cq) Arm(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapping == nil || c.file.Closed() {
		return net.ErrClosed
	}
	c.control.Store(abi.SIW_NOTIFY_SOLICITED | abi.SIW_NOTIFY_NEXT_COMPLETION)
	return nil
}

func (c *cq) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapping == nil {
		return nil
	}
	if err := c.file.Destroyed(func() error { return c.file.DestroyCQ(c.handle) }); err != nil {
		return err
	}
	m := c.mapping
	c.mapping = nil
	c.leak.Done()
	return m.Close()
}
