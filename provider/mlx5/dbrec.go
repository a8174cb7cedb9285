// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"purerdma/abi"
	"purerdma/provider/internal/dbrec"
)

// doorbell is a pair of doorbell records (PRM, "Doorbell Record"). These are two words that the
// device reads, big-endian. For a QP they are the counters of its receive and its send queue. For a
// CQ they are the consumer index and the state of arming. For an SRQ the first is its counter.
type doorbell struct {
	rec    *[2]uint32
	record *dbrec.Record
}

// Index of a record in a QP's pair.
const (
	recvRecord = 0
	sendRecord = 1
)

// allocDB returns a pair of records that are zero.
func (c *Context) allocDB() (*doorbell, error) {
	r, err := c.doorbells.Alloc(c.pageSize, c.caps.cacheLine)
	if err != nil {
		return nil, err
	}
	return &doorbell{rec: (*[2]uint32)(r.Mem()), record: r}, nil
}

// freeDB frees a pair. The device does not use it any more.
func (c *Context) freeDB(db *doorbell) error {
	db.rec = nil
	return c.doorbells.Free(db.record)
}

// kernel is the address of the pair for a command.
func (d *doorbell) kernel() abi.Pointer { return abi.NewPointer(d.rec) }
