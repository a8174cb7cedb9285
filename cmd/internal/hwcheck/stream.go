// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"purerdma/verbs"
)

// Stream describes a stream of messages from the near end to the far end. Each has its own data. The far end
// compares them in order.
type Stream struct {
	Count     int
	Min, Span int // Message i has Min + i mod Span bytes.
	Elements  int // of each receive, at least 1
	Depth     int // posted receives
	// Reads makes the near end read 1 to 64 bytes after each message.
	Reads bool
	// Writes makes the near end write data into the far memory before each message. The far end compares it when the
	// receive completes.
	Writes bool

	// more, if not nil, is called before the end of the stream. The stream continues with Count messages if it returns true.
	more func() bool
}

const (
	// slot is the memory of a message. It has room for the gaps between elements.
	slot = 8 << 10
	// slots is the number of messages with memory.
	slots = 64
	// readArea is the offset of the data that READs return, behind the slots.
	readArea = slots * slot
	// readSlot is the distance of the data of two READs, and readSlots is their number.
	readSlot, readSlots = 64, 64
	// writeArea is the offset of the data of WRITEs. Each of the slots has writeSlot bytes.
	writeArea, writeSlot = readArea + readSlot*readSlots, 512
	// streamMemory is the memory of an end with a stream.
	streamMemory = writeArea + writeSlot*slots
)

func (s *Stream) size(i int) int { return s.Min + i%s.Span }

// pieces returns the elements of the receive in a slot.
func (s *Stream) pieces(n int) []piece { return splits(n*slot, s.Elements, s.Min+s.Span) }

// config returns the configuration of the ends of the stream.
func (s *Stream) config() Config {
	return Config{Memory: streamMemory, Cap: verbs.QPCap{SendWR: 64, RecvWR: s.Depth, RecvSGE: s.Elements, SendSGE: 2}}
}

// SinkArgs are the arguments of Sink.
type SinkArgs struct {
	End    int
	Stream Stream
}

// Sink posts the receives of a stream and begins to receive it. Sunk waits for its end.
func (x *Ends) Sink(a SinkArgs, _ *struct{}) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	fillPattern(e.mr.Bytes()[readArea:], readArea)
	for i := range a.Stream.Depth {
		if err := e.recv(uint64(i), a.Stream.pieces(i)); err != nil {
			return err
		}
	}
	e.sunk = make(chan error, 1)
	e.messages.Store(int64(a.Stream.Count))
	go func() { e.sunk <- e.sink(x.s.ctx, &a.Stream, &e.messages) }()
	return nil
}

// ExtendArgs are the arguments of Extend.
type ExtendArgs struct{ End, Count int }

// Extend continues a stream by a number of messages. It must be called before the near end posts the last message.
func (x *Ends) Extend(a ExtendArgs, _ *struct{}) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	e.messages.Add(int64(a.Count))
	return nil
}

// Sunk returns the result of the stream that Sink has begun.
func (x *Ends) Sunk(n int, _ *struct{}) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	return <-e.sunk
}

// sink receives a stream of a number of messages. One goroutine polls and compares while another posts receives.
func (e *end) sink(ctx context.Context, s *Stream, messages *atomic.Int64) error {
	refill := make(chan int, s.Depth)
	refilled := make(chan error, 1)
	go func() { refilled <- e.refill(ctx, s, refill) }()
	err := e.compare(ctx, s, messages, refill)
	close(refill)
	return errors.Join(err, <-refilled)
}

// compare polls the receives of a stream and compares them.
func (e *end) compare(ctx context.Context, s *Stream, messages *atomic.Int64, refill chan<- int) error {
	var wcs [16]verbs.WC
	for got := 0; got < int(messages.Load()); {
		n, err := waitSome(ctx, e.recvCQ, wcs[:min(len(wcs), int(messages.Load())-got)])
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", got, messages.Load(), err)
		}
		for i := range wcs[:n] {
			if err := e.compareMessage(s, got, &wcs[i]); err != nil {
				return err
			}
			got++
			refill <- int(wcs[i].ID)
		}
	}
	return nil
}

