// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// idleConns is how many connections idleChild holds.
const idleConns = 50

// idleChild makes connections, and says what each has of the heap, and how many threads
// came when all waited for receives. It is a process of its own because
// the tests' keeps note of where each object was made.
func idleChild() int {
	each, threads, err := idle(os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(each, threads)
	return 0
}

func idle(arg string) (each int64, threads int, err error) {
	from, to, _ := strings.Cut(arg, " ")
	d := cm.Dialer{LocalAddr: mustParse(from + ":0")}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var conns []*cm.Conn
	dial := func(n int) error {
		for range n {
			conn, err := d.Dial(ctx, "tcp", to)
			if err != nil {
				return err
			}
			conns = append(conns, conn)
		}
		return nil
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what finalizers let go of
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	if err := dial(10); err != nil { // the device is open, and what serves again is made
		return 0, 0, err
	}
	before := heap()
	if err := dial(idleConns); err != nil {
		return 0, 0, err
	}
	each = (heap() - before) / idleConns
	if threads, err = vmtest.Threads(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error)
	for _, conn := range conns {
		go func() {
			_, err := conn.WaitRecv(ctx)
			ended <- err
		}()
	}
	select {
	case err := <-ended:
		return 0, 0, fmt.Errorf("a wait ended, before anything came: %w", err)
	case <-time.After(200 * time.Millisecond):
	}
	after, err := vmtest.Threads()
	return each, after - threads, err
}

// TestIdleConnections: a connection has less than 8 KiB of the heap, and no thread
// though it waits.
func TestIdleConnections(t *testing.T) {
	limit := int64(8 << 10)
	if vmtest.Driver() == "mlx5" {
		limit = 20 << 10 // it keeps account of each of the 256 requests that fit
	}
	ln, dialer := ends(t)
	go echo(ln)
	_, said := spawn(t, "idle", dialer.LocalAddr.Addr().String()+" "+ln.Addr().String())
	var each int64
	var threads int
	if _, err := fmt.Sscan(said, &each, &threads); err != nil {
		t.Fatal(said)
	}
	t.Logf("%d bytes of the heap for a connection, %d threads for %d", each, threads, idleConns)
	if each > limit {
		t.Errorf("%d bytes of the heap for a connection, want at most %d", each, limit)
	}
	if threads > idleConns/4 {
		t.Errorf("%d threads for %d connections", threads, idleConns)
	}
}
