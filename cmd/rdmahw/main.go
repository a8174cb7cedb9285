// SPDX-License-Identifier: Apache-2.0

// Rdmahw checks an RDMA device and writes a report about it:
//
//	rdmahw run [-d device] [-i port] [-a address] [-peer host[:port]] [-only id,...] [-destructive] [-soak 30m] [-effort 1m] [-names] [-minutes 15] [-o report.tar.gz]
//	rdmahw serve [-d device] [-i port] [-a address] [-p port] [-destructive]
//	rdmahw judge [-vectors directory] report.tar.gz
//	rdmahw list
//
// The checks send data from the port to itself, or with -peer to a host on which "rdmahw serve" runs. They
// compare the data and the completions with the specification. Every check has one of these results:
//
//	PASS     everything was as specified
//	FAIL     something was not as specified, and the report has the cause
//	SKIP     a precondition is missing
//	UNKNOWN  the check cannot judge its observation
//
// The program needs no root, except for the rights that any RDMA program needs: see rdmadoctor. A check for which the user lacks a
// right or locked memory is skipped. The program changes no setting. The default device is the first one with an active port.
//
// With -destructive it also sets the network interface of the port down, and reloads and unbinds the driver of the device. It
// tests the driver's health reporters, resets a virtual function, and limits itself by a control group. It needs root for
// that. The check of a silent peer also needs -destructive at the server. Other users of the device or the interface lose their
// connections, and the interface can lose addresses and routes.
//
// With -soak it also repeats other checks for that time, and looks for leaks.
//
// Rare faults need many repetitions: a million wake-ups, 100,000 QPs, 10,000 resized CQs, 2^18 doorbells. Each of these checks repeats
// its operations until it has reached its number, but at most for the time of -effort. That is a minute on a card. On other devices it is
// 0, and the checks repeat them some thousand times. The evidence has the numbers.
//
// The first process chooses the device and describes it. Each check runs in a process of its own, with a time limit. A
// process that exceeds the limit writes its stacks to the report and ends, or is killed. The whole run ends after -minutes.
// The remaining checks are skipped. After a signal, the report has the results so far.
//
// A check that fails runs once more, with a recorder of the bytes that the driver and a ConnectX exchange. Its result
// remains FAIL. Checks that provoke errors, and some others, are always recorded. The check "vectors" records a scenario of all
// operations. See mlx5dv.Device.Record.
//
// A check whose device writes a completion that no request explains is UNKNOWN, and also runs once more. The bytes of such a
// completion are in the log of the check, at most once a second. The server prints the completions of a far end on another host.
//
// The check "kernel-answers" also runs on devices that the library does not support. It tries to create objects without the driver's own
// parameters, and the driver may refuse that. The check "program-commands" also runs there. It has rdma-core's programs use the device, and
// keeps their commands with the driver's own parameters.
//
// The report is an archive:
//
//	report.json, report.txt  results, and a description of the device, the kernel and the processor
//	rdmadoctor.json          the output of rdmadoctor -json, if that program is next to this one
//	log/ID.txt               the output of a check, and log/ID-again.txt of its second run
//	ID/recording.jsonl       a recording of the near end, and ID/far.jsonl of a far end on another host
//	kernel-answers/answers.json  responses of the kernel and its driver, in bytes
//	program-commands/commands.json  commands of rdma-core's programs to the kernel, in bytes
//	kernel.txt               lines about RDMA and errors in the kernel's log since the start, if the user may read it
//
// Addresses are removed from the logs and the results. With -names they stay, the logs also have all commands to the kernel
// (RDMA_TRACE), and recordings of datagrams are included. Those contain the addresses and GUIDs of the ports.
//
// The kind of the device is "card", "model" for the software ConnectX of the project, or "software" for rxe and siw. It is
// "unclear" for a card or a model on a host that does not show which.
//
// The server listens on TCP, on port 7472 by default. Everyone who reaches that port can use the memory of
// the checks, so run it only on a trusted network. One server serves one run at a time.
//
// The command judge reads the report of another host. It prints the result of each check, checks the recordings, and compares them
// with the beliefs about a ConnectX that the driver and the project's model share:
//
//	confirmed     the checks of a card have passed
//	contradicted  a check has failed, or a recording has a completion that the belief excludes
//	undecided     the report does not show it, or the device is no card
//
// With -vectors it writes the recordings to new files in a directory, as vectors for the tests of provider/mlx5. They
// omit QPs that the tests cannot replay. Its exit status is 1 if a check has failed, a belief is contradicted or a recording is invalid,
// and 3 if the file is no report.
//
// The exit status is 0 if no check failed, 1 if one failed, 2 for a bad command line, and 3 if there is no report
// for another reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
	"purerdma/cmd/internal/version"
	"purerdma/internal/cmdtrace"
	"purerdma/verbs"
)

