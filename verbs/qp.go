// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"purerdma/internal/bridge"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
)

// QPConfig configures a QP (struct ibv_qp_init_attr of ibv_create_qp(3)).
type QPConfig struct {
	// Type is the transport service. 0 means RC.
	Type QPType
	// SendCQ and RecvCQ take the completions of sends and receives. They may be one CQ. A nil field
	// makes a CQ that belongs to the QP. It has room for as many completions as QP.Cap has requests,
	// and with an SRQ for all receives of the SRQ, up to DeviceAttr.MaxCQE. If both are nil, the
	// two CQs share one completion channel.
	SendCQ, RecvCQ *CQ
	// OneCQ makes one CQ for sends and receives if both are nil.
	OneCQ bool
	// SRQ, if not nil, replaces the receive queue, and receives are posted to the SRQ. It should be
	// on the PD of the QP. Drivers differ in whose memory its receives may name.
	SRQ *SRQ
	// Cap holds the capacities that the QP needs at least. Zero fields mean 128 sends, 128
	// receives, 2 elements in each (1 if the device has no more), and 32 bytes inline. QP.Cap returns the actual capacities.
	// They are lower than requested if a CQ that is made for the QP cannot have that many entries.
	Cap QPCap
	// PreferredInline is the number of bytes of inline data that the QP has if the device supports it. Otherwise it has
	// the device's limit, and at least Cap.Inline.
	PreferredInline int
	// SignalAll makes every send complete with a WC, even without SendSignaled.
	SignalAll bool
	// XRCD is the domain of a QP of type XRCRecv, which has neither CQs nor queues.
	XRCD *XRCD
	// MaxLSOHeader is the longest SendWR.Header of an OpLSO, bytes: QPs of type
	// RawPacket.
	MaxLSOHeader int
	// NoScatterToCQE makes the device always write received and read data to memory
	// (MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE of mlx5dv_create_qp(3)). Otherwise some devices put
	// a few bytes into the completion, and Poll copies them to memory. The program must be able to
	// address that memory, which is not written before Poll.
	NoScatterToCQE bool
	// Unlocked promises that only one goroutine at a time posts sends to the QP. Drivers that
	// support it then take no lock (ibv_alloc_td(3)). Modify and Close must not run during a post.
	// If a device fault fails the QP during a post, its requests complete at the next poll of the CQ.
	// They do not wake a goroutine that already waits for completions.
	Unlocked bool
	// Spin is CQConfig.Spin of the CQs that are made for the QP.
	Spin time.Duration
}

// withDefaults returns c with the zero fields of Cap and Type filled in for a device.
func (c QPConfig) withDefaults(a *DeviceAttr) QPConfig {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Cap.SendWR, 128)
	set(&c.Cap.RecvWR, 128)
	set(&c.Cap.SendSGE, defaultSGE(a.MaxSendSGE))
	set(&c.Cap.RecvSGE, defaultSGE(a.MaxRecvSGE))
	set(&c.Cap.Inline, 32)
	if c.Type == 0 {
		c.Type = RC
	}
	return c
}

// defaultSGE returns the default number of elements for a device's maximum, which is 0 if the device does not report it.
func defaultSGE(most int) int {
	if most == 1 {
		return 1
	}
	return 2
}

// QP is a queue pair (ibv_create_qp(3)). Its methods may be called concurrently.
//
// Work requests are posted to it and complete on its CQs. The memory that a work request names
// belongs to the device until the request has completed. This also ends when the QP was moved to
// QPErr and its requests have been flushed, or when the QP was closed.
type QP struct {
	pd             *PD
	p              provider.QP
	cap            QPCap
	typ            QPType
	signalAll      bool
	sendCQ, recvCQ *CQ
	srq            *SRQ         // or nil
	xrcd           *XRCD        // or nil
	ownedCQs       []*CQ        // made for the QP
	ownedCh        *CompChannel // their channel, or nil
	handle         uint64       // user handle
	leak           *leak.Entry

	gone lazyDone
	// lastWQE has a token after the event QP_LAST_WQE_REACHED. It is nil if the device does not
	// send the event.
	lastWQE token

	mu       sync.Mutex // of everything that changes the QP but posting
	closed   bool
	groups   map[group]struct{} // multicast groups that it is attached to
	attached any                // of bridge.Verbs.Attach, or nil
	watches  []bridge.Watch     // of bridge.Verbs.Attach and Watch
	broken   bool               // Failed of the watches was called since the last reset
	cause    error              // its argument
}

