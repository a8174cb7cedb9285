// SPDX-License-Identifier: Apache-2.0

// Rping connects two hosts with RDMA and bounces data between them: the rping of
// rdma-core, with its flags, output and protocol, so that either side may be
// that program.
//
// For each ping the client names a buffer to the server (address, key, length),
// the server reads it by RDMA READ and says so; the client names a second
// buffer, the server writes the data into that by RDMA WRITE and says so.
package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Exit statuses, those of the C program: an errno for bad usage, otherwise -1,
// or a negative code of getaddrinfo(3), of which the shell sees one byte.
const (
	statusOK        = 0
	statusNoDevice  = 19  // ENODEV
	statusUsage     = 22  // EINVAL
	statusFailed    = 255 // -1
	statusNoName    = 254 // EAI_NONAME
	statusTryAgain  = 253 // EAI_AGAIN
	statusSignalled = 128
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	var caught atomic.Int32
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		sig := <-signals
		if s, ok := sig.(syscall.Signal); ok {
			caught.Store(int32(s))
		}
		signal.Stop(signals) // a second one ends the program at once
		cancel()
	}()
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if s := caught.Load(); s != 0 && ctx.Err() != nil {
		status = statusSignalled + int(s)
	}
	os.Exit(status)
}

// run is the program. It ends with ctx.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := &ui{out: stdout, err: stderr}
	opt, status := parse(args, u, func(host string) (netip.Addr, error) { return lookup(ctx, host) })
	if opt == nil {
		return status
	}
	var err error
	switch {
	case !opt.server:
		err = runClient(ctx, opt, u)
	case opt.persistent:
		err = runPersistentServer(ctx, opt, u)
	default:
		err = runServer(ctx, opt, u)
	}
	if werr := u.failure(); werr != nil {
		err = errors.Join(err, werr)
	}
	if err == nil {
		return statusOK
	}
	if ctx.Err() == nil {
		u.fail(err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return statusNoDevice
	}
	return statusFailed
}

// lookup finds the address of a host as getaddrinfo(3) does: the first one.
func lookup(ctx context.Context, host string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip, nil
	}
	if host == "" {
		return netip.Addr{}, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return ips[0].Unmap(), nil
}
