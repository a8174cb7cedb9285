// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"log/slog"

	"purerdma/abi"
	"purerdma/uverbs"
)

// ErrFull reports that a send or receive queue has no room. It is back-pressure and not a fault.
// Poll completions, then post again. (libibverbs returns ENOMEM.)
var ErrFull = errors.New("work queue is full")

// Driver is the user-space part of one kernel driver.
type Driver interface {
	// ID returns the kernel driver that this Driver supports.
	ID() abi.DriverID
	// ABIVersions returns the first and the last version of the kernel driver's ABI that this
	// driver supports (/sys/class/infiniband_verbs/uverbsN/abi_version).
	ABIVersions() (min, max uint32)
	// Open makes a context on f, on which no command has been run yet. The context does not own f.
	// The caller closes f after the context's objects, and then the context, if it is an io.Closer.
	Open(f *uverbs.File) (Context, error)
}

// Context makes the objects of one open device. Its methods may be called concurrently. Package
// verbs destroys objects in the reverse order of their creation. Methods that the device does not
// support return an error that wraps errors.ErrUnsupported. A Context does not retain the
// configurations that callers pass.
type Context interface {
	// // Features returns the optional capabilities of the device. They do not change.
	Features() Features
	// AllocPD allocates a protection domain.
	AllocPD() (PD, error)
	// RegMR registers memory for a protection domain of this context.
	RegMR(*MRConfig) (MR, error)
	// CreateCQ makes a completion queue.
	CreateCQ(*CQConfig) (CQ, error)
	// CreateQP makes a queue pair in state RESET.
	CreateQP(*QPConfig) (QP, error)
	// CreateAH makes an address handle.
	CreateAH(*AHConfig) (AH, error)
	// AllocMW allocates a memory window, which is not bound.
	AllocMW(pd PD, typ MWType) (MW, error)
	// CreateSRQ makes a shared receive queue.
	CreateSRQ(*SRQConfig) (SRQ, error)
}

// QueuePinner is a Context that allocates its CQs, QPs and SRQs in memory of the process, which the
// kernel pins. That memory counts against RLIMIT_MEMLOCK.
type QueuePinner interface {
	Context
	PinsQueues()
}

// SGELimiter is a Context whose device has different limits for the elements of requests and of receives.
// The kernel reports the smaller limit (max_sge of struct ib_uverbs_query_device_resp).
type SGELimiter interface {
	Context
	// MaxSGE returns the maximum number of elements of a request and of a receive.
	MaxSGE() (send, recv int)
}

// InlineLimiter is a Context that reports its limit for inline data.
type InlineLimiter interface {
	Context
	// MaxInline returns the bytes of inline data that every QP can have.
	MaxInline() int
}

// Logger is a Context that logs faults of its device which no call returns.
type Logger interface {
	Context
	// SetLog is called at most once, before any other method.
	SetLog(*slog.Logger)
}

// PD is a protection domain.
type PD interface {
	// Handle returns the kernel's handle of the PD.
	Handle() uint32
	// Close deallocates the PD. It returns EBUSY while the PD has memory regions or queue pairs.
	Close() error
}

// UnmappedPD is a PD that needs notice of memory which the program cannot address, such as memory
// of another device. The method is optional.
type UnmappedPD interface {
	// AddUnmapped is called before such memory is registered for the PD with LocalWrite
	// (by RegDMABuf of package verbs). After an error the memory is not registered.
	AddUnmapped() error
}

// MRConfig configures a memory region. Mem is the memory itself. It must not move until the MR is
// closed, so it is pinned or outside the Go heap.
type MRConfig struct {
	PD     PD
	Mem    []byte
	IOVA   uint64 // the address by which work requests name Mem[0]
	Access Access
}

// MRMask selects the changes to a memory region: enum ibv_rereg_mr_flags of ibv_rereg_mr(3).
type MRMask uint32

// Changes to a memory region.
const (
	MRMem    MRMask = uverbs.ReregTrans // Mem and IOVA
	MRPD     MRMask = uverbs.ReregPD
	MRAccess MRMask = uverbs.ReregAccess
)

// MR is a registered memory region.
type MR interface {
	// LKey names the region in the scatter/gather elements of its own host.
	LKey() uint32
	// RKey names the region in the requests of a peer.
	RKey() uint32
	// Reregister makes the changes that mask names. The keys may change. After an error other than
	// ErrUnsupported, the region may be unusable and can only be closed.
	Reregister(cfg *MRConfig, mask MRMask) error
	// Close deregisters the region. If it fails, the device may still reach
	// the memory.
	Close() error
}

