// SPDX-License-Identifier: Apache-2.0

package provider

// SRQConfig says how to make a shared receive queue.
type SRQConfig struct {
	PD     PD
	MaxWR  int // receives
	MaxSGE int // elements of one receive
	Limit  int // see SRQAttr
	// UserHandle is what asynchronous events name the SRQ by.
	UserHandle uint64
	// XRCD and CQ make it an SRQ of an XRC domain, an XRCSRQ, which peers name in
	// their requests, and whose receives complete on CQ. Both are set, or none.
	XRCD XRCD
	CQ   CQ
}

// SRQAttr is the attributes of a shared receive queue (struct ibv_srq_attr of
// ibv_modify_srq(3)).
type SRQAttr struct {
	MaxWR  int // receives that fit
	MaxSGE int // elements of one receive; it cannot be changed
	// Limit is below how many posted receives the device says so, once, by the
	// asynchronous event SRQ_LIMIT_REACHED; 0 for never. That sets it to 0.
	Limit int
}

// SRQAttrMask says which fields of an SRQAttr count: enum ibv_srq_attr_mask of
// ibv_modify_srq(3).
type SRQAttrMask uint32

// Attributes of a shared receive queue.
const (
	SRQAttrMaxWR SRQAttrMask = 1 << iota
	SRQAttrLimit
)

// String lists the attributes.
func (m SRQAttrMask) String() string {
	return bitNames{{uint64(SRQAttrMaxWR), "MaxWR"}, {uint64(SRQAttrLimit), "Limit"}}.format(uint64(m))
}

// SRQ is a shared receive queue. Its methods may be called concurrently.
type SRQ interface {
	// Handle is the kernel's handle of the SRQ.
	Handle() uint32
	// Attr returns how much fits, which may be more than was asked for. Limit
	// does not count.
	Attr() SRQAttr
	// PostRecv is QP.PostRecv.
	PostRecv(wrs []RecvWR) (int, error)
	// Modify changes the attributes that mask names. With SRQAttrMaxWR the queue
	// is made anew: posts wait meanwhile.
	Modify(attr *SRQAttr, mask SRQAttrMask) error
	// Query asks the kernel for the attributes.
	Query() (SRQAttr, error)
	// Close destroys the SRQ: EBUSY while it has queue pairs.
	Close() error
}
