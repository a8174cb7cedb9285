// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"purerdma/cm"
)

// benchConns makes many connections with package cm's blocking calls, 64 at a time, between two processes
// of this program. It prints the rate, and the resources of each side while the connections are idle.
func benchConns(ctx context.Context, e *env) error {
	server := exec.CommandContext(ctx, e.self, "-conns", strconv.Itoa(e.conns), "-end", "server", netip.AddrPortFrom(e.hosts[0].IPv4, 0).String())
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	lines := bufio.NewReader(out)
	addr, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	client := exec.CommandContext(ctx, e.self, "-conns", strconv.Itoa(e.conns), "-end", "client",
		strings.TrimSpace(addr), netip.AddrPortFrom(e.hosts[1].IPv4, 0).String())
	client.Stderr = os.Stderr
	held, err := client.Output()
	if err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	in.Close() // ends the server
	served, err := io.ReadAll(lines)
	if err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	fmt.Printf("%s%s", held, served)
	return nil
}

// connsEnd is one of the two processes.
func connsEnd(ctx context.Context, role string, conns int, args []string) error {
	if role == "server" {
		return connsServer(ctx, conns, args[0])
	}
	return connsClient(ctx, conns, args[0], args[1])
}

func connsServer(ctx context.Context, conns int, addr string) error {
	unlimited := cm.ListenConfig{MaxConns: -1, MaxConnsPerAddr: -1, MaxPending: -1, MaxPendingPerAddr: -1}
	ln, err := unlimited.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	before := usage()
	fmt.Println(ln.Addr())
	all, err := many(conns, func() (*cm.Conn, error) {
		req, err := ln.Accept(ctx)
		if err != nil {
			return nil, err
		}
		defer req.Close()
		return req.Accept(ctx, nil, nil)
	})
	if err != nil {
		return err
	}
	before.print("server", len(all))
	io.Copy(io.Discard, os.Stdin) // wait until the client has also measured
	closeAll(all)
	return nil
}

func connsClient(ctx context.Context, conns int, addr, from string) error {
	src, err := cm.ParseAddr(from)
	if err != nil {
		return err
	}
	before := usage()
	d := cm.Dialer{LocalAddr: src}
	var mu sync.Mutex
	var each []time.Duration
	start := time.Now()
	all, err := many(conns, func() (*cm.Conn, error) {
		begun := time.Now()
		conn, err := d.Dial(ctx, "tcp", addr)
		mu.Lock()
		defer mu.Unlock()
		each = append(each, time.Since(begun))
		return conn, err
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	slices.Sort(each)
	// The connection manager repeats a lost message only after seconds.
	fmt.Printf("  %d connections, %d dialers at once: %.0f connections per second; a dial took %v in the median, %v at 99%%, %v at most\n",
		conns, dialers, float64(conns)/took.Seconds(), each[len(each)/2].Round(time.Millisecond),
		each[len(each)*99/100].Round(time.Millisecond), each[len(each)-1].Round(time.Millisecond))
	before.print("client", len(all))
	closeAll(all)
	return nil
}

// many makes connections. The number of dialers bounds the simultaneous ones.
func many(conns int, make func() (*cm.Conn, error)) ([]*cm.Conn, error) {
	var (
		mu   sync.Mutex
		all  []*cm.Conn
		errs []error
		wg   sync.WaitGroup
	)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		conns--
		return conns >= 0 && len(errs) == 0
	}
	for range dialers {
		wg.Go(func() {
			for next() {
				c, err := make()
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					all = append(all, c)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

func closeAll(conns []*cm.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// held has the resources of a process.
type held struct{ heap, stacks uint64 }

func usage() held {
	runtime.GC()
	runtime.GC() // frees the memory that finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{m.HeapAlloc, m.StackInuse}
}

// print prints the increase for each connection.
func (before held) print(who string, conns int) {
	time.Sleep(time.Second) // let it become idle
	now := usage()
	each := func(a, b uint64) float64 { return (float64(b) - float64(a)) / float64(conns) / 1024 }
	fmt.Printf("  %s: %.1f KiB of heap and %.1f KiB of stack per idle connection, %d threads (GOMAXPROCS %d)\n", who,
		each(before.heap, now.heap), each(before.stacks, now.stacks), threads(), runtime.GOMAXPROCS(0))
}

// threads reads the number of the process's threads.
func threads() int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if n, found := strings.CutPrefix(line, "Threads:"); found {
			count, _ := strconv.Atoi(strings.TrimSpace(n))
			return count
		}
	}
	return -1
}
