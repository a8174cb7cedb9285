// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unsafe"

	"purerdma/abi"
	"purerdma/uverbs"
)

// The adapter loses doorbells if more arrive than its queue of doorbells holds. The kernel reports in a page that
// doorbells are to be paced. A thread then reads the free room of the queue from a register before some of its
// doorbells, and waits while the queue is too full.

// Offsets in the page (struct bnxt_re_pacing_data).
const (
	pacingShare    = 0  // doorbells to be paced, of 1<<16. 0 if the queue is not full
	pacingStart    = 4  // occupied entries from which doorbells wait
	pacingAlarm    = 8  // occupied entries from which the kernel must know. 0 disables it
	pacingDepth    = 12 // entries of the queue
	pacingMask     = 16 // bits of the register that hold the free room
	pacingShift    = 20
	pacingRegister = 24 // place of the register, of which the part within a page counts
)

const (
	// maxPause bounds the pauses, which grow from one to the next.
	maxPause = 128 * time.Microsecond
	// maxPacing bounds the wait for one doorbell, because the device may not exist anymore.
	maxPacing = 10 * time.Millisecond
)

// pacing has the two pages.
type pacing struct {
	f        *uverbs.File
	data     *uverbs.Mapping
	register *uverbs.Mapping
	share    *uint32 // nil without pacing
}

func (p *pacing) open(f *uverbs.File, pageSize int) (err error) {
	p.f = f
	if p.data, _, err = allocPage(f, abi.BNXT_RE_ALLOC_DBR_PAGE, pageSize, true); err != nil {
		return fmt.Errorf("page of doorbell pacing: %w", err)
	}
	if p.register, _, err = allocPage(f, abi.BNXT_RE_ALLOC_DBR_BAR_PAGE, pageSize, false); err != nil {
		return fmt.Errorf("register of doorbell pacing: %w", err)
	}
	p.share = (*uint32)(unsafe.Add(base(p.data), pacingShare))
	return nil
}

func (p *pacing) close() error {
	p.share = nil
	return errors.Join(closeMapping(&p.data), closeMapping(&p.register))
}

// active reports whether doorbells are to be paced.
func (p *pacing) active() bool { return p.share != nil && atomic.LoadUint32(p.share) != 0 }

// word returns a number of the page.
func (p *pacing) word(at int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(p.share), at)))
}

// occupied returns the number of occupied entries of the adapter's queue of doorbells.
func (p *pacing) occupied() uint32 {
	at := int(p.word(pacingRegister)) & (len(p.register.Bytes()) - 1) &^ 3
	room := atomic.LoadUint32((*uint32)(unsafe.Add(base(p.register), at))) & p.word(pacingMask) >> (p.word(pacingShift) & 31)
	return p.word(pacingDepth) - room
}

// wait waits until the queue of doorbells has room, if this doorbell is one of those to be paced. The caller holds the
// lock of a queue.
//
//go:noinline
func (p *pacing) wait() {
	if rand.Uint32()&0xffff >= p.word(pacingShare) {
		return
	}
	end := time.Now().Add(maxPacing)
	for pause := time.Microsecond; !p.f.Closed() && time.Now().Before(end); pause = min(2*pause, maxPause) {
		n := p.occupied()
		if n <= p.word(pacingStart) {
			return
		}
		if alarm := p.word(pacingAlarm); alarm != 0 && n > alarm {
			p.alarm()
		}
		if pause > time.Microsecond {
			spinFor(rand.N(pause))
		}
	}
}

// alarm reports the load to the kernel's driver. An error has no consequence, because doorbells still wait.
func (p *pacing) alarm() {
	_ = p.f.Ioctl(&uverbs.Request{Object: abi.BNXT_RE_OBJECT_NOTIFY_DRV, Method: abi.BNXT_RE_METHOD_NOTIFY_DRV})
}

// spinFor waits without sleeping, because a sleep takes longer than the pause.
func spinFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
