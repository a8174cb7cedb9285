// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/provider/internal/count"
	"purerdma/uverbs"
)

// sendHeader is the size of a send WQE before its elements or inline data.
const sendHeader = 208

// sendQueue is a ring that the kernel empties.
type sendQueue struct {
	mu        sync.Mutex // guards the ring, its slots and the fields below.
	ring      ring.Ring
	mapping   uverbs.Mapping
	producer  uint32         // next slot to build in.
	published uint32         // next slot that the kernel has not got
	changes   []windowChange // of the requests from published to producer.
	all       opset          // of the type of queue pair and the device
	ops       atomic.Uint32  // the opset of the currently allowed operations
	doorbells uint64
	counts    count.Sends // of the built requests
}

func (q *qp) PostSend(wrs []provider.SendWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.sq.mu.Lock()
	if err := q.sendable(); err != nil {
		q.sq.mu.Unlock()
		return 0, err
	}
	var n int
	var err error
	for n = range wrs {
		if err = q.build(&wrs[n]); err != nil {
			break
		}
	}
	if err == nil {
		n = len(wrs)
	}
	q.publish()
	if n == 0 {
		q.sq.mu.Unlock()
		return 0, err
	}
	if rerr := q.unlockAndRing(); rerr != nil {
		return n, rerr
	}
	return n, err
}

// unlockAndRing releases the lock and makes the kernel process the queue. The kernel may send
// packets within the doorbell, and other goroutines may build requests at the same time. Close
// waits for the doorbell, which names the QP by its handle.
func (q *qp) unlockAndRing() error {
	q.ringing.Add(1)
	q.sq.doorbells++
	q.sq.mu.Unlock()
	err := q.bell.Ring()
	q.ringing.Done()
	return err
}

// publish passes the built requests to the kernel. The caller holds the lock.
func (q *qp) publish() {
	q.sq.published = q.sq.producer
	q.sq.changes = q.sq.changes[:0]
	q.sq.ring.StoreProducer(q.sq.producer)
}

// discard drops the built requests that are not published. The caller holds the lock.
func (q *qp) discard() {
	q.sq.producer = q.sq.published
	q.sq.counts.Discard()
	if len(q.sq.changes) > 0 {
		q.windows.undo(q.sq.changes)
		q.sq.changes = q.sq.changes[:0]
	}
}

// sendStates are the states in which sends may be posted, a bit for each.
const sendStates = 1<<provider.QPRTS | 1<<provider.QPSQD | 1<<provider.QPSQE | 1<<provider.QPErr

// sendable returns the reason why no send may be posted, or nil. The kernel would refuse the
// doorbell only after the requests are visible to it.
func (q *qp) sendable() error {
	if err := q.usable(); err != nil {
		return err
	}
	if s := q.State(); sendStates>>s&1 == 0 {
		return &provider.QPStateError{State: s}
	}
	return nil
}

// build writes one request into the next slot and advances. The caller holds the lock. It finds
// invalid requests, but refusal formats their errors, which keeps the path of valid requests short.
func (q *qp) build(wr *provider.SendWR) error {
	r := &q.sq.ring
	i := q.sq.producer
	next := r.Next(i)
	if next == r.LoadConsumer() {
		return provider.ErrFull
	}
	sg := wr.SGList
	inline := wr.InlineData != nil
	var length uint64
	if inline {
		length = uint64(len(wr.InlineData))
		sg = nil
	} else {
		for k := range sg {
			length += uint64(sg[k].Length)
		}
	}
	if !opset(q.sq.ops.Load()).has(wr.Opcode) || len(sg) > q.cap.SendSGE || inline && length > uint64(q.cap.Inline) {
		return q.refusal(wr, length)
	}

	// The kernel does not clear a slot after use. For example, the state and the status of a failed
	// request stay there.
	wqe := ring.At[abi.RxeSendWQE](r, i)
	*wqe = abi.RxeSendWQE{}
	wqe.WR.WRID = wr.ID
	wqe.WR.Opcode = wr.Opcode.Kernel()
	wqe.WR.SendFlags = uint32(wr.Flags) & (sendFence | sendSignaled | sendSolicited)
	wqe.IOVA = wr.RemoteAddr

	switch wr.Opcode {
	case provider.OpSend:
	case provider.OpSendImm:
		binary.BigEndian.PutUint32(wqe.WR.Ex[:], wr.ImmData)
	case provider.OpSendInv:
		binary.NativeEndian.PutUint32(wqe.WR.Ex[:], wr.InvalidateRKey)
	case provider.OpWriteImm:
		binary.BigEndian.PutUint32(wqe.WR.Ex[:], wr.ImmData)
		fallthrough
	case provider.OpWrite, provider.OpRead:
		rdma := wqe.WR.RDMA()
		rdma.RemoteAddr, rdma.RKey = wr.RemoteAddr, wr.RKey
		if inline && wr.Opcode == provider.OpRead {
			return q.refusal(wr, length)
		}
	case provider.OpCompareSwap, provider.OpFetchAdd:
		// librxe accepts longer lists, of which the kernel would fill 8 bytes.
		if inline || length != 8 || wr.RemoteAddr%8 != 0 {
			return q.refusal(wr, length)
		}
		atomic := wqe.WR.Atomic()
		atomic.RemoteAddr, atomic.RKey = wr.RemoteAddr, wr.RKey
		atomic.CompareAdd, atomic.Swap = wr.CompareAdd, wr.Swap
	default:
		if err := q.buildGeneric(wqe, wr); err != nil {
			return err
		}
		q.sq.counts.Add(wr.Opcode, length)
		q.sq.producer = next
		return nil
	}
	if q.typ == provider.UD {
		if err := address(wqe, wr); err != nil {
			return err
		}
	}
	if length > maxMessage {
		return q.refusal(wr, length)
	}

	wqe.DMA.Length, wqe.DMA.Resid = uint32(length), uint32(length)
	if inline {
		wqe.WR.SendFlags |= sendInline
		copy(ring.Tail[byte](r, i, sendHeader, int(length)), wr.InlineData)
	} else {
		wqe.DMA.NumSGE = uint32(len(sg))
		putSGEs(ring.Tail[abi.RxeSGE](r, i, sendHeader, len(sg)), sg)
	}
	q.sq.counts.Add(wr.Opcode, length)
	q.sq.producer = next
	return nil
}

