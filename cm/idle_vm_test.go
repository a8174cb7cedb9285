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

// idleChild makes connections that wait for receives, and says what each has of the
// heap, and how many threads came with all of them. It is a process of its own because
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
	ended := make(chan error)
	dial := func() error {
		conn, err := d.Dial(ctx, "tcp", to)
		if err == nil {
			go func() {
				_, err := conn.WaitRecv(ctx)
				ended <- err
			}()
		}
		return err
	}
	if err := dial(); err != nil { // the device is open, and what serves again is made
		return 0, 0, err
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what finalizers let go of
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	if threads, err = vmtest.Threads(); err != nil {
		return 0, 0, err
	}
	for range idleConns {
		if err := dial(); err != nil {
			return 0, 0, err
		}
	}
	select {
	case err := <-ended:
		return 0, 0, fmt.Errorf("a wait ended, before anything came: %w", err)
	case <-time.After(200 * time.Millisecond):
	}
	after, err := vmtest.Threads()
	return (heap() - before) / idleConns, after - threads, err
}

// TestIdleConnections: a connection that waits for a receive has less than 8 KiB of the
// heap, and no thread.
func TestIdleConnections(t *testing.T) {
	ln, dialer := ends(t)
	go echo(ln)
	_, said := spawn(t, "idle", dialer.LocalAddr.Addr().String()+" "+ln.Addr().String())
	var each int64
	var threads int
	if _, err := fmt.Sscan(said, &each, &threads); err != nil {
		t.Fatal(said)
	}
	t.Logf("%d bytes of the heap for a connection, %d threads for %d", each, threads, idleConns)
	if each > 8<<10 {
		t.Errorf("%d bytes of the heap for a connection, want at most 8 KiB", each)
	}
	if threads > idleConns/4 {
		t.Errorf("%d threads for %d connections", threads, idleConns)
	}
}
