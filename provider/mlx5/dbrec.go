// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"sync"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mem"
)

// doorbell is a pair of doorbell records (PRM, "Doorbell Record"). These are two words that the
// device reads, big-endian. For a QP they are the counters of its receive and its send queue. For a
// CQ they are the consumer index and the state of arming. For an SRQ the first is its counter.
type doorbell struct {
	rec  *[2]uint32
	page *doorbellPage
	slot int
}

// Index of a record in a QP's pair.
const (
	recvRecord = 0
	sendRecord = 1
)

// doorbellPage is a page of records. Each has a cache line of its own, so that the device's reads
// for one queue do not slow down another.
type doorbellPage struct {
	region *mem.Region
	used   []bool // by slot
	count  int
}

// doorbells hands out records.
type doorbells struct {
	mu    sync.Mutex
	pages []*doorbellPage
}

// allocDB returns a pair of records that are zero.
func (c *Context) allocDB() (*doorbell, error) {
	d := &c.doorbells
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pages {
		if p.count < len(p.used) {
			return p.take(c.caps.cacheLine), nil
		}
	}
	r, err := mem.Alloc(c.pageSize)
	if err != nil {
		return nil, err
	}
	p := &doorbellPage{region: r, used: make([]bool, c.pageSize/c.caps.cacheLine)}
	d.pages = append(d.pages, p)
	return p.take(c.caps.cacheLine), nil
}

// take returns the first free pair of a page that has one.
func (p *doorbellPage) take(line int) *doorbell {
	for i, used := range p.used {
		if used {
			continue
		}
		p.used[i] = true
		p.count++
		rec := (*[2]uint32)(unsafe.Pointer(&p.region.Bytes()[i*line]))
		*rec = [2]uint32{}
		return &doorbell{rec: rec, page: p, slot: i}
	}
	return nil
}

// freeDB frees a pair. The device does not use it any more.
func (c *Context) freeDB(db *doorbell) error {
	d := &c.doorbells
	d.mu.Lock()
	defer d.mu.Unlock()
	if db.rec == nil {
		return errors.New("mlx5: doorbell record freed twice")
	}
	p := db.page
	db.rec = nil
	p.used[db.slot] = false
	p.count--
	if p.count > 0 {
		return nil
	}
	for i := range d.pages {
		if d.pages[i] == p {
			d.pages = append(d.pages[:i], d.pages[i+1:]...)
			break
		}
	}
	return p.region.Free()
}

// kernel is the address of the pair for a command.
func (d *doorbell) kernel() abi.Pointer { return abi.NewPointer(d.rec) }
