// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"log/slog"

	"purerdma/abi"
	"purerdma/uverbs"
)

// ErrFull says that a send or receive queue has no room. It is back-pressure
// and not a fault: poll completions, then post again. (libibverbs gives ENOMEM.)
var ErrFull = errors.New("work queue is full")

// Driver is the user-space half of one kernel driver.
type Driver interface {
	// ID is the kernel driver that this one is for.
	ID() abi.DriverID
	// ABIVersions returns the first and the last version of the kernel
	// driver's ABI, as in /sys/class/infiniband_verbs/uverbsN/abi_version,
	// that this driver speaks.
	ABIVersions() (min, max uint32)
	// Open makes a context on f, on which no command has been run yet. The
	// context does not own f: the caller closes f after the context's objects, and
	// then the context, if it is an io.Closer.
	Open(f *uverbs.File) (Context, error)
}

// Context makes the objects of one open device. Its methods may be called
// concurrently. Objects are destroyed in the reverse order of their creation;
// package verbs sees to that. What the device has not gives an error that wraps
// errors.ErrUnsupported. A Context does not retain the configurations that it is given.
type Context interface {
	// Features returns what the device can do. The answer does not change.
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

// QueuePinner is a Context whose CQs, QPs and SRQs are memory of the process that the
// kernel pins. That memory counts against RLIMIT_MEMLOCK.
type QueuePinner interface {
	Context
	PinsQueues()
}

// Logger is a Context that logs faults of its device which no call returns.
type Logger interface {
	Context
	// SetLog is called at most once, before any other method.
	SetLog(*slog.Logger)
}

// PD is a protection domain.
type PD interface {
	// Handle is the kernel's handle of the PD.
	Handle() uint32
	// Close deallocates the PD: EBUSY while it has memory regions or queue
	// pairs.
	Close() error
}

// UnmappedPD is a PD that must know of memory which the program cannot address, as that
// of another device. A PD without this method does not care.
type UnmappedPD interface {
	// AddUnmapped is called before such memory is registered for the PD with LocalWrite
	// (by RegDMABuf of package verbs). After an error the memory is not registered.
	AddUnmapped() error
}

// MRConfig says what to register. Mem is the memory itself; it must stay where
// it is until the MR is closed: pinned, or outside the Go heap.
type MRConfig struct {
	PD     PD
	Mem    []byte
	IOVA   uint64 // the address by which work requests name Mem[0]
	Access Access
}

// MRMask says what of a memory region to change: enum ibv_rereg_mr_flags of
// ibv_rereg_mr(3).
type MRMask uint32

// What can be changed.
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
	// Reregister changes the region in what mask names, and with it perhaps the
	// keys. After an error that is not ErrUnsupported it may be good for nothing
	// but Close.
	Reregister(cfg *MRConfig, mask MRMask) error
	// Close deregisters the region. If it fails, the device may still reach
	// the memory.
	Close() error
}

// CQConfig says how to make a completion queue.
type CQConfig struct {
	Entries    int // at least this many completions fit
	UserHandle uint64
	// Channel is the completion channel that armed events go to, or nil.
	Channel *uverbs.CompChannel
	Vector  uint32
	// Wake is called when the provider itself has added completions, for which
	// the kernel gives no event, armed or not. It may be nil, takes no locks of
	// the provider and does not block.
	Wake func()
	// Unlocked says that one goroutine alone uses the CQ, and resets and closes its
	// QPs (IBV_CREATE_CQ_ATTR_SINGLE_THREADED of ibv_create_cq_ex(3)): polls need no
	// lock then. A driver may ignore it.
	Unlocked bool
	// Vendor is options that only one vendor's devices have, of a type of its driver,
	// or nil. Other drivers refuse them.
	Vendor any
}

// EventCounter is a CQ that must be told of the events that are read from its
// completion channel.
type EventCounter interface {
	// Event says that an event was read. It does not block.
	Event()
}

// CQ is a completion queue. Its methods may be called concurrently.
type CQ interface {
	// Handle is the kernel's handle of the CQ.
	Handle() uint32
	// Entries returns how many completions fit.
	Entries() int
	// Poll takes up to len(wcs) completions out of the queue and returns how
	// many. It never blocks and does not allocate.
	Poll(wcs []WC) (int, error)
	// Arm asks for one event on the completion channel when the next
	// completion, or with solicitedOnly the next solicited one, is added.
	// Completions that are already there may give no event: poll once more
	// after arming.
	Arm(solicitedOnly bool) error
	// Resize makes a queue of at least that many entries, to which completions
	// that are there move. Polls wait meanwhile.
	Resize(entries int) error
	// Close destroys the CQ. Polls that run at the same time end with
	// net.ErrClosed.
	Close() error
}

// QPConfig says how to make a queue pair.
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
	// Unlocked says that one goroutine alone posts to the QP, as to a QP of a thread
	// domain (ibv_alloc_td(3)): posts need no lock then. Modify and Close must not
	// run at the same time as a post. A driver may ignore it.
	Unlocked bool
	// NoScatterToCQE has the device write data to memory always, never into the
	// completion (MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE of mlx5dv_create_qp(3)). It
	// means nothing to drivers whose devices do not do that.
	NoScatterToCQE bool
	// MaxLSOHeader is the longest header of an OpLSO, bytes; QPs of type RawPacket.
	MaxLSOHeader int
	// UserHandle is what asynchronous events name the QP by.
	UserHandle uint64
}

// QP is a queue pair. Its methods may be called concurrently.
type QP interface {
	// Handle is the kernel's handle of the QP.
	Handle() uint32
	// Num is the number by which the peer names the QP.
	Num() uint32
	// Cap returns what the QP has, which may be more than was asked for.
	Cap() QPCap
	// State is the state that Modify or SetState moved the QP to last. A QP that
	// the device itself moved to an error state still shows the old one.
	State() QPState
	// Modify changes the attributes that mask names, and with QPAttrState the
	// state. The caller has checked the transition, and serializes the calls.
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query asks the kernel for the attributes.
	Query() (QPAttr, error)
	// SetState tells the QP that the kernel moved it by itself, as iWARP's
	// connection manager does.
	SetState(QPState)
	// PostSend posts the requests in order and rings once. It returns how many
	// were posted: all, or those before the one that err is about. It does not
	// allocate, and keeps no reference to wrs and to the slices in it, which may be on the
	// stack of the caller.
	PostSend(wrs []SendWR) (int, error)
	// PostRecv is PostSend for receives.
	PostRecv(wrs []RecvWR) (int, error)

	// BatchBegin takes the send queue for a batch: until BatchPost or
	// BatchDiscard all other posters wait.
	BatchBegin()
	// BatchAdd builds one request in the queue, unseen by the device. After an
	// error the batch is as it was before.
	BatchAdd(wr *SendWR) error
	// BatchPost hands what was built to the device, rings once and gives the
	// send queue back, also when it fails; then nothing was handed over,
	// unless the error is that of the doorbell itself.
	BatchPost() error
	// BatchDiscard forgets what was built and gives the send queue back.
	BatchDiscard()

	// Close destroys the QP. Its completions go with it, or stay in the CQs where the
	// next QP does not soon have the same number.
	Close() error
}
