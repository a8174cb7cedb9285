// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

// checkContention adds to one value by several QPs at once.
func checkContention(t *trial) {
	const links, each = 4, 100
	l := t.link(Config{CQEntries: 2 * links * each})
	all := []*link{l}
	for range links - 1 {
		all = append(all, l.another())
	}
	l.store(0, make([]byte, 8))
	var got []uint64
	for round := range each {
		for i, a := range all {
			wr := verbs.SendWR{
				Opcode: verbs.OpFetchAdd, CompareAdd: 1, SGList: l.elements([]piece{{8 * (i + 1), 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey,
			}
			a.post(signaled(wr))
		}
		l.succeeded(fmt.Sprintf("fetch and add of round %d", round), l.sends(links))
		for i := range links {
			got = append(got, binary.NativeEndian.Uint64(l.mr.Bytes()[8*(i+1):]))
		}
	}
	if err := eachOnce(got); err != nil {
		t.fail("fetch and add by %d QPs: %v", links, err)
	}
	if n := binary.NativeEndian.Uint64(l.load(0, 8)); n != links*each {
		t.fail("value after %d additions = %d", links*each, n)
	}
}

// eachOnce returns an error unless the values are 0, 1, 2 and so on, each once.
func eachOnce(values []uint64) error {
	slices.Sort(values)
	for i, v := range values {
		if v != uint64(i) {
			return fmt.Errorf("value %d of the sorted values is %d, want each value once", i, v)
		}
	}
	return nil
}

// AddingArgs are the arguments of StartAdding.
type AddingArgs struct {
	End, Off int
	Plus     uint64
}

// StartAdding lets a processor add a value to memory of an end again and again, by atomic additions, until StopAdding.
func (x *Ends) StartAdding(a AddingArgs, _ *struct{}) error {
	b, err := x.memory(a.End, a.Off, 8)
	if err != nil {
		return err
	}
	if a.Off%8 != 0 {
		return fmt.Errorf("memory at %d is not aligned", a.Off)
	}
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	e.adder.start(abi.View[atomic.Uint64](b), a.Plus)
	return nil
}

// StopAdding ends StartAdding, and returns the number of additions.
func (x *Ends) StopAdding(n int, count *uint64) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	*count = e.adder.stop()
	return nil
}

// burst is the number of additions between two pauses of an adder. They take as long as a few operations of a device.
const burst = 5000

// adder adds to memory in a goroutine.
type adder struct {
	ending atomic.Bool
	ended  chan uint64 // number of additions. nil while it is stopped
}

func (a *adder) start(value *atomic.Uint64, plus uint64) {
	a.ending.Store(false)
	ended := make(chan uint64, 1)
	a.ended = ended
	go func() {
		n := uint64(0)
		for !a.ending.Load() {
			for range burst {
				value.Add(plus)
			}
			n += burst
			time.Sleep(time.Microsecond) // the only processor may have to post the requests
		}
		ended <- n
	}()
}

// stop returns the number of additions.
func (a *adder) stop() uint64 {
	if a.ended == nil {
		return 0
	}
	a.ending.Store(true)
	n := <-a.ended
	a.ended = nil
	return n
}

// Levels of atomicity (enum ib_atomic_cap of the kernel).
const (
	atomicDevice = 1 // with other operations of the device
	atomicGlobal = 2 // also with the processors
)

// checkProcessorAtomics has the device and a processor of the far end add to one value. The device adds to its lower half.
func checkProcessorAtomics(t *trial) {
	const additions = 300
	l := t.link(Config{})
	l.store(0, make([]byte, 8))
	t.call("StartAdding", AddingArgs{End: l.far, Plus: 1 << 32}, &struct{}{})
	for range additions {
		l.send(verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 1, SGList: l.elements([]piece{{8, 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
	}
	var n uint64
	t.call("StopAdding", l.far, &n)
	value := binary.NativeEndian.Uint64(l.load(0, 8))
	t.note("%d additions by a processor, %d by the device: value %#x, so %d and %d are lost", n, additions, value, n-value>>32, additions-value&0xffffffff)
	if want := n<<32 + additions; value != want && t.attr.AtomicCap == atomicGlobal {
		t.fail("value after %d additions by the device and %d by a processor = %#x, want %#x, because the device claims to be atomic with processors", additions, n, value, want)
	}
	if t.attr.AtomicCap == atomicDevice {
		t.note("the device only claims to be atomic with itself")
	}
}

// checkAtomicSides adds to one value from both ends. The near end uses its own device, and the far end the connection.
func checkAtomicSides(t *trial) {
	const each = 200
	l := t.link(Config{})
	own := t.connectedTo(l.end)
	near := l.mr.Bytes()
	clear(near[:8])
	l.store(0, make([]byte, 8))
	var got []uint64
	wr := verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 1, RemoteAddr: l.mr.Addr(), RKey: l.mr.RKey()}
	for range each {
		l.farPost(PlainWR{Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, CompareAdd: 1, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey}, piece{8, 8})
		wr.SGList = own.elements([]piece{{8, 8}})
		_, err := own.qp.PostSend([]verbs.SendWR{signaled(wr)})
		t.must("post", err)
		t.completed(own.sendCQ, "fetch and add")
		l.succeeded("fetch and add of the far end", l.farWait(true, 1))
		got = append(got, binary.NativeEndian.Uint64(own.mr.Bytes()[8:]), binary.NativeEndian.Uint64(l.load(8, 8)))
	}
	if err := eachOnce(got); err != nil {
		t.fail("fetch and add by both ends: %v", err)
	}
	if n := binary.NativeEndian.Uint64(near); n != 2*each {
		t.fail("value after %d additions = %d", 2*each, n)
	}
}
