// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// errUnread reports a connection whose first message siw has left in the TCP socket of the accepting side
// (docs/reference/driver-faults.md). siw reads it when the client sends more, which rdma-core's clients do
// not do before they have an answer.
var errUnread = errors.New("siw has left the client's first message unread in the accepting side's TCP socket")

// repeatFaults runs a transfer. It repeats a transfer that met a known fault of siw (errUnread, errOvertaken, errLost).
func repeatFaults(t *testing.T, transfer func(context.Context) error) error {
	t.Helper()
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		watched := unreadCancels(ctx, t)
		err := transfer(watched)
		if err != nil && context.Cause(watched) == errUnread {
			err = fmt.Errorf("%w\n%w", errUnread, err)
		}
		cancel()
		known := errors.Is(err, errUnread) || errors.Is(err, errOvertaken) || errors.Is(err, errLost)
		if !known || attempt == maxAttempts {
			return err
		}
		t.Log(err)
	}
}

// unreadLimit is the time after which siw no longer reads unread bytes. It reads bytes when they arrive. A Go
// client sends a probe after a second.
const unreadLimit = 5 * time.Second

// maxAttempts bounds the attempts of a transfer that meets faults of siw.
const maxAttempts = 10

// unreadCancels returns a context that ends with the cause errUnread when siw no longer reads the bytes of
// a client. On other drivers it is ctx.
func unreadCancels(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	if vmtest.Driver() != "siw" {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	server := vmtest.Hosts(t, 2)[0]
	go watchUnread(ctx, []netip.Addr{server.IPv4, server.IPv6}, cancel)
	return ctx
}

// watchUnread calls cancel with errUnread when a socket of the server's addresses has had the same number of
// unread bytes for unreadLimit.
func watchUnread(ctx context.Context, server []netip.Addr, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(unreadLimit / 20)
	defer tick.Stop()
	since := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			table, _ := os.ReadFile("/proc/net/tcp")
			table6, _ := os.ReadFile("/proc/net/tcp6")
			unread := map[string]time.Time{}
			for _, s := range unreadSockets(string(table)+string(table6), server) {
				first, known := since[s]
				switch {
				case !known:
					first = now
				case now.Sub(first) > unreadLimit:
					cancel(errUnread)
					return
				}
				unread[s] = first
			}
			since = unread
		}
	}
}

// TestWatchUnread sends bytes to a TCP socket that does not read.
func TestWatchUnread(t *testing.T) {
	host := vmtest.Hosts(t, 2)[0]
	for _, server := range []netip.Addr{host.IPv4, host.IPv6} {
		t.Run(server.String(), func(t *testing.T) { testWatchUnread(t, server) })
	}
}

func testWatchUnread(t *testing.T, server netip.Addr) {
	ln, err := net.Listen("tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("unread")); err != nil {
		t.Fatalf("conn.Write: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), preloadLimit)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	watchUnread(ctx, []netip.Addr{server}, cancel)
	if err := context.Cause(ctx); err != errUnread {
		t.Errorf("Cause() = %v, want %v", err, errUnread)
	}
}

// unreadSockets returns the established sockets of local addresses that have unread bytes, with the addresses
// and the number of bytes. table is the content of /proc/net/tcp or /proc/net/tcp6 of a little-endian host.
func unreadSockets(table string, local []netip.Addr) (found []string) {
	var names []string
	for _, a := range local {
		names = append(names, socketAddress(a))
	}
	for line := range strings.Lines(table) {
		const localAddr, remoteAddr, state, queues = 1, 2, 3, 4 // columns
		f := strings.Fields(line)
		if len(f) <= queues || f[state] != "01" {
			continue
		}
		if address, _, _ := strings.Cut(f[localAddr], ":"); !slices.Contains(names, address) {
			continue
		}
		if _, rx, _ := strings.Cut(f[queues], ":"); rx != "00000000" {
			found = append(found, f[localAddr]+" "+f[remoteAddr]+" "+rx)
		}
	}
	return found
}

// socketAddress returns an address as in the kernel's table, where each word of 32 bits is little-endian.
func socketAddress(a netip.Addr) string {
	b := a.AsSlice()
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	return strings.ToUpper(hex.EncodeToString(b))
}

func TestUnreadSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100080A:9493 00000000:0000 0A 00000000:00000001 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0100080A:9493 0201080A:A93E 01 00000000:00000074 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   2: 0100080A:9493 0201080A:A93F 01 00000074:00000000 00:00000000 00000000     0        0 4244 1 0 20 4 30 10 -1
   3: 0201080A:A93E 0100080A:9493 01 00000000:00000010 00:00000000 00000000     0        0 4245 1 0 20 4 30 10 -1
   4: 0100080A:9493 0201080A:A940 08 00000000:00000010 00:00000000 00000000     0        0 4246 1 0 20 4 30 10 -1
`
	const table6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 080000FD000000000000000001000000:4E21 080000FD000000000000000002000000:8594 01 00000000:00000028 00:00000000 00000000     0        0 11060 1 0 20 4 28 10 -1
`
	want := []string{"0100080A:9493 0201080A:A93E 00000074", "080000FD000000000000000001000000:4E21 080000FD000000000000000002000000:8594 00000028"}
	if got := unreadSockets(table+table6, []netip.Addr{netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("fd00:8::1")}); !slices.Equal(got, want) {
		t.Errorf("unreadSockets() = %q, want %q", got, want)
	}
}