// refusal explains why a request of length bytes is invalid.
func (q *qp) refusal(wr *provider.SendWR, length uint64) error {
	inline := wr.InlineData != nil
	switch {
	case wr.Opcode == 0:
		return provider.ErrNoOpcode
	case q.sq.all.has(wr.Opcode) && !opset(q.sq.ops.Load()).has(wr.Opcode):
		return provider.ErrNoReads
	case !q.sq.all.has(wr.Opcode):
		return fmt.Errorf("%v on a QP of type %v of rxe: %w", wr.Opcode, q.typ, syscall.EOPNOTSUPP)
	case inline && length > uint64(q.cap.Inline):
		return fmt.Errorf("%d bytes of inline data, %d fit: %w", length, q.cap.Inline, syscall.EINVAL)
	case !inline && len(wr.SGList) > q.cap.SendSGE:
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", len(wr.SGList), q.cap.SendSGE, syscall.EINVAL)
	case inline && wr.Opcode == provider.OpRead:
		return fmt.Errorf("inline data in a read: %w", syscall.EINVAL)
	case wr.Opcode == provider.OpCompareSwap || wr.Opcode == provider.OpFetchAdd:
		return fmt.Errorf("atomic of %d bytes at %#x: %w", length, wr.RemoteAddr, syscall.EINVAL)
	default:
		return fmt.Errorf("message of %d bytes: %w", length, syscall.EMSGSIZE)
	}
}

// address writes the destination of a datagram to wqe.
func address(wqe *abi.RxeSendWQE, wr *provider.SendWR) error {
	if wr.AH == nil {
		return fmt.Errorf("datagram without an address handle: %w", syscall.EINVAL)
	}
	switch a := wr.AH.ProviderAH().(type) {
	case *ah:
		ud := wqe.WR.UD()
		ud.RemoteQPN, ud.RemoteQKey, ud.AHNum = wr.RemoteQPN, wr.RemoteQKey, a.num
		return nil
	case nil:
		return fmt.Errorf("address handle: %w: %w", net.ErrClosed, syscall.EINVAL)
	}
	return fmt.Errorf("address handle of another driver: %w", syscall.EINVAL)
}

// Flags of a send request, enum ib_send_flags of the kernel.
const (
	sendFence     = uint32(provider.SendFence)
	sendSignaled  = uint32(provider.SendSignaled)
	sendSolicited = uint32(provider.SendSolicited)
	sendInline    = 1 << 3
)

// maxMessage is the longest message of a reliable connection, bytes.
const maxMessage = 1 << 31

func putSGEs(dst []abi.RxeSGE, sg []provider.SGE) {
	for k := range dst {
		dst[k] = abi.RxeSGE{Addr: sg[k].Addr, Length: sg[k].Length, LKey: sg[k].LKey}
	}
}

func (q *qp) BatchBegin() {
	q.sq.mu.Lock()
	q.sq.counts.Begin()
}

func (q *qp) BatchAdd(wr *provider.SendWR) error {
	// A closed QP has no ring to build in.
	if err := q.usable(); err != nil {
		return err
	}
	return q.build(wr)
}

func (q *qp) BatchPost() error {
	err := q.sendable()
	if err != nil {
		q.discard()
		q.sq.mu.Unlock()
		return err
	}
	if q.sq.producer == q.sq.published {
		q.sq.mu.Unlock()
		return nil
	}
	q.publish()
	return q.unlockAndRing()
}

func (q *qp) BatchDiscard() {
	q.discard()
	q.sq.mu.Unlock()
}
