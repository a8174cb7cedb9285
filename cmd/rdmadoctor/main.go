// SPDX-License-Identifier: Apache-2.0

// Rdmadoctor says what is missing on a machine, or in a container, for programs
// that use RDMA by this module:
//
//	rdmadoctor [-v | --json]
//
// Each thing that is wrong is one line, with a command that mends it: kernel
// modules, device nodes and their permissions, drivers without a Go provider, ABI
// versions, ports that are down, addresses without a GID, RLIMIT_MEMLOCK, network
// namespaces. If nothing is wrong it says so, in one line. What it could not look at it
// says on standard error, in lines that begin with "not seen". With -v it first lists what
// it looked at, in lines that begin with "seen".
//
// The exit status is 0 if nothing is wrong, 1 if something is, and 2 for a bad
// command line or a system that is not Linux. It changes nothing, needs no root,
// and looks with the rights of its user: run it as the program that fails.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"purerdma/cmd/internal/tool"
)

// Exit statuses.
const (
	statusWell     = 0
	statusFindings = 1
	statusUsage    = 2
)

func main() { tool.Main(run) }

// run is the program.
func run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	fl := flag.NewFlagSet("rdmadoctor", flag.ContinueOnError)
	fl.SetOutput(stderr)
	asJSON := fl.Bool("json", false, "print one JSON object: findings and unseen")
	verbose := fl.Bool("v", false, "list what was looked at, too")
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
		fmt.Fprintln(stderr, "rdmadoctor: -v is not for --json")
		return statusUsage
	}
	f, err := gather()
	if err != nil {
		fmt.Fprintln(stderr, "rdmadoctor:", err)
		return statusUsage
	}
	found := diagnose(f)
	if *verbose {
		for _, line := range f.seen() {
			fmt.Fprintln(stdout, "seen:", line) // printText reports that it cannot be written
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

func printText(stdout, stderr io.Writer, found []finding, missed []unseen) error {
	for _, u := range missed {
		fmt.Fprintf(stderr, "not seen: %s: %s\n", u.What, u.Why)
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(stdout, "%s: %s; to mend it: %s\n", f.Object, f.Problem, f.Fix); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return nil
	}
	what := "nothing is wrong"
	if len(missed) > 0 {
		what += " with what could be seen"
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
