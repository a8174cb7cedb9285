// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
	"purerdma/cmd/internal/version"
	"purerdma/internal/hwreport"
)

// runAll runs the checks and writes the report.
func (p *program) runAll(ctx context.Context, o *options, _ []string, u *tool.UI) int {
	checks, err := selected(o.only, o.destroy)
	if err == nil {
		_, err = p.target(o)
	}
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	r := &runner{
		program: p, options: o, given: o.addr, ui: u, kernel: openKernelLog(), files: map[string][]byte{},
		deadline: time.Now().Add(time.Duration(o.minutes*float64(time.Minute)) + o.soak),
	}
	defer r.kernel.close()
	if status, err := r.describe(ctx); err != nil {
		u.Fail(err)
		return status
	}
	// The file must be writable before the checks.
	out, err := os.Create(o.out)
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	defer out.Close()
	if err := r.run(ctx, checks); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	if err := errors.Join(r.report.WriteArchive(out, r.files), out.Close()); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	u.Printf("%s (%s); report: %s\n", r.report.Summary(), r.report.Machine.Kind, o.out)
	if r.report.Count(hwreport.Fail) > 0 {
		return statusFailed
	}
	return 0
}

// selected returns the checks of a list of IDs, or all. Destructive checks need the flag.
func selected(only string, destructive bool) ([]hwcheck.Check, error) {
	var list []hwcheck.Check
	if only == "" {
		for _, c := range hwcheck.All() {
			if destructive || !c.Destructive {
				list = append(list, c)
			}
		}
		return list, nil
	}
	for id := range strings.SplitSeq(only, ",") {
		c, ok := hwcheck.Find(id)
		if !ok {
			return nil, fmt.Errorf("-only: no check %q", id)
		}
		if c.Destructive && !destructive {
			return nil, fmt.Errorf("-only: check %s needs -destructive", id)
		}
		list = append(list, c)
	}
	return list, nil
}

// runner is one run.
type runner struct {
	*program
	*options        // describe sets the device and the address
	given    string // address of the command line
	ui       *tool.UI
	kernel   *kernelLog
	report   hwreport.Report
	files    map[string][]byte // by the name in the archive
	deadline time.Time
}

func (r *runner) run(ctx context.Context, checks []hwcheck.Check) error {
	r.report.Date, r.report.Peer = time.Now().UTC(), "loopback"
	if r.peer != "" {
		r.report.Peer = "another host"
	}
	var line bytes.Buffer
	if err := version.Print(&line); err != nil {
		return err
	}
	r.report.Version = strings.TrimSpace(line.String())
	r.examine(ctx)
	for i := range checks {
		result := r.one(ctx, &checks[i])
		if ctx.Err() != nil {
			break // the report has the results until the signal
		}
		r.enter(result)
		if checks[i].Destructive {
			r.addr = assigned(r.given) // the interface may have lost its addresses
		}
	}
	r.add("kernel.txt", r.kernel.read(r.report.Machine.Device))
	return r.ui.Failure()
}

// assigned returns an address if a network interface of this host has it, or "".
func assigned(addr string) string {
	want, err := netip.ParseAddr(addr)
	if err != nil {
		return ""
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == want {
			return addr
		}
	}
	return ""
}

// describe runs the child that chooses and describes the device. All later children use that device and its address. If
// describe fails, it also returns the exit status.
func (r *runner) describe(ctx context.Context) (int, error) {
	cmd := r.command(r.args("machine")...)
	r.traced(cmd)
	stdout, log, err := watch(ctx, cmd, r.machineLimit)
	var c chosen
	if err == nil {
		err = json.Unmarshal(stdout, &c)
	}
	if err != nil {
		status := statusNoReport
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == statusUsage {
			status = statusUsage
		}
		return status, fmt.Errorf("describe the machine: %w\n%s", err, log)
	}
	r.report.Machine, r.device = c.Machine, c.Machine.Device
	if r.effort == nil {
		d := defaultEffort(c.Machine.Kind)
		r.effort = &d
	}
	if c.Addr.IsValid() {
		r.addr = c.Addr.String()
	}
	r.add("log/machine.txt", log)
	return 0, nil
}

// defaultEffort returns the default of -effort. Some ten checks take it, most of them only a part.
func defaultEffort(kind hwreport.Kind) time.Duration {
	if kind == hwreport.Card {
		return time.Minute
	}
	return 0
}

