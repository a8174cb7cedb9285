// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/longtest"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// eventFiles is a kernel to whose event files the test can also write.
type eventFiles struct {
	uverbs.Kernel
	mu          sync.Mutex
	completions []int // writing ends
	async       []int
}

func (k *eventFiles) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return eventTransport{t, k}, err
}

// close closes the test's ends of the files.
func (k *eventFiles) close() {
	for _, fd := range append(k.completions, k.async...) {
		unix.Close(fd)
	}
}

type eventTransport struct {
	uverbs.Transport
	k *eventFiles
}

func (t eventTransport) Ioctl(req *uverbs.Request) error {
	err := t.Transport.Ioctl(req)
	if err != nil {
		return err
	}
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	switch req.Name() {
	case "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL":
		resp := abi.View[abi.UverbsCreateCompChannelResp](req.Find(abi.UVERBS_ATTR_CORE_OUT).Buf)
		return writer(&t.k.completions, uint64(resp.FD))
	case "UVERBS_METHOD_ASYNC_EVENT_ALLOC":
		return writer(&t.k.async, req.Find(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).Value)
	}
	return nil
}

// writer adds the writing end of a pipe whose reading end is fd. As with the kernel's files, a
// read returns one event.
func writer(to *[]int, fd uint64) error {
	w, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	*to = append(*to, w)
	_, err = unix.FcntlInt(uintptr(w), unix.F_SETFL, unix.O_DIRECT|unix.O_NONBLOCK)
	return err
}

// listen opens the event files of a route for writing by the test.
func listen(t *testing.T, rt *route) *eventFiles {
	k := &eventFiles{Kernel: rt.h.Kernel}
	rt.h.Kernel = k
	t.Cleanup(k.close)
	return k
}

// spuriousHandle returns the user handle of an object of any kind, or a handle without an
// object.
func spuriousHandle(r *rand.Rand) uint64 {
	if r.IntN(4) > 0 {
		return uint64(r.IntN(6))
	}
	return []uint64{1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1}[r.IntN(4)]
}

// TestSpuriousEvents has the kernel report events of unknown types, and completions and
// asynchronous events of objects that do not exist or have none. Messages must still arrive,
// and an asynchronous event may only name an object of its own kind.
func TestSpuriousEvents(t *testing.T) {
	messages := 200
	if longtest.Enabled() {
		messages = 20_000
	}
	for name, newRoute := range map[string]func() *route{"rxe": fakeRoute, "mlx5": func() *route { return mlx5Route(t) }} {
		t.Run(name, func(t *testing.T) {
			rt := newRoute()
			files := listen(t, rt)
			a, b := rt.pair(t, verbs.QPCap{})
			events, err := a.dev.AsyncEvents()
			if err != nil {
				t.Fatalf("Device.AsyncEvents: %v", err)
			}
			closer(t, events)
			ctx, stop := context.WithCancel(t.Context())
			var lying sync.WaitGroup
			lying.Go(func() { files.lie(ctx, rand.New(rand.NewPCG(1, 2))) })
			taken := make(chan error, 1)
			go func() { taken <- takeSpurious(t.Context(), events, messages) }()
			for i := range messages {
				if err := oneMessage(t.Context(), a, b, byte(i)); err != nil {
					t.Errorf("message %d: %v", i, err)
					break
				}
			}
			if err := <-taken; err != nil {
				t.Errorf("asynchronous events: %v", err)
			}
			stop()
			lying.Wait()
		})
	}
}

// lie writes events until ctx ends. It omits the two events that end the named object, which
// are the errors of a CQ and of the device.
func (k *eventFiles) lie(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		for _, fd := range k.completions {
			unix.Write(fd, abi.Bytes(&abi.UverbsCompEventDesc{CQHandle: spuriousHandle(r)}))
			if r.IntN(50) == 0 {
				unix.Write(fd, make([]byte, 1+r.IntN(7))) // truncated
			}
		}
		for _, fd := range k.async {
			typ := uverbs.EventType(r.IntN(30))
			if typ != verbs.AsyncCQErr && typ != verbs.AsyncDeviceFatal {
				unix.Write(fd, abi.Bytes(&abi.UverbsAsyncEventDesc{Element: spuriousHandle(r), EventType: uint32(typ)}))
			}
			if r.IntN(50) == 0 {
				unix.Write(fd, make([]byte, 1+r.IntN(15))) // truncated
			}
		}
		time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
	}
}

// takeSpurious reads n asynchronous events.
func takeSpurious(ctx context.Context, events *verbs.AsyncEvents, n int) error {
	for range n {
		ev, err := events.Next(ctx)
		if err != nil {
			return err
		}
		kind := ev.Type.Element()
		if ev.CQ != nil && kind != uverbs.ElementCQ || ev.QP != nil && kind != uverbs.ElementQP || ev.SRQ != nil && kind != uverbs.ElementSRQ {
			return fmt.Errorf("event %q names an object of another kind", ev)
		}
	}
	return nil
}

// oneMessage sends a byte from one end to the other, and waits on both CQs.
func oneMessage(ctx context.Context, from, to *end, b byte) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	from.buf.Bytes()[0] = b
	if _, err := to.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{to.buf.Slice(64, 64)}}}); err != nil {
		return err
	}
	if _, err := from.qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{from.buf.Slice(0, 1)}}}); err != nil {
		return err
	}
	for _, e := range []*end{to, from} {
		var wc [1]verbs.WC
		if _, err := e.cq.Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	if got := to.buf.Bytes()[64]; got != b {
		return fmt.Errorf("received %d, want %d", got, b)
	}
	return nil
}
