// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"purerdma/cmd/internal/version"
	"purerdma/test/microvm/guest"
	"purerdma/test/microvm/host"
)

func main() {
	guest.Main() // does not return in a virtual machine
	os.Exit(run(os.Args[1:]))
}

// run runs rdmavm on the host and returns the exit status.
func run(args []string) int {
	if version.Requested(args) {
		if err := version.Print(os.Stdout); err != nil {
			return fail(err)
		}
		return 0
	}
	f, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return fail(err)
	}
	o := &f.Options
	o.Stdout, o.Stderr = os.Stdout, os.Stderr
	if !o.Headers { // the input cannot be divided between several programs
		o.Stdin = os.Stdin
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	o.Signals = signals
	if f.prepare {
		return prepare(o)
	}
	if f.terminal {
		restore := useTerminal(o)
		defer restore()
	}
	status, err := host.Run(context.Background(), o)
	if sig, ok := errors.AsType[*host.SignalError](err); ok {
		fmt.Fprintln(os.Stderr, "rdmavm:", err)
		return sig.Status()
	}
	if err != nil {
		return fail(err)
	}
	return status
}

// prepare only fetches the requirements of runs with these options.
func prepare(o *host.Options) int {
	o.Refresh = true
	if err := host.Prepare(context.Background(), o); err != nil {
		return fail(err)
	}
	return 0
}

// fail prints a failure of rdmavm itself.
func fail(err error) int {
	fmt.Fprintln(os.Stderr, "rdmavm:", err)
	return host.Status
}