// Exit statuses.
const (
	statusFailed   = 1
	statusUsage    = 2
	statusNoReport = 3
)

// defaultPort is the TCP port of the server.
const defaultPort = "7472"

func main() {
	cmdtrace.Main()
	tool.Main(newProgram().run)
}

// program is the program with its parts that tests replace.
type program struct {
	host    *verbs.Host
	command func(args ...string) *exec.Cmd       // this program in a process of its own
	tool    func(name string) (*exec.Cmd, error) // a program in programs
	limit   func(*hwcheck.Check) time.Duration
	// programs is the directory of the project's other programs, which is this program's directory.
	programs string
	// machineLimit bounds the description of the machine.
	machineLimit time.Duration
}

func newProgram() *program {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	p := &program{
		host:         &verbs.Host{Drivers: verbs.DefaultHost().Drivers, Log: faultLog()},
		command:      func(args ...string) *exec.Cmd { return exec.Command(self, args...) },
		limit:        func(c *hwcheck.Check) time.Duration { return c.Limit },
		machineLimit: 30 * time.Second,
		programs:     filepath.Dir(self),
	}
	p.tool = func(name string) (*exec.Cmd, error) {
		path, err := exec.LookPath(filepath.Join(p.programs, name))
		if err != nil {
			return nil, err
		}
		return exec.Command(path), nil
	}
	return p
}

// faultLog returns the log of a host. It has the bytes of completions that a provider does not understand. Records of lower levels
// could exceed the kept part of a child's output.
func faultLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// options are the flags.
type options struct {
	device  string
	port    int
	addr    string
	peer    string
	listen  string
	only    string
	destroy bool
	soak    time.Duration
	effort  *time.Duration // nil means by the kind of the device
	minutes float64
	out     string
	names   bool
	vectors string
	files   string
	record  bool
}

const usage = `usage: rdmahw run [flags], rdmahw serve [flags], rdmahw judge [-vectors directory] report.tar.gz or rdmahw list`

// flagsUsage follows usage in the answer to a request for help.
const flagsUsage = `"rdmahw run -h" and "rdmahw serve -h" print the flags.`

// run runs the program and returns its exit status.
func (p *program) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("rdmahw", stdout, stderr)
	if len(args) == 0 {
		u.Errorf("%s\n", usage)
		return statusUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		u.Printf("%s\n%s\n", usage, flagsUsage)
		if err := u.Failure(); err != nil {
			u.Fail(err)
			return statusNoReport
		}
		return 0
	}
	commands := map[string]func(context.Context, *options, []string, *tool.UI) int{
		"run": p.runAll, "serve": p.serve, "judge": p.judge, "list": p.list, "check": p.check, "machine": p.machine,
	}
	command, ok := commands[args[0]]
	if !ok {
		u.Errorf("rdmahw: unknown command %q\n%s\n", args[0], usage)
		return statusUsage
	}
	o := new(options)
	fs := o.flags(args[0], stderr)
	if err := fs.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return statusUsage
	}
	if want := args[0] == "check" || args[0] == "judge"; want != (fs.NArg() == 1) || fs.NArg() > 1 {
		u.Errorf("rdmahw: unexpected arguments %q\n%s\n", fs.Args(), usage)
		return statusUsage
	}
	return command(ctx, o, fs.Args(), u)
}

