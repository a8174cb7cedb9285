// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/test/connectx/prm"
	"purerdma/uverbs"
)

// CQ is a completion queue. The exported fields do not change, except the ring, which a resize
// replaces.
type CQ struct {
	Num        uint32
	Handle     uint32
	UserHandle uint64
	Create     abi.Mlx5CreateCQ // driver-specific input of the command
	CQESize    int
	Buf        []byte // the ring
	DB         []byte // the doorbell record: consumer index, arm word
	UAR        *UAR   // whose CQDoorbell arms it

	c        *context
	channel  fakeuverbs.Channel
	event    abi.UverbsCompEventDesc // event that is sent to it
	users    int
	producer uint32
	overrun  bool // the queue has failed
}

func (c *context) handleCQ() {
	c.Handle(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, c.createCQ)
	c.HandleDestroy(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, c.destroyCQ)
	c.Command(abi.IB_USER_VERBS_CMD_RESIZE_CQ, c.resizeCQ)
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ, func(cmd *fakeuverbs.Command) error {
		if c.cqs[fakeuverbs.Input[abi.UverbsExModifyCQ](cmd).CQHandle] == nil {
			return syscall.EINVAL
		}
		return nil
	})
}

// ringSize returns the number of entries of the ring for the program's request of cqe entries.
// The ring has at least one more.
func (c *context) ringSize(cqe uint32) (int, bool) {
	if cqe == 0 || cqe > c.Attr.Base.MaxCQE {
		return 0, false
	}
	return 1 << bits.Len32(cqe), true
}

// createCQ responds like create_cq_user of mlx5_ib.
func (c *context) createCQ(req *uverbs.Request) error {
	raw := fakeuverbs.DriverIn(req)
	if len(raw) < 20 { // up to CQESize
		return syscall.EINVAL
	}
	var in abi.Mlx5CreateCQ
	copyStruct(&in, raw)
	entries, ok := c.ringSize(uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_CQE)))
	const flags = abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD | abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | abi.MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS
	if !ok || in.CQESize != 64 && in.CQESize != 128 || in.Flags&^flags != 0 || in.Reserved0 != 0 || in.Reserved1 != 0 ||
		fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR) != 0 {
		return syscall.EINVAL
	}
	q := &CQ{
		c: c, Create: in, CQESize: int(in.CQESize), UserHandle: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
	}
	var err error
	if q.Buf, err = userMemory(in.BufAddr, entries*int(in.CQESize)); err != nil {
		return err
	}
	if q.DB, err = userMemory(in.DBAddr, 8); err != nil {
		return err
	}
	if in.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0 {
		q.UAR = c.dynamicUAR(uint32(in.UARPageIndex))
	}
	if !c.dynamic && in.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX == 0 {
		q.UAR = c.legacyUAR(0)
	}
	if q.UAR == nil {
		return syscall.EINVAL
	}
	if in.CQECompEn != 0 && (in.CQECompEn != 1 || bits.OnesCount8(in.CQECompResFormat) != 1 ||
		uint32(in.CQECompResFormat)&^c.own.CQECompCaps.SupportedFormat != 0) ||
		in.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD != 0 && (in.CQESize != 128 || c.own.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD == 0) {
		return syscall.EOPNOTSUPP
	}
	if q.channel, err = c.Channel(req, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); err != nil {
		return err
	}
	q.event.CQHandle = q.UserHandle
	c.k.madeCQs++
	q.Num, q.Handle = 0x400+c.k.madeCQs, c.NewHandle()
	if h := c.hardware(); h != nil {
		if err := h.MakeCQ(q); err != nil {
			return err
		}
	}
	c.cqs[q.Handle] = q
	c.k.cqs = append(c.k.cqs, q)
	q.use(1)
	if q.channel.Is() && c.hardware() == nil {
		atomic.StoreUint32(q.armWord(), notArmed)
	}
	cqe := uint32(entries - 1)
	fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_CQ_HANDLE, q.Handle)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe)
	fakeuverbs.PutDriver(req, &abi.Mlx5CreateCQResp{CQN: q.Num})
	return nil
}

func (q *CQ) use(n int) {
	if q.UAR != nil {
		q.UAR.users += n
	}
}

func (q *CQ) busy() bool { return q.users > 0 }

func (q *CQ) end() {
	if h := q.c.hardware(); h != nil {
		h.EndCQ(q)
	}
}

func (c *context) destroyCQ(req *uverbs.Request) error {
	return destroy(c.cqs, &c.k.cqs, fakeuverbs.Handle(req, abi.UVERBS_ATTR_DESTROY_CQ_HANDLE))
}