func (e *end) compareMessage(s *Stream, n int, wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
		return fmt.Errorf("message %d: %w", n, err)
	}
	if wc.ID != uint64(n%s.Depth) || int(wc.ByteLen) != s.size(n) {
		return fmt.Errorf("message %d: receive %d with %d bytes completed, want receive %d with %d bytes", n, wc.ID, wc.ByteLen, n%s.Depth, s.size(n))
	}
	if s.Writes {
		at := writeArea + n%slots*writeSlot
		if got, want := e.mr.Bytes()[at:][:writeSlot], pattern(-n, writeSlot); !bytes.Equal(got, want) {
			return fmt.Errorf("WRITE before message %d: %s", n, difference(got, want))
		}
	}
	got := gathered(e.mr.Bytes(), s.pieces(int(wc.ID)))[:wc.ByteLen]
	if want := pattern(n, s.size(n)); !bytes.Equal(got, want) {
		return fmt.Errorf("message %d: %s", n, difference(got, want))
	}
	return nil
}

// refill posts the consumed receives again. After each half of the queue it sends an empty message, which
// allows the near end to send as many messages.
func (e *end) refill(ctx context.Context, s *Stream, slots <-chan int) error {
	half, n := s.Depth/2, 0
	for i := range slots {
		for _, p := range s.pieces(i) { // no old data that could look right
			clear(e.mr.Bytes()[p.Off:][:p.Len])
		}
		if err := e.recv(uint64(i), s.pieces(i)); err != nil {
			return fmt.Errorf("post receive %d again: %w", i, err)
		}
		if n++; n%half != 0 {
			continue
		}
		if _, err := e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
			return fmt.Errorf("announce receives: %w", err)
		}
		wcs, err := wait(ctx, e.sendCQ, 1)
		if err == nil {
			err = wcs[0].Err()
		}
		if err != nil {
			return fmt.Errorf("announce receives: %w", err)
		}
	}
	return nil
}

// source is the near end of a stream.
type source struct {
	l *link
	*Stream
	total  atomic.Int64 // messages
	credit atomic.Int64 // messages that the far end can receive
	posted atomic.Int64 // requests
	polled atomic.Int64 // requests whose completions were polled
	// changed is signaled when the credit or the polled requests have changed.
	changed chan struct{}
}

// signal wakes post.
func (s *source) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// creditRecvs is the number of receives for announcements. At most two are in flight.
const creditRecvs = 8

// stream sends a stream over the link and waits for its end at both ends. during, if not nil, runs
// until its context ends.
func (l *link) stream(s Stream, during func(ctx context.Context) error) {
	src := &source{l: l, Stream: &s, changed: make(chan struct{}, 1)}
	for i := range creditRecvs {
		l.t.must("post a receive", l.recv(uint64(i), nil))
	}
	l.t.call("Sink", SinkArgs{l.far, s}, &struct{}{})
	src.credit.Store(int64(s.Depth))
	src.total.Store(int64(s.Count))
	ctx, cancel := context.WithCancelCause(l.t.ctx) // the first error ends both ends
	defer cancel(nil)
	far := make(chan error, 1)
	go func() {
		err := l.t.peer.client.Call("Ends.Sunk", l.far, &struct{}{})
		if err != nil {
			cancel(fmt.Errorf("far end: %w", err))
		}
		far <- err
	}()
	err := src.run(ctx, cancel, during)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	l.t.must("stream", err)
	l.t.must("far end of the stream", <-far)
}

// run runs the goroutines of the near end and returns their errors. It calls stop with the first error.
func (s *source) run(ctx context.Context, stop func(error), during func(context.Context) error) error {
	others, end := context.WithCancel(ctx)
	errs := make(chan error, 4)
	start := func(f func(context.Context) error, ctx context.Context) {
		go func() {
			err := f(ctx)
			if err != nil {
				stop(err)
			}
			errs <- err
		}()
	}
	start(s.post, ctx)
	start(s.poll, ctx)
	background := []func(context.Context) error{s.credits}
	if during != nil {
		background = append(background, during)
	}
	for _, f := range background {
		start(f, others)
	}
	err := errors.Join(<-errs, <-errs)
	end()
	for range background {
		err = errors.Join(err, <-errs)
	}
	return err
}