// CQConfig configures a completion queue.
type CQConfig struct {
	Entries    int // at least this many completions fit
	UserHandle uint64
	// Channel is the completion channel that armed events go to, or nil.
	Channel *uverbs.CompChannel
	Vector  uint32
	// Wake is called when the provider itself has added completions, for which the kernel sends no
	// event, armed or not. It may be nil, takes no locks of the provider and does not block.
	Wake func()
	// Unlocked promises that only one goroutine uses the CQ and resets and closes its QPs
	// (IBV_CREATE_CQ_ATTR_SINGLE_THREADED of ibv_create_cq_ex(3)). Polls then need no lock. A
	// driver may ignore it.
	Unlocked bool
	// Vendor holds options that only one vendor's devices have, of a type of its driver, or nil.
	// Other drivers refuse them.
	Vendor any
}

// EventCounter is a CQ that counts the events that are read from its completion channel.
type EventCounter interface {
	// Event counts an event that was read. It does not block.
	Event()
}

// CQ is a completion queue. Its methods may be called concurrently.
type CQ interface {
	// Handle returns the kernel's handle of the CQ.
	Handle() uint32
	// Entries returns the capacity in completions.
	Entries() int
	// Poll takes up to len(wcs) completions out of the queue and returns their number. It never
	// blocks and does not allocate.
	Poll(wcs []WC) (int, error)
	// Arm requests one event on the completion channel for the next completion, or with
	// solicitedOnly for the next solicited one. Completions that are already queued may cause no
	// event, so poll once more after arming.
	Arm(solicitedOnly bool) error
	// Resize changes the capacity to at least the given number of entries and keeps the queued
	// completions. Concurrent polls wait.
	Resize(entries int) error
	// Close destroys the CQ. Polls that run at the same time end with net.ErrClosed.
	Close() error
}

// QPConfig configures a queue pair.
type QPConfig struct {
	Type      QPType
	PD        PD
	SendCQ    CQ
	RecvCQ    CQ
	Cap       QPCap
	SRQ       SRQ  // takes the place of the receive queue, or nil
	SignalAll bool // every send completes, with or without SendSignaled
	// XRCD is the domain of a QP of type XRCRecv, which has neither PD nor CQs.
	XRCD XRCD
	// Unlocked promises that only one goroutine posts to the QP, as to a QP of a thread domain
	// (ibv_alloc_td(3)). Posts then need no lock. Modify and Close must not run during a post. If
	// a device fault fails the QP during a post, its requests complete at the next poll. CQConfig.Wake
	// is not called for them. A driver may ignore it.
	Unlocked bool
	// NoScatterToCQE makes the device always write data to memory, never into the completion
	// (MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE of mlx5dv_create_qp(3)). Drivers whose devices never
	// do that ignore it.
	NoScatterToCQE bool
	// MaxLSOHeader is the longest header of an OpLSO in bytes. It is for QPs of type RawPacket.
	MaxLSOHeader int
	// UserHandle identifies the QP in asynchronous events.
	UserHandle uint64
	// Failed is called before the provider moves the QP to the error state by itself, and so before the
	// outstanding requests complete. cause is an *InvalidCompletionError. fails returns false once the QP was reset or
	// closed, which ends the failure. Failed may be nil. It is called without locks of the provider, on a goroutine of
	// its own that waits for it. It may call fails, which takes the locks that Modify takes.
	Failed func(cause error, fails func() bool)
}

// QP is a queue pair. Its methods may be called concurrently.
type QP interface {
	// Handle returns the kernel's handle of the QP.
	Handle() uint32
	// Num returns the number by which the peer names the QP.
	Num() uint32
	// Cap returns the capacities of the QP, which may exceed the requested ones.
	Cap() QPCap
	// State returns the last state that Modify or SetState moved the QP to. A QP that the device
	// itself moved to an error state keeps its old state here.
	State() QPState
	// Modify changes the attributes that mask names, and with QPAttrState the
	// state. The caller has checked the transition, and serializes the calls.
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query queries the attributes from the kernel.
	Query() (QPAttr, error)
	// SetState records that the kernel moved the QP by itself, as iWARP's connection manager does.
	SetState(QPState)
	// PostSend posts the requests in order and rings the doorbell once. It returns the number of
	// posted requests. If it is less than len(wrs), err is about the first request that was not
	// posted. It does not allocate, and keeps no reference to wrs and to the slices in it, which
	// may be on the stack of the caller.
	PostSend(wrs []SendWR) (int, error)
	// PostRecv is PostSend for receives.
	PostRecv(wrs []RecvWR) (int, error)

	// BatchBegin locks the send queue for a batch. Until BatchPost or BatchDiscard all other
	// posters wait.
	BatchBegin()
	// BatchAdd builds one request in the queue, which the device does not process yet. After an
	// error the batch is unchanged.
	BatchAdd(wr *SendWR) error
	// BatchPost passes the built requests to the device, rings the doorbell once and unlocks the
	// send queue, even after an error. After an error, no request was passed to the device, except
	// if the doorbell itself failed.
	BatchPost() error
	// BatchDiscard drops the built requests and unlocks the send queue.
	BatchDiscard()

	// Close destroys the QP. Its completions are dropped, or stay in the CQs if the number of the
	// QP is not soon reused.
	Close() error
}