// examine adds the findings of rdmadoctor to the archive, if there is such a program.
func (r *runner) examine(ctx context.Context) {
	cmd, err := r.tool("rdmadoctor")
	if err != nil {
		return
	}
	cmd.Args = append(cmd.Args, "-json")
	stdout, log, err := watch(ctx, cmd, r.machineLimit)
	if len(stdout) == 0 {
		stdout = fmt.Appendf(log, "%v\n", err) // its status is 1 if it has findings
	}
	r.add("rdmadoctor.json", stdout)
}

// traced makes a child log its commands to the kernel, which name the host.
func (r *runner) traced(cmd *exec.Cmd) {
	if r.names {
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, "RDMA_TRACE=1")
	}
}

// clean returns a text without addresses of the host, which -names permits.
func (r *runner) clean(text []byte) []byte {
	if r.names {
		return text
	}
	return redact(text)
}

// add adds a text to the archive, without addresses of the host.
func (r *runner) add(name string, text []byte) {
	if len(text) > 0 {
		r.files[name] = r.clean(text)
	}
}

// enter adds a result to the report, without addresses of the host, and prints it.
func (r *runner) enter(result hwreport.Result) {
	result.Reason = string(r.clean([]byte(result.Reason)))
	for i, line := range result.Evidence {
		result.Evidence[i] = string(r.clean([]byte(line)))
	}
	r.report.Results = append(r.report.Results, result)
	r.ui.Printf("%s", result.Line())
}

// args returns the arguments of a child.
func (r *runner) args(command string, more ...string) []string {
	a := []string{command, "-d", r.device, "-i", strconv.Itoa(r.port), "-a", r.addr}
	if command == "check" {
		a = append(a, "-peer", r.peer, "-soak", r.soak.String(), "-effort", r.effort.String())
	}
	return append(a, more...)
}

// againLimit bounds the second run of a check.
const againLimit = time.Minute

// one runs a check. A check that fails or has unexplained completions runs once more, with a recorder. The first result remains.
func (r *runner) one(ctx context.Context, c *hwcheck.Check) hwreport.Result {
	most := r.limit(c)
	if c.Soak {
		most += r.soak
	}
	if c.Load {
		most += *r.effort
	}
	result := r.child(ctx, c, most, "log/"+c.ID+".txt", false)
	if result.Status != hwreport.Fail && !result.Unexplained() || c.Destructive || c.Soak || ctx.Err() != nil {
		return result
	}
	again := r.child(ctx, c, min(most, againLimit), "log/"+c.ID+"-again.txt", true)
	result.Evidence = append(result.Evidence, fmt.Sprintf("once more, with a recorder: %s %s", again.Status, again.Reason))
	return result
}

// child runs a check in a child.
func (r *runner) child(ctx context.Context, c *hwcheck.Check, most time.Duration, logFile string, record bool) hwreport.Result {
	result := hwreport.Result{ID: c.ID, Title: c.Title, Status: hwreport.Skip, Reason: "the time of the run is over"}
	limit := min(most, time.Until(r.deadline))
	if limit <= 0 {
		return result
	}
	dir, err := os.MkdirTemp("", "rdmahw-*")
	if err != nil {
		result.Status, result.Reason = hwreport.Fail, err.Error()
		return result
	}
	defer os.RemoveAll(dir)
	cmd := r.command(r.args("check", "-files", dir, "-record="+strconv.FormatBool(record), c.ID)...)
	if record {
		r.traced(cmd)
	}
	began := time.Now()
	stdout, log, err := watch(ctx, cmd, limit)
	r.add(logFile, log)
	left := r.collect(c.ID, dir)
	if err == nil {
		var got hwreport.Result
		if err = json.Unmarshal(stdout, &got); err == nil {
			got.Evidence = append(got.Evidence, left...)
			return got
		}
	}
	result.Seconds, result.Evidence = time.Since(began).Seconds(), left
	if limit < most && errors.Is(err, errTimeout) {
		return result
	}
	result.Status, result.Reason = hwreport.Fail, fmt.Sprintf("%v; see %s", err, logFile)
	return result
}

// maxFile bounds a file of a check.
const maxFile = 64 << 20

// collect adds the files that a check has left to the archive. It returns a line for each file that it omits.
func (r *runner) collect(id, dir string) (omitted []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		name := id + "/" + e.Name()
		data, err := readFile(filepath.Join(dir, e.Name()))
		switch {
		case err != nil:
			omitted = append(omitted, err.Error())
		case !r.names && hasAddresses(data):
			omitted = append(omitted, name+" has addresses of ports, and needs -names")
		default:
			r.files[name] = data
		}
	}
	return omitted
}

// readFile returns the contents of a file of at most maxFile bytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(name), maxFile)
	}
	return data, err
}
