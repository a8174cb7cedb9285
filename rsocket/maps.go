// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"

	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// mapLen is the length of an entry of the list of mappings in bytes.
const mapLen = 8 + sgeLen

// mappings holds the memory that the two sides have mapped for each other. The link's lock guards it.
type mappings struct {
	list    []byte     // the list that the peer writes, in this host's byte order.
	theirs  []mapEntry // the entries of list whose messages have arrived.
	ours    []bool     // which entries of the peer's list are in use.
	queue   []mapEntry // entries that are not yet sent to the peer.
	sending bool       // an entry is in the send queue, in the memory for it.

	staging       *verbs.MR // ring of the bytes of WriteAt, nil before the first call.
	posted, acked uint64    // counts of these bytes, as in sender.
}

// mapEntry is an entry of a list of mappings (struct rs_iomap).
type mapEntry struct {
	index  int
	offset uint64 // of the first byte, in the peer's numbering.
	mem    sge
}

func (e mapEntry) put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, e.offset)
	e.mem.put(b[8:], order)
}

func (m *mappings) init(list []byte) {
	m.list = list
	m.theirs = make([]mapEntry, len(list)/mapLen)
}

// arrived takes an entry that the peer has written.
func (m *mappings) arrived(index int) {
	b := m.list[index*mapLen:][:mapLen]
	m.theirs[index] = mapEntry{index: index, offset: binary.NativeEndian.Uint64(b), mem: sgeFrom(b[8:], binary.NativeEndian)}
}

// remove ends a mapping of this side. An entry in the queue is not sent, because its memory is freed.
func (m *mappings) remove(index int) {
	m.ours[index] = false
	m.queue = slices.DeleteFunc(m.queue, func(e mapEntry) bool { return e.index == index })
}

// find returns the rest of the peer's mapping that contains an offset.
func (m *mappings) find(offset uint64) (mem sge, ok bool) {
	for i := range m.theirs {
		e := &m.theirs[i]
		if skip := offset - e.offset; offset >= e.offset && skip < uint64(e.mem.length) {
			return sge{addr: e.mem.addr + skip, key: e.mem.key, length: e.mem.length - uint32(skip)}, true
		}
	}
	return sge{}, false
}

// Mapping is memory that the peer may write by its own WriteAt (riomap(3)).
type Mapping struct {
	l     *link
	mr    *verbs.MR
	index int
	once  sync.Once
}

var errNoEntry = fmt.Errorf("the peer takes no more mappings: %w", syscall.ENOMEM)

// Map allocates size bytes of registered memory that the peer can write (riomap(3)). The first byte has
// the given offset in the peer's WriteAt. The announcement reaches the peer before any byte that is
// written later. Options.Maps of the peer bounds the number of mappings. Further calls fail with
// syscall.ENOMEM, and calls on a closed connection with net.ErrClosed. The caller closes the Mapping.
func (c *Conn) Map(size int, offset int64) (*Mapping, error) {
	m, err := c.l.addMap(size, offset)
	if err != nil {
		return nil, c.opError("map", err)
	}
	return m, nil
}

func (l *link) addMap(size int, offset int64) (*Mapping, error) {
	if offset < 0 || uint64(size) > math.MaxUint32 {
		return nil, syscall.EINVAL
	}
	m := &Mapping{l: l, index: -1}
	l.mu.Lock()
	defer l.unlock()
	if l.closing || !l.usable() {
		return nil, net.ErrClosed
	}
	if l.maps.ours == nil {
		l.maps.ours = make([]bool, l.peer.maps)
	}
	for i, used := range l.maps.ours {
		if !used {
			m.index = i
			break
		}
	}
	if m.index < 0 {
		return nil, errNoEntry
	}
	var err error
	if m.mr, err = l.qp.PD().Alloc(size, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return nil, err
	}
	l.maps.ours[m.index] = true
	mem := sge{addr: m.mr.Addr(), key: m.mr.RKey(), length: uint32(size)}
	l.maps.queue = append(l.maps.queue, mapEntry{index: m.index, offset: uint64(offset), mem: mem})
	l.flush()
	return m, nil
}