// String returns the number and the device, as "QP 0x11 of rxe0".
func (q *QP) String() string {
	// Every ErrFull contains this text.
	return "QP 0x" + strconv.FormatUint(uint64(q.Num()), 16) + " of " + q.pd.dev.info.Name
}

// Num returns the number by which the peer names the QP.
func (q *QP) Num() uint32 { return q.p.Num() }

// Type returns the transport service.
func (q *QP) Type() QPType { return q.typ }

// State returns the last state that Modify or SetState moved the QP to. If the device moved the QP
// to the error state, State returns that after an asynchronous event or Query has reported it.
func (q *QP) State() QPState { return q.p.State() }

// PD returns the protection domain.
func (q *QP) PD() *PD { return q.pd }

// Device returns the device of the QP, which need not be closed.
func (q *QP) Device() *Device { return q.pd.dev.self }

// SendCQ returns the CQ of the sends. If it was made for the QP, it closes with the QP. QPs of type
// XRCRecv have none.
func (q *QP) SendCQ() *CQ { return q.sendCQ }

// RecvCQ returns the CQ of the receives. If it was made for the QP, it closes with the QP. QPs of
// both XRC types have none.
func (q *QP) RecvCQ() *CQ { return q.recvCQ }

// SRQ returns the shared receive queue, nil if the QP has a receive queue of its
// own.
func (q *QP) SRQ() *SRQ { return q.srq }

// Cap returns the capacities of the QP, which may exceed the requested ones. A CQ that was made for
// the QP has room for the completions of that many requests. Its queues may accept more requests,
// with which that CQ could overrun.
func (q *QP) Cap() QPCap { return q.cap }

// SignalAll reports whether every send completes with a WC.
func (q *QP) SignalAll() bool { return q.signalAll }

// Provider returns the provider's QP, for extensions of one vendor.
func (q *QP) Provider() provider.QP { return q.p }

// SetState records that the kernel has moved the QP, as the connection manager of iWARP does with
// the QP of a connection. It moves nothing. It is for programs that pass a QP to a cm.ID by its
// number, in ConnParam. They call it with QPRTS after EventEstablished.
func (q *QP) SetState(s QPState) { q.p.SetState(s) }

// Done returns a channel that is closed when the QP has been closed, by Close or with the cm.ID
// that made it.
func (q *QP) Done() <-chan struct{} { return q.gone.context().Done() }

// Query queries the attributes from the kernel (ibv_query_qp(3)). If the device has moved the QP to
// an error state, State returns it from then on.
func (q *QP) Query() (QPAttr, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, err := q.p.Query()
	if err == nil && (a.State == QPErr || a.State == QPSQE) && a.State != q.p.State() {
		q.p.SetState(a.State)
		if a.State == QPErr {
			// The device's event, if there is one, finds this state already.
			q.broken = true
			go callFailed(slices.Clone(q.watches), nil)
		}
	}
	return a, q.opError("query", err)
}

// failed records the error state after an asynchronous event. It may have to wait for a Modify or
// Close, and for a Batch.
func (q *QP) failed() { callFailed(q.noteFailure(), nil) }

// providerFailed implements provider.QPConfig.Failed.
func (q *QP) providerFailed(cause error, fails func() bool) {
	q.mu.Lock()
	if !fails() { // a reset would have cleared broken
		q.mu.Unlock()
		return
	}
	q.broken, q.cause = true, cause
	watches := slices.Clone(q.watches) // nil after Close
	q.mu.Unlock()
	callFailed(watches, cause)
}

func callFailed(watches []bridge.Watch, cause error) {
	for _, w := range watches {
		if w.Failed != nil {
			w.Failed(cause)
		}
	}
}

