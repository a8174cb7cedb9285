// SPDX-License-Identifier: Apache-2.0

package provider

// SRQConfig configures a shared receive queue.
type SRQConfig struct {
	PD     PD
	MaxWR  int // receives
	MaxSGE int // elements of one receive
	Limit  int // see SRQAttr
	// UserHandle identifies the SRQ in asynchronous events.
	UserHandle uint64
	// XRCD and CQ make it an SRQ of an XRC domain, an XRCSRQ, which peers name in
	// their requests, and whose receives complete on CQ. Both are set, or none.
	XRCD XRCD
	CQ   CQ
	// Dropped, if not nil, is called for each receive of the SRQ whose completion the provider
	// removes from a CQ because its QP is closed or reset. It gets the ID of the receive. It runs
	// with locks of the provider held, so it must not block or call methods of the CQ, the SRQ or the
	// QP.
	Dropped func(id uint64)
}

// SRQAttr holds the attributes of a shared receive queue (struct ibv_srq_attr of
// ibv_modify_srq(3)).
type SRQAttr struct {
	MaxWR  int // receives that fit
	MaxSGE int // elements of one receive. It cannot be changed
	// Limit is the threshold for the asynchronous event SRQ_LIMIT_REACHED. The device sends the
	// event once, when fewer receives are posted, and resets Limit to 0. 0 disables it.
	Limit int
}

// SRQAttrMask selects fields of an SRQAttr: enum ibv_srq_attr_mask of ibv_modify_srq(3).
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

// LastWQEReporter is implemented by QPs whose device may complete a receive of the SRQ after the move
// of the QP to the error state.
type LastWQEReporter interface {
	// ReportsLastWQE reports whether the asynchronous event QP_LAST_WQE_REACHED follows the last
	// receive of the SRQ that the QP completes. The event comes after a move to the error state, even
	// if there is no such receive.
	ReportsLastWQE() bool
}

// UnusedReporter is implemented by SRQs whose QPs take the receives in the order of the posts, each
// QP one at a time. A QP takes a receive at the start of a message, and completes it at the end.
type UnusedReporter interface {
	// Unused returns the number of posted receives that no QP has taken.
	Unused() int
}

// SRQ is a shared receive queue. Its methods may be called concurrently.
type SRQ interface {
	// Handle returns the kernel's handle of the SRQ.
	Handle() uint32
	// Attr returns the capacities, which may exceed the requested ones. Its Limit is not valid.
	Attr() SRQAttr
	// PostRecv is QP.PostRecv.
	PostRecv(wrs []RecvWR) (int, error)
	// Modify changes the attributes that mask names. With SRQAttrMaxWR the queue is reallocated,
	// and posts wait until then.
	Modify(attr *SRQAttr, mask SRQAttrMask) error
	// Query queries the attributes from the kernel.
	Query() (SRQAttr, error)
	// Close destroys the SRQ. It returns EBUSY while the SRQ has queue pairs.
	Close() error
}