// postMaps sends the queued entries. It returns false if some have to wait.
func (l *link) postMaps() bool {
	s, m := &l.send, &l.maps
	for len(m.queue) > 0 {
		slots := l.slotsPerMessage()
		if m.sending || s.slots < slots || s.seq == s.lastSeq {
			return false
		}
		e := m.queue[0]
		m.queue = m.queue[1:]
		at := int(s.size) + ctrlSlots*sgeLen
		e.put(s.mem[at:], l.order)
		m.sending = true
		s.seq++
		s.slots -= slots
		list := l.peer.sgl.addr + uint64(l.peer.sgl.length)*sgeLen
		l.prepareWrite(kindMap, l.sendMR, at, mapLen, list+uint64(e.index)*mapLen, l.peer.sgl.key)
		l.post(newMessage(opIOMap, uint32(e.index)), kindMessage)
		if l.err != nil {
			return false
		}
	}
	return true
}

// Bytes returns the memory, which must not be used after Close. The peer's device writes to it at any
// time, so a program needs a message of the peer to know that the memory is complete.
func (m *Mapping) Bytes() []byte { return m.mr.Bytes() }

// Close ends the mapping and frees its memory (riounmap(3)). The peer is not informed. If it writes to
// the mapping later, its device ends the connection. An announcement that was not sent yet is dropped.
// The memory exists until Close, even if the connection is closed before.
func (m *Mapping) Close() error {
	m.once.Do(func() {
		m.l.mu.Lock()
		m.l.maps.remove(m.index)
		m.l.mu.Unlock()
	})
	return m.mr.Close()
}

var _ io.WriterAt = (*Conn)(nil)

var errNotMapped = fmt.Errorf("the peer has mapped no memory there: %w", syscall.ENXIO)

// WriteAt writes b to memory that the peer has mapped at an offset (riowrite(3)). Like Write, it waits for
// room until the write deadline, and returns when b is copied. The bytes arrive before any byte that is
// written later. The peer's program gets no message. The error wraps syscall.ENXIO if the peer has not
// mapped the memory, or if its announcement has not arrived.
func (c *Conn) WriteAt(b []byte, offset int64) (int, error) {
	l := c.l
	at := uint64(offset)
	space := func() ([]byte, error) { return l.directSpace(at) }
	commit := func(n int) error {
		err := l.directCommit(at, n)
		at += uint64(n)
		return err
	}
	return streamconn.WriteWith(l.stream, b, space, commit)
}

// directSpace returns memory for bytes that are written to an offset.
func (l *link) directSpace(offset uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.maps
	if err := l.writable(); err != nil {
		return nil, err
	}
	to, ok := m.find(offset)
	if !ok {
		return nil, errNotMapped
	}
	if m.staging == nil {
		var err error
		if m.staging, err = l.qp.PD().Alloc(l.opts.SendBuffer, verbs.LocalWrite); err != nil {
			return nil, err
		}
	}
	if l.mute || l.send.slots == 0 {
		return nil, nil
	}
	size := uint64(m.staging.Len())
	at := m.posted % size
	n := min(size-(m.posted-m.acked), size-at, uint64(to.length), maxTransfer)
	if n == 0 {
		return nil, nil
	}
	l.send.slots-- // directCommit, which follows, uses it
	return m.staging.Bytes()[at : at+n], nil
}

// directCommit sends the first n bytes of the last directSpace. If it fails, it has sent none of them.
func (l *link) directCommit(offset uint64, n int) error {
	l.mu.Lock()
	defer l.unlock()
	m := &l.maps
	if err := l.writable(); err != nil {
		l.send.slots++ // the bytes before the end of the stream may need it
		return err
	}
	to, ok := m.find(offset)
	switch {
	case !l.usable():
		return nil // the cause of the failure is not yet known
	case !ok || to.length < uint32(n):
		l.fail(errNotMapped) // the peer has replaced the entry in between
		return errNotMapped
	}
	at := int(m.posted % uint64(m.staging.Len()))
	m.posted += uint64(n)
	l.prepareWrite(kindDirect|uint64(n), m.staging, at, n, to.addr, to.key)
	l.postPrepared(1)
	return nil
}