// noteFailure returns the watches to call, nil if the QP is in another state.
func (q *QP) noteFailure() []bridge.Watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.p.State() == QPErr {
		return nil
	}
	// On iWARP the state is final, and not every kernel reports it. Elsewhere the QP may have been
	// reset since.
	if q.Device().Transport() != TransportIWARP {
		if a, err := q.p.Query(); err != nil || a.State != QPErr {
			return nil
		}
	}
	q.p.SetState(QPErr)
	q.broken = true
	return slices.Clone(q.watches)
}

// PostSend posts work requests to the send queue, in order, with one doorbell (ibv_post_send(3)).
// It returns the number of posted requests. If it is less than len(wrs), the error is about the
// first request that was not posted. ErrFull means that the queue has no room. It is back-pressure.
// Poll completions, then post the remaining requests. The slot of a request without a WC becomes
// free when a later request completes with one.
//
// ErrFull does not prevent an overrun of the CQ, because rxe and siw reuse a slot before the
// program has polled the completion. The program counts the requests whose completions it has not
// polled. There must be no more of them than Cap allows, or than its own CQ has room for.
//
// The requests and their slices may be reused at once. It allocates nothing, and neither does a
// literal for wrs.
func (q *QP) PostSend(wrs []SendWR) (int, error) {
	n, err := q.p.PostSend(mem.NoEscape(wrs))
	if err != nil {
		return n, q.opError("post send to", sized(err, "SendWR", q.p.Cap().SendWR))
	}
	return n, nil
}

// PostRecv is PostSend for the receive queue (ibv_post_recv(3)):
//
//	n, err := qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{mr.SGE()}}})
func (q *QP) PostRecv(wrs []RecvWR) (int, error) {
	n, err := q.p.PostRecv(mem.NoEscape(wrs))
	if err != nil {
		return n, q.opError("post receive to", sized(err, "RecvWR", q.p.Cap().RecvWR))
	}
	return n, nil
}

// Close destroys the QP (ibv_destroy_qp(3)), and the CQs that were made for it. It may be called
// more than once. After an error it tries the failed parts again, the QP or its CQs. Requests that
// have not completed never will. It waits for a Batch that is being built.
//
// A QP with an SRQ is moved to QPErr first. So a message in progress completes its receive, as
// flushed. A device that reports AsyncQPLastWQEReached gets at most 100 ms for that. Do the same
// before a move to QPReset.
//
// Completions of the QP in a CQ are dropped by mlx5 and siw. SRQConfig.Dropped is called for the
// receives of an SRQ among them. On rxe the completions stay in the CQ. If they matter, move the QP
// to QPErr and poll before Close. The next QP may have the same number, on siw and on rxe of
// Linux 5.10 at once. A program that finds QPs by WC.QPNum must process the completions of a QP
// before it closes the QP.
func (q *QP) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return q.opError("destroy", errors.Join(q.retryParents(), q.closeOwned()))
	}
	dev := q.pd.dev
	if err := q.detachAll(); err != nil {
		return q.opError("destroy", err)
	}
	q.flushSRQ()
	clean := dev.closing.begin(q.p.Num())
	if err := dev.destroyed(q.p.Close()); err != nil {
		clean()
		return q.opError("destroy", err)
	}
	q.closed = true
	watches := q.watches
	q.watches = nil
	// The handlers of the CQs call functions that may use the QP.
	q.mu.Unlock()
	q.drainCQs()
	clean()
	for _, w := range watches {
		if w.Closed != nil {
			w.Closed()
		}
	}
	q.mu.Lock()
	q.gone.end()
	dev.removeCounted(q.handle, q)
	q.leak.Done()
	q.pd.closeRefused()
	return q.opError("destroy", errors.Join(q.dropParents(), q.closeOwned()))
}

// drainCQs passes the completions that the CQs still have of a destroyed QP to their handlers. A
// poll that fails also fails for the leader of the CQ, which reports it.
func (q *QP) drainCQs() {
	if q.recvCQ != nil {
		_ = q.recvCQ.drain()
	}
	if q.sendCQ != nil && q.sendCQ != q.recvCQ {
		_ = q.sendCQ.drain()
	}
}
