// SPDX-License-Identifier: Apache-2.0

// Demo runs rping in four pairings, with the Go program and rdma-core's on either side. It uses
// IPv4 and IPv6 and several sizes of data, and prints a table.
//
//	demo -rping bin/rping
//
// It runs in the virtual machine of rdmavm -hosts 2, or on a host with RDMA devices. Its exit
// status is 0 if every pairing succeeded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"purerdma/test/pairing"
)

const deviceFile = "/dev/infiniband/rdma_cm"

func main() {
	rping := flag.String("rping", "bin/rping", "our rping")
	c := flag.String("c", "rping", "rdma-core's rping")
	count := flag.Int("count", 10, "pings in each run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rping, *c, *count); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rping, c string, count int) error {
	ours, theirs, paths, err := look(rping, c)
	if err != nil {
		return err
	}
	goRping, cRping := pairing.Program{Name: "Go", Path: ours}, pairing.Program{Name: "C", Path: theirs}
	fmt.Printf("%-7s %-7s %-14s %6s %6s %8s  %s\n", "server", "client", "address", "bytes", "pings", "seconds", "data")
	failed := 0
	var errs []error
	for _, pair := range [][2]pairing.Program{{goRping, goRping}, {goRping, cRping}, {cRping, goRping}, {cRping, cRping}} {
		for _, path := range paths {
			for _, size := range []int{64, 4096, 65535} {
				r := pairing.Run{Server: pair[0], Client: pair[1], Addr: path.Server, Source: path.Client, Size: size, Count: count}
				start := time.Now()
				err := r.Do(ctx)
				verdict := "verified"
				if err != nil {
					verdict = "FAILED"
					failed++
					errs = append(errs, err)
				}
				fmt.Printf("%-7s %-7s %-14s %6d %6d %8.2f  %s\n",
					pair[0].Name, pair[1].Name, path.Server, size, count, time.Since(start).Seconds(), verdict)
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	for _, err := range errs {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
	}
	if failed > 0 {
		return fmt.Errorf("%d runs failed", failed)
	}
	fmt.Println("All data arrived as it was sent, in all four pairings.")
	return nil
}

// look finds the requirements of the demo, and reports all missing ones.
func look(rping, c string) (ours, theirs string, paths []pairing.Path, err error) {
	var missing []error
	need := func(what string, err error, help string) {
		if err != nil {
			missing = append(missing, fmt.Errorf("%s: %w: %s", what, err, help))
		}
	}
	if ours, err = filepath.Abs(rping); err == nil {
		_, err = os.Stat(ours)
	}
	need("our rping", err, "make build makes it")
	theirs, err = exec.LookPath(c)
	need("rdma-core's rping", err, "install the packages rdmacm-utils and ibverbs-providers")
	_, err = os.Stat(deviceFile)
	need("the connection manager", err, "load the kernel modules ib_uverbs and rdma_ucm, in this order")
	paths, err = pairing.Paths()
	need("a device", err, "load the driver of the network card, or make one with: rdma link add rxe0 type rxe netdev NAME")
	return ours, theirs, paths, errors.Join(missing...)
}
