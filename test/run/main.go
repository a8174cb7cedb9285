// SPDX-License-Identifier: Apache-2.0

// Run runs tests on this machine and in virtual machines, and counts them:
//
//	run [flags] [packages]
//	run [flags] -- [flags] [packages] -- [flags] [packages] ...
//
// Each group of arguments is a row. With "--" the first group contains the flags of all rows. A
// row boots a virtual machine and runs the test programs of the packages that import
// internal/vmtest, one after the other. It leaves out the tests that use nothing of
// internal/vmtest, which run on this machine. A test that skips itself in the virtual machine fails,
// because the machine meets all requirements of tests. Long tests (internal/longtest) are the
// exception. Patterns may name packages of modules below the working directory, such as
// ./test/nettest. With -host a row runs "go test" on this machine. With -check it runs the program
// in its arguments, which counts as one test.
//
// Run prints one line for each package, and the whole output only of failures. Its last line is
// "N passed, N failed", and its exit status is 0 if nothing failed. No test runs twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A row is a set of tests with the place where they run.
type row struct {
	name           string
	host, check    bool
	rdmavm, rping  string
	packages, bins string
	race, long     bool
	run, skip      string
	timeout        string
	vmFlags        string
	also           string
	args           string
	env, exec      string
	estimate       time.Duration
	verbose        bool
	patterns       []string

	programs []program // for a row in the virtual machine
}

// flags returns a flag set that writes to r.
func (r *row) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("run", flag.ExitOnError)
	fs.StringVar(&r.name, "name", r.name, "`title` of the row")
	fs.BoolVar(&r.host, "host", r.host, "run the packages' tests on this machine")
	fs.BoolVar(&r.check, "check", r.check, "run the program that the arguments name on this machine")
	fs.StringVar(&r.rdmavm, "rdmavm", r.rdmavm, "the `program` that runs the machine")
	fs.StringVar(&r.rping, "rping", r.rping, "the rping to test, for tests in RPING; our other programs lie beside it")
	fs.StringVar(&r.packages, "packages", r.packages, "Debian `packages` for the machine")
	fs.StringVar(&r.bins, "bin", r.bins, "`directory` for the test programs")
	fs.BoolVar(&r.race, "race", r.race, "build with the race detector")
	fs.BoolVar(&r.long, "long", r.long, "run the long tests, too (internal/longtest)")
	fs.StringVar(&r.run, "run", r.run, "run only the tests that match `regexp`")
	fs.StringVar(&r.skip, "skip", r.skip, "do not run the tests that match `regexp`")
	fs.StringVar(&r.timeout, "timeout", r.timeout, "`limit` for the tests of one package")
	fs.StringVar(&r.args, "args", r.args, "more `flags` for the tests, separated by spaces")
	fs.StringVar(&r.vmFlags, "vm", r.vmFlags, "more `flags` for rdmavm, separated by spaces")
	fs.StringVar(&r.also, "also", r.also, "another test `program` for the machine, with its flags, separated by spaces")
	fs.StringVar(&r.env, "env", r.env, "`variables` for the go command, separated by spaces")
	fs.StringVar(&r.exec, "exec", r.exec, "`program` that starts tests on this machine")
	fs.DurationVar(&r.estimate, "estimate", r.estimate, "how `long` the row takes on two processors that do nothing else")
	fs.BoolVar(&r.verbose, "v", r.verbose, "show the whole output of all tests")
	return fs
}

// parse parses a command line into rows.
func parse(args []string) []*row {
	common := row{rdmavm: "bin/rdmavm", rping: "bin/rping", bins: "bin/test", timeout: "10m", estimate: time.Minute}
	var rows []*row
	for first := true; ; first = false {
		group, rest := args, []string(nil)
		i := slices.Index(args, "--")
		if i >= 0 {
			group, rest = args[:i], args[i+1:]
		}
		r := common
		fs := r.flags()
		fs.Parse(group)
		r.patterns = fs.Args()
		switch {
		case first && i >= 0 && len(r.patterns) == 0:
			common = r
		default:
			if len(r.patterns) == 0 {
				r.patterns = []string{"./..."}
			}
			if r.name == "" {
				r.name = fmt.Sprintf("Linux %s, %s", r.kernel(), r.driver())
			}
			rows = append(rows, &r)
		}
		if i < 0 {
			return rows
		}
		args = rest
	}
}

func (r *row) driver() string { return flagValue(strings.Fields(r.vmFlags), "driver", "rxe") }

// kernel returns the series of the row's kernel, without its page size.
func (r *row) kernel() string {
	series, _, _ := strings.Cut(flagValue(strings.Fields(r.vmFlags), "kernel", "6.1"), "-")
	return series
}

// inVM reports whether the row needs a virtual machine.
func (r *row) inVM() bool { return !r.host && !r.check }

func main() {
	rows := parse(os.Args[1:])
	// A signal also ends rdmavm, which cleans up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rep := newReport(os.Stdout, rows)
	err := runAll(ctx, rows, rep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	if !rep.close() || err != nil {
		os.Exit(1)
	}
}

// runAll runs the rows one after the other. A failed row does not stop the next ones. An error
// is a failure of run itself.
func runAll(ctx context.Context, rows []*row, rep *report) error {
	built := false
	for _, r := range rows {
		if r.inVM() && !built {
			// Build the programs of all rows at once, before the first row boots.
			rep.printf("building the tests for the virtual machine")
			if err := build(ctx, rows); err != nil {
				return err
			}
			built = true
		}
		var err error
		switch {
		case r.check:
			err = r.runCheck(ctx, rep)
		case r.host:
			err = r.runHost(ctx, rep)
		default:
			err = r.runVM(ctx, rep)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// runCheck runs the program in the row's arguments.
func (r *row) runCheck(ctx context.Context, rep *report) error {
	rep.beginRow(1, 1)
	defer rep.endRow("")
	cmd := exec.CommandContext(ctx, r.patterns[0], r.patterns[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), strings.Fields(r.env)...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	pkg := r.patterns[0]
	rep.event(event{Action: "start", Package: pkg})
	rep.event(event{Action: "run", Package: pkg, Test: r.name})
	rep.event(event{Action: "output", Package: pkg, Test: r.name, Output: string(out)})
	result := "pass"
	if err != nil {
		rep.event(event{Action: "output", Package: pkg, Test: r.name, Output: fmt.Sprintln(strings.Join(r.patterns, " "), err)})
		result = "fail"
	}
	elapsed := time.Since(start).Seconds()
	rep.event(event{Action: result, Package: pkg, Test: r.name, Elapsed: elapsed})
	rep.event(event{Action: result, Package: pkg, Elapsed: elapsed})
	return nil
}
