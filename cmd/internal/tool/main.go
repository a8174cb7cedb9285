// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"purerdma/cmd/internal/version"
)

// statusSignalled is added to the number of the signal that ended a program, as in a shell.
const statusSignalled = 128

// Program is a whole program. It ends with ctx and returns its exit status.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Main runs a program with the process's arguments and exits with its status. SIGINT or SIGTERM
// ends the context. A second signal ends the process at once. If -version is the only argument,
// Main prints the version instead.
func Main(run Program) {
	if version.Requested(os.Args[1:]) {
		if err := version.Print(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var caught atomic.Int32
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		sig := <-signals
		if s, ok := sig.(syscall.Signal); ok {
			caught.Store(int32(s))
		}
		signal.Stop(signals)
		cancel()
	}()
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if s := caught.Load(); s != 0 && ctx.Err() != nil {
		status = statusSignalled + int(s)
	}
	os.Exit(status)
}