// post posts the requests, in lists of different lengths, while there is room.
func (s *source) post(ctx context.Context) error {
	var list []verbs.SendWR
	requests := int64(1)
	if s.Reads || s.Writes {
		requests = 2
	}
	for n := 0; n < int(s.total.Load()); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.extend(n); err != nil {
			return err
		}
		room := int64(s.l.cfg.Cap.SendWR) - (s.posted.Load() - s.polled.Load())
		most := min(int64(1+n%7), s.credit.Load(), room/requests, s.total.Load()-int64(n))
		if most <= 0 {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		list = list[:0]
		for range most {
			list = s.request(list, n)
			n++
		}
		s.credit.Add(-most)
		for len(list) > 0 {
			k, err := s.l.qp.PostSend(list)
			s.posted.Add(int64(k))
			if err != nil && !full(err) {
				return fmt.Errorf("post message %d: %w", n, err)
			}
			list = list[k:]
		}
	}
	return nil
}

// extend continues the stream at both ends if it has posted n messages, only a few are left, and more returns true.
func (s *source) extend(n int) error {
	const few = 16
	if s.more == nil || int(s.total.Load())-n > few {
		return nil
	}
	if !s.more() {
		s.more = nil
		return nil
	}
	if err := s.l.t.peer.client.Call("Ends.Extend", ExtendArgs{s.l.far, s.Count}, &struct{}{}); err != nil {
		return fmt.Errorf("continue the stream: %w", err)
	}
	s.total.Add(int64(s.Count))
	return nil
}

// isRead is the bit in the IDs of READs.
const isRead = 1 << 32

// request appends the requests of a message.
func (s *source) request(list []verbs.SendWR, n int) []verbs.SendWR {
	at := n % slots * slot
	fillPattern(s.l.mr.Bytes()[at:][:s.size(n)], n)
	if s.Writes { // without a completion of its own
		to := writeArea + n%slots*writeSlot
		fillPattern(s.l.mr.Bytes()[to:][:writeSlot], -n)
		list = append(list, s.l.write(piece{to, writeSlot}, to))
	}
	list = append(list, verbs.SendWR{
		ID: uint64(n), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: s.l.elements(halves(at, s.size(n))),
	})
	if s.Reads {
		from := readArea + n%readSlots*readSlot
		wr := s.l.read(piece{from, 1 + n%readSlot}, from)
		wr.ID, wr.Flags = uint64(n)|isRead, verbs.SendSignaled
		list = append(list, wr)
	}
	return list
}

// halves returns two pieces.
func halves(off, size int) []piece { return []piece{{off, size / 2}, {off + size/2, size - size/2}} }

// poll polls the completions of the requests, compares the data of READs, and erases it.
func (s *source) poll(ctx context.Context) error {
	completions := 1 // of each message
	if s.Reads {
		completions = 2
	}
	next := [2]uint64{}
	var wcs [16]verbs.WC
	for got := 0; got < completions*int(s.total.Load()); {
		n, err := waitSome(ctx, s.l.sendCQ, wcs[:min(len(wcs), completions*int(s.total.Load())-got)])
		if err != nil {
			return fmt.Errorf("request %d: %d posted, %d completed: %w", next[0], s.posted.Load(), s.polled.Load(), err)
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if err := wc.Err(); err != nil {
				return err
			}
			kind := wc.ID / isRead
			if wc.ID%isRead != next[kind] {
				return fmt.Errorf("request %d of kind %d completed, want %d", wc.ID%isRead, kind, next[kind])
			}
			next[kind]++
			if kind == 1 {
				if err := s.compareRead(int(wc.ID % isRead)); err != nil {
					return err
				}
			}
		}
		done := int64(n)
		if s.Writes {
			done *= 2 // the WRITE before each message has also completed
		}
		s.polled.Add(done)
		s.signal()
		got += n
	}
	return nil
}

// compareRead compares the data of a READ.
func (s *source) compareRead(n int) error {
	at := n % readSlots * readSlot
	got := s.l.mr.Bytes()[readArea+at:][:1+n%readSlot]
	want := pattern(readArea, readSlot*readSlots)[at:][:len(got)]
	if !bytes.Equal(got, want) {
		return fmt.Errorf("READ %d: %s", n, difference(got, want))
	}
	clear(got)
	return nil
}

// credits receives the announcements until the stream ends.
func (s *source) credits(ctx context.Context) error {
	var wcs [creditRecvs]verbs.WC
	for {
		n, err := s.l.recvCQ.Wait(ctx, wcs[:])
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				return fmt.Errorf("announcement of receives: %w", err)
			}
			if err := s.l.recv(wcs[i].ID, nil); err != nil {
				return err
			}
			s.credit.Add(int64(s.Depth / 2))
			s.signal()
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