func (o *options) flags(command string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("rdmahw "+command, flag.ContinueOnError)
	fs.SetOutput(stderr)
	version.Flag(fs)
	if command == "judge" {
		fs.StringVar(&o.vectors, "vectors", "", "existing directory for the recordings as vectors (default: write none)")
		return fs
	}
	fs.StringVar(&o.device, "d", "", "device (default: the first with an active port)")
	fs.IntVar(&o.port, "i", 1, "port of the device")
	fs.StringVar(&o.addr, "a", "", "address of the port's network interface (default: found)")
	switch command {
	case "run":
		fs.StringVar(&o.only, "only", "", "IDs of the checks, separated by commas (default: all)")
		fs.BoolVar(&o.destroy, "destructive", false, "also disturb the device: network interface down, driver unbound, virtual function reset, control group")
		fs.Float64Var(&o.minutes, "minutes", 15, "limit of the whole run, without the time of -soak")
		fs.DurationVar(&o.soak, "soak", 0, "time of the check soak (default: skip it)")
		fs.Func("effort", "time of each check that repeats operations many times (default: 1m0s on a card, 0 otherwise)", o.setEffort)
		fs.StringVar(&o.out, "o", "report.tar.gz", "file for the report")
		fs.BoolVar(&o.names, "names", false, "include files that may name the host: commands to the kernel, output of tools, all recordings")
		fs.StringVar(&o.peer, "peer", "", "host and port of rdmahw serve (default: the port sends to itself)")
	case "check":
		fs.StringVar(&o.peer, "peer", "", "as for run")
		fs.DurationVar(&o.soak, "soak", 0, "as for run")
		fs.Func("effort", "as for run (default: 0)", o.setEffort)
		fs.StringVar(&o.files, "files", "", "directory for the files of the check")
		fs.BoolVar(&o.record, "record", false, "record the operations of a ConnectX")
	case "serve":
		fs.StringVar(&o.listen, "p", defaultPort, "TCP port")
		fs.BoolVar(&o.destroy, "destructive", false, "permit the check peer-silent to set the network interface of this host down for 5 seconds")
	}
	return fs
}

// setEffort sets the effort from the text of its flag.
func (o *options) setEffort(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("want at least 0")
	}
	o.effort = &d
	return err
}

// target returns the target of the flags, without a device and an address that the flags leave out. It uses no
// device, so that the watchdog can call it.
func (p *program) target(o *options) (*hwcheck.Target, error) {
	t := &hwcheck.Target{Host: p.host, Device: o.device, Port: uint8(o.port), Destructive: o.destroy, Soak: o.soak, Programs: p.programs}
	if o.effort != nil {
		t.Effort = *o.effort
	}
	if o.port < 1 || o.port > 255 {
		return nil, fmt.Errorf("-i %d: want 1 to 255", o.port)
	}
	if o.addr != "" {
		var err error
		if t.Addr, err = netip.ParseAddr(o.addr); err != nil {
			return nil, fmt.Errorf("-a: %w", err)
		}
	}
	if o.peer != "" {
		t.Peer = o.peer
		if _, _, err := net.SplitHostPort(o.peer); err != nil {
			t.Peer = net.JoinHostPort(strings.Trim(o.peer, "[]"), defaultPort)
		}
	}
	return t, nil
}

// completeTarget returns the target of the flags, and chooses the device and the address that the flags leave out.
func (p *program) completeTarget(o *options) (*hwcheck.Target, error) {
	t, err := p.target(o)
	if err != nil {
		return nil, err
	}
	if err := t.Complete(); err != nil {
		return nil, err
	}
	return t, nil
}

// list prints the checks.
func (p *program) list(_ context.Context, _ *options, _ []string, u *tool.UI) int {
	for _, c := range hwcheck.All() {
		u.Printf("%-18s %s\n", c.ID, c.Title)
	}
	if err := u.Failure(); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	return 0
}

// serve serves the far ends of checks.
func (p *program) serve(ctx context.Context, o *options, _ []string, u *tool.UI) int {
	t, err := p.completeTarget(o)
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("", o.listen))
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	u.Printf("%s port %d, listening on %v\n", t.Device, t.Port, ln.Addr())
	if err := hwcheck.Serve(ctx, ln, t); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	return 0
}
