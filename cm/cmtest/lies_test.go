// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/verbs"
)

// eventLies holds functions that falsify an event of the connection manager.
var eventLies = map[string]func(*abi.UcmEventResp){
	"UID of no ID":              func(ev *abi.UcmEventResp) { ev.UID = 1 << 40 },
	"UID 0":                     func(ev *abi.UcmEventResp) { ev.UID = 0 },
	"UID 1":                     func(ev *abi.UcmEventResp) { ev.UID = 1 },
	"ID + 1000":                 func(ev *abi.UcmEventResp) { ev.ID += 1000 },
	"ID 0":                      func(ev *abi.UcmEventResp) { ev.ID = 0 },
	"unknown type":              func(ev *abi.UcmEventResp) { ev.Event = 1<<32 - 1 },
	"CONNECT_REQUEST":           func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_CONNECT_REQUEST },
	"CONNECT_RESPONSE":          func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_CONNECT_RESPONSE },
	"DISCONNECTED":              func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_DISCONNECTED },
	"DEVICE_REMOVAL":            func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_DEVICE_REMOVAL },
	"MULTICAST_JOIN":            func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_MULTICAST_JOIN },
	"ESTABLISHED":               func(ev *abi.UcmEventResp) { ev.Event = abi.RDMA_CM_EVENT_ESTABLISHED },
	"lowest status":             func(ev *abi.UcmEventResp) { ev.Status = 1 << 31 },
	"256 bytes of private data": func(ev *abi.UcmEventResp) { fill(ev.Param[:], 0xff) },
	"parameters of zeros":       func(ev *abi.UcmEventResp) { fill(ev.Param[:], 0) },
	"only the type":             func(ev *abi.UcmEventResp) { *ev = abi.UcmEventResp{Event: ev.Event} },
	"all bits 1":                func(ev *abi.UcmEventResp) { fill(abi.Bytes(ev), 0xff) },
	"all bits 0":                func(ev *abi.UcmEventResp) { fill(abi.Bytes(ev), 0) },
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// words holds the numbers that a liar puts into its answers.
var words = []uint32{0, 1, 2, 3, 7, 16, 255, 256, 0xffff, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1}

// liesAbout returns a function that changes the nth answer to the commands with a name.
func liesAbout(name string, nth int, change func(answer)) func(answer) {
	var mu sync.Mutex
	return func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		if a.Name != name {
			return
		}
		if nth--; nth == 0 {
			change(a)
		}
	}
}

// TestLiesInEvents changes one event at a time in the life of a connection.
func TestLiesInEvents(t *testing.T) {
	drivers := []string{"rxe"}
	if longtest.Enabled() {
		drivers = append(drivers, "siw") // the end of a flushed connection waits for its event
	}
	for name, lie := range eventLies {
		for nth := 1; nth <= 3; nth++ { // each side of a connection gets three events
			for _, machine := range drivers {
				testLies(t, machine, fmt.Sprintf("event %d, %s", nth, name), func() func(answer) {
					return liesAbout("GET_EVENT", nth, func(a answer) { lie(abi.View[abi.UcmEventResp](a.buf)) })
				})
			}
		}
	}
}

// randomLies returns a function that changes answers at random. It changes a byte, a word, or
// the whole answer, or it repeats an earlier answer to the same command. A repeated answer
// makes it look as if the kernel had created the same object again.
func randomLies(seed uint64) func(answer) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	often := 3 + r.IntN(40)
	earlier := map[string][]byte{}
	return func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		if a.handle != nil {
			if r.IntN(often) == 0 {
				*a.handle = uint64(words[r.IntN(len(words))])
			}
			return
		}
		key := fmt.Sprint(a.Command, len(a.buf))
		before := earlier[key]
		earlier[key] = append([]byte(nil), a.buf...)
		if len(a.buf) < 4 || r.IntN(often) > 0 {
			return
		}
		switch r.IntN(8) {
		case 0:
			fill(a.buf, 0)
		case 1:
			fill(a.buf, 0xff)
		case 2:
			copy(a.buf, before)
		case 3, 4:
			a.buf[r.IntN(len(a.buf))] ^= byte(1 + r.IntN(255))
		default:
			*abi.View[uint32](a.buf[r.IntN(len(a.buf)/4)*4:]) = words[r.IntN(len(words))]
		}
	}
}

// TestRandomLies changes answers to all commands of the connection manager and of the devices.
func TestRandomLies(t *testing.T) {
	rounds := uint64(15)
	if longtest.Enabled() {
		rounds = 1000
	}
	for seed := range rounds {
		for machine := range machines {
			testLies(t, machine, fmt.Sprintf("seed %d", seed), func() func(answer) { return randomLies(seed) })
		}
	}
}

// lyingLife bounds the life of a connection whose events may have been falsified.
const lyingLife = 30 * time.Millisecond

// testLies puts first one side of a connection and then the other on a kernel that lies.
// Nothing panics or hangs, and errors name the failed operation. A connection between honest
// hosts keeps working. Nothing is left open after the removal of the devices.
func testLies(t *testing.T, machine, what string, lies func() func(answer)) {
	for _, side := range []string{"client", "server"} {
		what := fmt.Sprintf("%s, %s of %s", what, side, machine)
		before := restNow()
		k := cmtest.New(machines[machine]())
		ln, one, other := pair(t, k)
		server, client := k.Host(), (&liar{k, lies()}).host()
		if side == "server" {
			server, client = client, server
		}
		ctx, cancel := context.WithTimeout(t.Context(), lyingLife)
		dialed, served := life(ctx, server, client)
		cancel()
		for _, err := range []error{dialed, served} {
			if err != nil && !named(err) {
				t.Errorf("%s: error %v does not name its operation", what, err)
			}
		}
		if err := message(deadline(t), one, other); err != nil {
			t.Errorf("%s: message on the connection of honest hosts: %v", what, err)
		}
		for _, c := range []io.Closer{one, other, ln} {
			if err := c.Close(); err != nil {
				t.Errorf("%s: Close by an honest host: %v", what, err)
			}
		}
		devs, err := k.Devices()
		if err != nil {
			t.Fatalf("Devices: %v", err)
		}
		for _, d := range devs {
			k.Remove(d.Name)
		}
		if left := waitUntilNone(func() []string { return unfinished(k, before) }); len(left) > 0 {
			t.Fatalf("%s (client: %v; server: %v): left %q, want nothing\n%s", what, dialed, served, left, stacks())
		}
	}
}

// message sends a message from one end of a connection to the other.
func message(ctx context.Context, from, to *cm.Conn) error {
	dst, err := to.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer dst.Close()
	src, err := from.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := to.PostRecv(1, dst.SGE()); err != nil {
		return err
	}
	if err := from.Send(ctx, src.Slice(0, copy(src.Bytes(), "message"))); err != nil {
		return err
	}
	wc, err := to.WaitRecv(ctx)
	if got := string(dst.Bytes()[:wc.ByteLen]); err == nil && got != "message" {
		return fmt.Errorf("received %q", got)
	}
	return err
}
