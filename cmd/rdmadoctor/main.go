// SPDX-License-Identifier: Apache-2.0

// Rdmadoctor reports missing prerequisites of RDMA programs on a machine or in a container:
//
//	rdmadoctor [-v | --json]
//	rdmadoctor -watch [-interval 1s]
//
// It prints one line for each problem, with a command that fixes it. It checks kernel modules,
// device nodes and their permissions, drivers without a Go provider, and ABI versions. Further
// checks cover ports that are down, addresses without a GID, RLIMIT_MEMLOCK and network
// namespaces.
// Without problems it prints one line.
//
// It lists the parts that it could not check on standard error, in lines that begin with "not
// seen". With -v it first lists everything that it has checked, in lines that begin with
// "seen".
//
// With -watch it prints tables of the devices of this host, of the connections of all processes,
// and of the counters that are not zero, with their rates. It redraws them on a terminal in each
// interval, until it is interrupted. To another output it prints new tables in each interval. The
// kernel shows other processes' connections to every user. The driver reads the state of each QP.
//
// The exit status is 0 without problems and 1 with problems. It is 2 for a bad command line or
// a system other than Linux. The program changes nothing and does not need root. Run it as the
// user whose program fails, because it checks with the rights of its user.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"purerdma/cmd/internal/tool"
	"purerdma/cmd/internal/version"
)

// Exit statuses.
const (
	statusWell     = 0
	statusFindings = 1
	statusUsage    = 2
)

func main() { tool.Main(run) }

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fl := flag.NewFlagSet("rdmadoctor", flag.ContinueOnError)
	fl.SetOutput(stderr)
	asJSON := fl.Bool("json", false, "print one JSON object: findings and unseen")
	verbose := fl.Bool("v", false, "also list everything that was checked")
	watching := fl.Bool("watch", false, "show devices, connections and counters until interrupted")
	interval := fl.Duration("interval", time.Second, "time between the tables of -watch, at least 10ms")
	version.Flag(fl)
	if err := fl.Parse(args); errors.Is(err, flag.ErrHelp) {
		return statusWell
	} else if err != nil {
		return statusUsage
	}
	if fl.NArg() > 0 {
		fmt.Fprintf(stderr, "rdmadoctor: unexpected argument %q\n", fl.Arg(0))
		return statusUsage
	}
	if *asJSON && *verbose {
		fmt.Fprintln(stderr, "rdmadoctor: -v and --json exclude each other")
		return statusUsage
	}
	if *watching {
		return runWatch(ctx, *asJSON || *verbose, *interval, stdout, stderr)
	}
	f, err := gather()
	if err != nil {
		fmt.Fprintln(stderr, "rdmadoctor:", err)
		return statusUsage
	}
	found := diagnose(f)
	if *verbose {
		for _, line := range f.seen() {
			fmt.Fprintln(stdout, "seen:", line) // printText reports write errors
		}
	}
	print := printText
	if *asJSON {
		print = printJSON
	}
	if err := print(stdout, stderr, found, f.unseen); err != nil {
		fmt.Fprintln(stderr, "rdmadoctor: standard output:", err)
		return statusUsage
	}
	if len(found) > 0 {
		return statusFindings
	}
	return statusWell
}

// minInterval bounds the load that -watch causes.
const minInterval = 10 * time.Millisecond

func runWatch(ctx context.Context, checking bool, interval time.Duration, stdout, stderr io.Writer) int {
	if checking {
		fmt.Fprintln(stderr, "rdmadoctor: -watch excludes -v and --json")
		return statusUsage
	}
	if interval < minInterval {
		fmt.Fprintf(stderr, "rdmadoctor: -interval %v is less than %v\n", interval, minInterval)
		return statusUsage
	}
	if err := watch(ctx, interval, stdout); err != nil {
		fmt.Fprintln(stderr, "rdmadoctor:", err)
		return statusUsage
	}
	return statusWell
}

func printText(stdout, stderr io.Writer, found []finding, missed []unseen) error {
	for _, u := range missed {
		fmt.Fprintf(stderr, "not seen: %s: %s\n", u.What, u.Why)
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(stdout, "%s: %s; fix: %s\n", f.Object, f.Problem, f.Fix); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return nil
	}
	what := "no problem found"
	if len(missed) > 0 {
		what += " in the parts that could be checked"
	}
	_, err := fmt.Fprintln(stdout, what)
	return err
}

func printJSON(stdout, _ io.Writer, found []finding, missed []unseen) error {
	return json.NewEncoder(stdout).Encode(struct {
		Findings []finding `json:"findings"`
		Unseen   []unseen  `json:"unseen"`
	}{append([]finding{}, found...), append([]unseen{}, missed...)})
}
