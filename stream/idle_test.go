// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// idleVariable makes the test program run idleChild. Its value is a machine and a number of connections.
const idleVariable = "STREAM_TEST_IDLE"

// idleMachines has the fake kernels that idleChild uses.
var idleMachines = map[string]func() uverbs.Kernel{
	"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
	"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
}

// idleCost is the cost of idle connections, for one side of one connection. The sizes are in bytes. The Go heap is
// counted without the memory of the fake kernel.
type idleCost struct {
	QP         int // Go heap for a QP without a connection
	Heap       int // Go heap, with the QP.
	Stack      int // Go stacks
	Registered int // memory of the pools without the receives
	Receives   int // memory of the receives that a connection reserves in the SRQ.
	CQ         int // memory of the CQs, whose entries have 64 bytes
	Goroutines float64
	Threads    int // of the process
}

// TestIdleConnections measures idle connections that have transferred data, with the default options. It makes a
// thousand on rxe, or 10,000 on each machine in the long tests. One side of a connection costs at most 16 KiB of heap,
// stack and registered memory beyond its QP and its receives in the SRQ. It has one goroutine. No connection needs a
// thread.
func TestIdleConnections(t *testing.T) {
	conns, names := 1000, []string{"rxe"}
	if longtest.Enabled() {
		conns, names = 10_000, []string{"rxe", "mlx5"}
	}
	most := 16 << 10
	if raceDetector {
		most += 4 << 10 // for larger stacks
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0]) // the process of the tests records where each object was made
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", idleVariable, name, conns))
			cmd.Stderr = os.Stderr
			start := time.Now()
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("child: %v\n%s", err, out)
			}
			var cost idleCost
			if err := json.Unmarshal(out, &cost); err != nil {
				t.Fatalf("output of the child = %q: %v", out, err)
			}
			sum := cost.Heap - cost.QP + cost.Stack + cost.Registered
			t.Logf("%d connections, %v: %d bytes, %+v", conns, time.Since(start).Round(time.Millisecond), sum, cost)
			for _, c := range []struct {
				name       string
				size, most int
			}{
				{"heap beyond the QP, stack and registered memory", sum, most},
				{"receives", cost.Receives, stream.BaseWindow*stream.DefaultSlot + 256}, // the first connections may have a frame
				{"CQs", cost.CQ, 9 << 10}, // mlx5 has room for 128 sends of each
			} {
				if c.size > c.most {
					t.Errorf("%s = %d bytes, want at most %d: %+v", c.name, c.size, c.most, cost)
				}
			}
			if cost.Goroutines > 1.01 { // a few belong to all connections
				t.Errorf("goroutines = %.3f for each side of a connection, want at most 1", cost.Goroutines)
			}
			if most := runtime.GOMAXPROCS(0) + 8; cost.Threads > most {
				t.Errorf("threads = %d, want at most %d", cost.Threads, most)
			}
		})
	}
}

