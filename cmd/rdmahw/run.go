// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
	"purerdma/cmd/internal/version"
	"purerdma/internal/hwreport"
)

// machineLimit bounds the description of the machine.
const machineLimit = 30 * time.Second

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
	// The file must be writable before the run.
	out, err := os.Create(o.out)
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	defer out.Close()
	r := &runner{program: p, options: o, ui: u, logs: map[string][]byte{}, deadline: time.Now().Add(time.Duration(o.minutes * float64(time.Minute)))}
	if err := r.run(ctx, checks); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	if err := errors.Join(r.report.WriteArchive(out, r.logs), out.Close()); err != nil {
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
	*options
	ui       *tool.UI
	report   hwreport.Report
	logs     map[string][]byte // by file name
	deadline time.Time
}

func (r *runner) run(ctx context.Context, checks []hwcheck.Check) error {
	r.report = hwreport.Report{Date: time.Now().UTC(), Peer: "loopback"}
	if r.peer != "" {
		r.report.Peer = "another host"
	}
	var line bytes.Buffer
	if err := version.Print(&line); err != nil {
		return err
	}
	r.report.Version = strings.TrimSpace(line.String())
	stdout, log, err := watch(ctx, r.command(r.args("machine")...), machineLimit)
	if err == nil {
		err = json.Unmarshal(stdout, &r.report.Machine)
	}
	if err != nil {
		return fmt.Errorf("describe the machine: %w\n%s", err, log)
	}
	for i := range checks {
		result := r.one(ctx, &checks[i])
		if ctx.Err() != nil {
			break // the report has the results until the signal
		}
		r.report.Results = append(r.report.Results, result)
		r.ui.Printf("%s", result.Line())
	}
	return r.ui.Failure()
}

// args returns the arguments of a child.
func (r *runner) args(command string, more ...string) []string {
	a := []string{command, "-d", r.device, "-i", strconv.Itoa(r.port), "-a", r.addr}
	if command == "check" {
		a = append(a, "-peer", r.peer)
	}
	return append(a, more...)
}

// one runs a check in a child.
func (r *runner) one(ctx context.Context, c *hwcheck.Check) hwreport.Result {
	result := hwreport.Result{ID: c.ID, Title: c.Title, Status: hwreport.Skip, Reason: "the time of the run is over"}
	limit := min(r.limit(c), time.Until(r.deadline))
	if limit <= 0 {
		return result
	}
	began := time.Now()
	stdout, log, err := watch(ctx, r.command(r.args("check", c.ID)...), limit)
	if len(log) > 0 {
		r.logs["log/"+c.ID+".txt"] = log
	}
	if err == nil {
		var got hwreport.Result
		if err = json.Unmarshal(stdout, &got); err == nil {
			return got
		}
	}
	result.Seconds = time.Since(began).Seconds()
	if limit < r.limit(c) && errors.Is(err, errTimeout) {
		return result
	}
	result.Status, result.Reason = hwreport.Fail, fmt.Sprintf("%v; see log/%s.txt", err, c.ID)
	return result
}
