// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Faults reproduces driver faults of docs/reference/driver-faults.md. They make a kernel report
// trouble or crash, or they appear only by chance. Tests that share a boot cannot reproduce them:
//
//	faults [-rdmavm bin/rdmavm] [-kernels "6.1 6.12 7"] [-run regexp]
//
// Each fault gets its own virtual machine, in which this program runs again with -provoke and
// provokes the fault. A fault that does not appear fails the run, because its description in
// the document is then out of date.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// fault is a driver fault with the evidence of its appearance.
type fault struct {
	name    string
	driver  string
	kernels []string       // kernels with the fault
	log     *regexp.Regexp // expected in the kernel's log, unless nil.
	says    string         // expected in the output of provoke, if the kernel survives.
	excused bool           // rdmavm prints the report, and does not fail
	provoke func() error
}

// faults lists the reproductions. provoke returns nil if the fault did not appear and the
// program succeeded.
var faults = []fault{
	{
		name: "rxe-invalidate-unbound", driver: "rxe", kernels: []string{"6.1", "6.12", "7"},
		log:     regexp.MustCompile(`rxe_invalidate_mw\+0x`),
		provoke: func() error { return invalidate(false) },
	},
	{
		name: "rxe-invalidate-twice", driver: "rxe", kernels: []string{"6.1", "6.12", "7"},
		log:     regexp.MustCompile(`rxe_invalidate_mw\+0x`),
		provoke: func() error { return invalidate(true) },
	},
	{
		name: "rxe-torn-read", driver: "rxe", kernels: []string{"6.12", "7"},
		log:     regexp.MustCompile(`WARNING: .*rxe_completer`),
		says:    "the READ completed with success, and 1024 of its 3072 bytes were stored",
		provoke: tornRead,
	},
	{
		name: "rxe-late-packets", driver: "rxe", kernels: []string{"7"}, excused: true,
		log:     regexp.MustCompile(`known driver fault .*WARNING: .*rxe_sched_task`),
		provoke: latePackets,
	},
	{
		name: "siw-post-during-flush", driver: "siw", kernels: []string{"6.1", "6.12", "7"},
		says:    "and the queue with an empty slot none",
		provoke: postDuringFlush,
	},
	{
		name: "close-during-removal", driver: "siw", kernels: []string{"7"},
		log:     regexp.MustCompile(`free_gid_work\+0x`),
		provoke: closeDuringRemoval,
	},
}

// rdmavmFailed is rdmavm's exit status when the kernel reported trouble.
const rdmavmFailed = 125

func main() {
	rdmavm := flag.String("rdmavm", "bin/rdmavm", "the `program` that runs the machine")
	kernels := flag.String("kernels", "6.1 6.12 7", "kernel `series`, separated by spaces")
	run := flag.String("run", "", "provoke only the faults that match `regexp`")
	provoke := flag.String("provoke", "", "provoke the fault of that `name` here, in the virtual machine")
	flag.Parse()
	var err error
	if *provoke != "" {
		err = provokeHere(*provoke)
	} else {
		err = provokeAll(*rdmavm, strings.Fields(*kernels), *run)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func provokeHere(name string) error {
	for _, f := range faults {
		if f.name == name {
			return f.provoke()
		}
	}
	return fmt.Errorf("fault %q: unknown", name)
}

// provokeAll boots a virtual machine for each fault and kernel.
func provokeAll(rdmavm string, kernels []string, pattern string) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	appeared, missing := 0, 0
	for _, f := range faults {
		for _, k := range kernels {
			if !match.MatchString(f.name) || !slices.Contains(f.kernels, k) {
				continue
			}
			out, err := boot(ctx, rdmavm, self, f, k)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				missing++
				fmt.Printf("%s on Linux %s: %v\n%s\n", f.name, k, err, out)
				continue
			}
			appeared++
			fmt.Printf("%s on Linux %s: appeared\n", f.name, k)
		}
	}
	fmt.Printf("%d faults appeared, %d did not\n", appeared, missing)
	if missing > 0 || appeared == 0 {
		return fmt.Errorf("%d faults of docs/reference/driver-faults.md did not appear", missing)
	}
	return nil
}

// boot provokes a fault in a virtual machine. It returns an error if the fault has not
// appeared.
func boot(ctx context.Context, rdmavm, self string, f fault, kernel string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, rdmavm, "-hosts", "2", "-kernel", kernel, "-driver", f.driver, "-timeout", "1m",
		"--", self, "-provoke", f.name)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	status := rdmavmFailed
	if f.excused || f.log == nil {
		status = 0
	}
	switch {
	case cmd.ProcessState == nil:
		return nil, err
	case f.log != nil && !f.log.Match(out.Bytes()):
		return out.Bytes(), fmt.Errorf("status %d, and no %q in the kernel's log", cmd.ProcessState.ExitCode(), f.log)
	case cmd.ProcessState.ExitCode() != status:
		return out.Bytes(), fmt.Errorf("status %d, want %d", cmd.ProcessState.ExitCode(), status)
	case !bytes.Contains(out.Bytes(), []byte(f.says)):
		return out.Bytes(), fmt.Errorf("the program did not say %q", f.says)
	}
	return nil, nil
}