// resizeCQ adds the resize completion to the old ring, and continues in the new one.
func (c *context) resizeCQ(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsResizeCQ](cmd)
	q := c.cqs[in.CQHandle]
	entries, ok := c.ringSize(in.CQE)
	if q == nil || !ok || len(cmd.DriverIn) < abi.Size[abi.Mlx5ResizeCQ]() {
		return syscall.EINVAL
	}
	own := abi.View[abi.Mlx5ResizeCQ](cmd.DriverIn)
	if own.Reserved0 != 0 || own.Reserved1 != 0 || own.CQESize != 64 && own.CQESize != 128 {
		return syscall.EINVAL
	}
	h := c.hardware()
	if h == nil && q.outstanding() > entries-1 {
		return syscall.EINVAL
	}
	buf, err := userMemory(own.BufAddr, entries*int(own.CQESize))
	if err != nil {
		return err
	}
	if h == nil {
		q.push((&CQE{Opcode: CQEResize}).Bytes(q.CQESize))
	} else if err := h.ResizeCQ(q, buf, int(own.CQESize)); err != nil {
		return err
	}
	q.CQESize, q.Buf = int(own.CQESize), buf
	fakeuverbs.Answer(cmd, &abi.UverbsResizeCQResp{CQE: uint32(entries - 1)})
	return nil
}

// Entries returns the number of completions that the ring can hold.
func (q *CQ) Entries() int { return len(q.Buf) / q.CQESize }

// ConsumerIndex returns the provider's consumer index from the doorbell record. It has 24 bits.
func (q *CQ) ConsumerIndex() uint32 { return load(q.DB) & 0xffffff }

// ArmWord returns the word of the doorbell record that arms the queue. It has the sequence
// number in bits 28 and 29, the flag for solicited completions only in bit 24, and the consumer
// index in the other bits.
func (q *CQ) ArmWord() uint32 { return load(q.DB[4:]) }

// Produced returns the number of completions that have been added to the queue, modulo 2^32.
func (q *CQ) Produced() uint32 {
	q.c.k.mu.Lock()
	defer q.c.k.mu.Unlock()
	return q.producer
}

// SetProduced sets the producer index to n, as if the queue had had n completions, all of them
// polled. The next completion goes into slot n. The provider's consumer index must be n.
func (q *CQ) SetProduced(n uint32) {
	q.c.k.mu.Lock()
	defer q.c.k.mu.Unlock()
	q.producer = n
}

// Complete adds a completion of CQESize bytes to the ring, as the device does. It stores the
// ownership last. It ignores only the owner bit in the last byte of cqe. If the queue is armed,
// an event follows. Complete returns false if the ring is full.
func (q *CQ) Complete(cqe []byte) bool {
	q.c.k.mu.Lock()
	defer q.c.k.mu.Unlock()
	if !q.push(cqe) {
		return false
	}
	c := cqe[len(cqe)-prm.CQELen:]
	op := prm.CQE.Opcode.Get(c)
	q.notify(prm.CQE.Solicited.Is(c) || op == CQEReqErr || op == CQERespErr)
	return true
}

// outstanding returns the number of completions that the program has not polled.
func (q *CQ) outstanding() int { return int((q.producer - load(q.DB)) & 0xffffff) }

// push is Complete with the lock held. A queue that overflows fails, as in a device.
func (q *CQ) push(cqe []byte) bool {
	if q.outstanding() >= q.Entries() {
		if !q.overrun {
			q.overrun = true
			q.c.Event(uverbs.EventCQErr, q.UserHandle)
		}
		return false
	}
	slot := q.Buf[int(q.producer)%q.Entries()*q.CQESize:][:q.CQESize]
	copy(slot, cqe[:q.CQESize-4])
	last := [4]byte(cqe[q.CQESize-4:])
	last[3] = last[3]&^1 | byte(q.producer>>bits.TrailingZeros(uint(q.Entries()))&1)
	// The partner is the provider's load of these bytes.
	atomic.StoreUint32(abi.View[uint32](slot[q.CQESize-4:]), binary.NativeEndian.Uint32(last[:]))
	q.producer++
	return true
}

// copyStruct copies as many bytes of the program's struct as it has, up to the size of dst. A
// longer struct comes from a newer program.
//
// The struct contains pointers. A complete struct is therefore copied with its type, and not as
// plain bytes.
func copyStruct[T any](dst *T, src []byte) {
	if len(src) >= abi.Size[T]() {
		*dst = *abi.View[T](src)
		return
	}
	copy(abi.Bytes(dst), src)
}

// userMemory returns n bytes of the program's memory.
func userMemory(p abi.Pointer, n int) ([]byte, error) {
	if n > 0 && p == (abi.Pointer{}) {
		return nil, syscall.EFAULT
	}
	return p.Slice(n), nil
}

// load reads a big-endian word of a doorbell record. Its partner is the
// provider's store of it.
func load(db []byte) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(abi.View[uint32](db)))
	return binary.BigEndian.Uint32(b[:])
}
