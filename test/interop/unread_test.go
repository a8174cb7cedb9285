// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/hex"
	"errors"
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

// unreadLimit is the time after which siw no longer reads unread bytes. It reads bytes when they arrive. A Go
// client sends a probe after a second.
const unreadLimit = 5 * time.Second

// maxUnread bounds the attempts of a transfer whose connection siw left unread.
const maxUnread = 10

// unreadCancels returns a context that ends with the cause errUnread when siw no longer reads the bytes of
// a client. On other drivers it is ctx.
func unreadCancels(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	if vmtest.Driver() != "siw" {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go watchUnread(ctx, vmtest.Hosts(t, 2)[0].IPv4, cancel)
	return ctx
}

// watchUnread calls cancel with errUnread when a socket of the server's address has had the same number of
// unread bytes for unreadLimit.
func watchUnread(ctx context.Context, server netip.Addr, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(unreadLimit / 20)
	defer tick.Stop()
	since := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			table, _ := os.ReadFile("/proc/net/tcp")
			unread := map[string]time.Time{}
			for _, s := range unreadSockets(string(table), server) {
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
	server := vmtest.Hosts(t, 2)[0].IPv4
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
	watchUnread(ctx, server, cancel)
	if err := context.Cause(ctx); err != errUnread {
		t.Errorf("Cause() = %v, want %v", err, errUnread)
	}
}

// unreadSockets returns the established sockets of a local address that have unread bytes, with the addresses
// and the number of bytes. table is the content of /proc/net/tcp of a little-endian host.
func unreadSockets(table string, local netip.Addr) (found []string) {
	a := local.As4()
	slices.Reverse(a[:])
	address := strings.ToUpper(hex.EncodeToString(a[:])) + ":"
	for line := range strings.Lines(table) {
		const localAddr, remoteAddr, state, queues = 1, 2, 3, 4 // columns
		f := strings.Fields(line)
		if len(f) <= queues || f[state] != "01" || !strings.HasPrefix(f[localAddr], address) {
			continue
		}
		if _, rx, _ := strings.Cut(f[queues], ":"); rx != "00000000" {
			found = append(found, f[localAddr]+" "+f[remoteAddr]+" "+rx)
		}
	}
	return found
}

func TestUnreadSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100080A:9493 00000000:0000 0A 00000000:00000001 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0100080A:9493 0201080A:A93E 01 00000000:00000074 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   2: 0100080A:9493 0201080A:A93F 01 00000074:00000000 00:00000000 00000000     0        0 4244 1 0 20 4 30 10 -1
   3: 0201080A:A93E 0100080A:9493 01 00000000:00000010 00:00000000 00000000     0        0 4245 1 0 20 4 30 10 -1
   4: 0100080A:9493 0201080A:A940 08 00000000:00000010 00:00000000 00000000     0        0 4246 1 0 20 4 30 10 -1
`
	want := []string{"0100080A:9493 0201080A:A93E 00000074"}
	if got := unreadSockets(table, netip.MustParseAddr("10.8.0.1")); !slices.Equal(got, want) {
		t.Errorf("unreadSockets() = %q, want %q", got, want)
	}
}