// idleChild prints the cost of idle connections.
func idleChild(arg string) int {
	runtime.MemProfileRate = 1 // for heapOfFakes
	cost, err := measureIdle(arg)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(cost)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func measureIdle(arg string) (cost idleCost, err error) {
	name, number, _ := strings.Cut(arg, " ")
	conns, err := strconv.Atoi(number)
	if err != nil || idleMachines[name] == nil {
		return cost, fmt.Errorf("argument %q: %w", arg, err)
	}
	k := cmtest.New(idleMachines[name]())
	if cost.QP, err = heapOfQP(k.Host(), conns); err != nil {
		return cost, err
	}

	config := stream.SharedConfig{Depth: stream.BaseWindow * (conns + 1)}
	s, d := stream.NewShared(config), stream.NewShared(config)
	defer s.Close()
	defer d.Close()
	lc := stream.ListenConfig{Options: stream.Options{Shared: s}, CM: cm.ListenConfig{Host: k.Host(), MaxConns: -1, MaxConnsPerAddr: -1}}
	ln, err := lc.Listen(context.Background(), "tcp", server)
	if err != nil {
		return cost, err
	}
	defer ln.Close()
	dialer := stream.Dialer{Options: stream.Options{Shared: d}, CM: cm.Dialer{Host: k.Host()}}
	first, err := useIdle(ln, &dialer) // the devices are open, and the pools are filled
	if err != nil {
		return cost, err
	}
	defer func() { streamconntest.Abort(first[0]); streamconntest.Abort(first[1]) }()
	inUse := inUseOf(first)
	heap, stack := memory()
	goroutines := runtime.NumGoroutine()
	open := [][2]*stream.Conn{}
	defer func() {
		for _, both := range open {
			streamconntest.Abort(both[0])
			streamconntest.Abort(both[1])
		}
	}()
	for range conns {
		both, err := useIdle(ln, &dialer)
		if err != nil {
			return cost, fmt.Errorf("connection %d: %w", len(open), err)
		}
		open = append(open, both)
	}
	if err := returned(open); err != nil {
		return cost, err
	}
	sides := 2 * conns
	// Goroutines of the handshakes may still be ending.
	for end := time.Now().Add(streamconntest.Limit); runtime.NumGoroutine()-goroutines > sides+sides/100 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	cost.Goroutines = float64(runtime.NumGoroutine()-goroutines) / float64(sides)
	heapNow, stackNow := memory()
	cost.Heap, cost.Stack = (heapNow-heap)/sides, (stackNow-stack)/sides
	cost.Registered = (inUseOf(first) - inUse) / sides
	cost.Receives = (inUse - 2*cost.Registered) / (sides + 2)
	for i := range 2 {
		cqs := map[*verbs.CQ]bool{}
		for _, both := range open {
			qp := both[i].QP()
			cqs[qp.SendCQ()], cqs[qp.RecvCQ()] = true, true
		}
		for cq := range cqs {
			const entry = 64 // of rxe, siw and mlx5
			cost.CQ += cq.Entries() * entry / sides
		}
	}
	cost.Threads, err = vmtest.Threads()
	return cost, err
}

// inUseOf returns the bytes in use of the pools of both sides.
func inUseOf(both [2]*stream.Conn) int {
	return both[0].Pool().Stats().InUse + both[1].Pool().Stats().InUse
}

// returned waits until all connections have returned the credits beyond their base. They have no timers then.
func returned(open [][2]*stream.Conn) error {
	end := time.Now().Add(streamconntest.Limit)
	for i, both := range open {
		for _, c := range both {
			for c.Window() > stream.BaseWindow {
				if time.Now().After(end) {
					return fmt.Errorf("window of idle connection %d = %d, want %d", i, c.Window(), stream.BaseWindow)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	return nil
}

// heapOfQP returns the memory of the Go heap for a QP with the capacities of a connection's, in bytes. The
// QPs use an SRQ and a CQ together.
func heapOfQP(host *verbs.Host, qps int) (bytes int, err error) {
	devices, err := host.Devices()
	if err != nil {
		return 0, err
	}
	dev, err := host.Open(devices[0].Name)
	if err != nil {
		return 0, err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return 0, err
	}
	defer pd.Close()
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		return 0, err
	}
	defer cq.Close()
	srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxSGE: 1})
	if err != nil {
		return 0, err
	}
	defer srq.Close()
	open := make([]*verbs.QP, qps)
	before, _ := memory()
	for i := range open {
		if open[i], err = pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: stream.QPCap()}); err != nil {
			return 0, err
		}
	}
	after, _ := memory()
	for _, qp := range open {
		if err := qp.Close(); err != nil {
			return 0, err
		}
	}
	return (after - before) / qps, nil
}

// useIdle makes a connection and sends a byte in both directions.
func useIdle(ln net.Listener, d *stream.Dialer) (both [2]*stream.Conn, err error) {
	c, err := d.DialContext(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		return both, err
	}
	s, err := ln.Accept()
	if err != nil {
		return both, errors.Join(err, c.Close())
	}
	both = [2]*stream.Conn{c.(*stream.Conn), s.(*stream.Conn)}
	for i := range both {
		if _, err := both[i].Write([]byte{1}); err != nil {
			return both, err
		}
		if _, err := io.ReadFull(both[1-i], make([]byte, 1)); err != nil {
			return both, err
		}
	}
	return both, nil
}

// memory returns the used bytes of the Go heap, without the memory of the fake kernels, and of the stacks.
func memory() (heap, stack int) {
	for range 5 { // each shrinks stacks by half, and frees the objects that finalizers have released
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) - heapOfFakes(), int(m.StackInuse)
}

// fakes are the packages of the fake kernels.
var fakes = []string{
	"purerdma/cm/cmtest.", "purerdma/internal/fakeuverbs.", "purerdma/provider/mlx5/mlx5test.", "purerdma/test/connectx",
	"purerdma/uverbs/uverbstest.",
}

// heapOfFakes returns the used bytes of the Go heap that the fake kernels have allocated.
func heapOfFakes() (bytes int) {
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, false); !ok; n, ok = runtime.MemProfile(records, false) {
		records = make([]runtime.MemProfileRecord, n+50)
	}
	for _, r := range records {
		if slices.ContainsFunc(fakes, func(name string) bool { return calledFrom(r.Stack(), name) }) {
			bytes += int(r.InUseBytes())
		}
	}
	return bytes
}

// calledFrom reports whether a stack has a function whose name has the prefix.
func calledFrom(stack []uintptr, prefix string) bool {
	frames := runtime.CallersFrames(stack)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, prefix) {
			return true
		}
	}
	return false
}
