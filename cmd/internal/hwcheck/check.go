// SPDX-License-Identifier: Apache-2.0

// Package hwcheck holds the checks of rdmahw. Each check uses a device through the public
// packages of the module, as a program would, and compares the results with the specification.
//
// A check has two ends. The near end is in the process of the check. The far end is in this
// process by default, so that the port sends to itself, or in the process of a peer. The check
// controls the far end by remote procedure calls in both cases.
package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"purerdma/abi"
	"purerdma/internal/hwreport"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// Check is one check of a device.
type Check struct {
	ID    string // lower case letters, digits and dashes
	Title string // description for reports
	// Limit is the time after which a watchdog ends the check. It is generous, because a slow
	// machine must not fail.
	Limit time.Duration
	// Env has environment variables that the library reads when it opens a device.
	Env map[string]string
	// Local marks a check that has both ends on this host, even with a peer.
	Local bool
	// Soak marks a check that takes Target.Soak in addition to its Limit.
	Soak bool
	// Load marks a check that takes up to Target.Effort in addition to its Limit.
	Load bool
	// Destructive marks a check that disturbs other users of the device or of its network interface.
	Destructive bool
	// bare marks a check that uses the kernel without a provider. It also runs on devices that the library does not support.
	bare bool
	// recorded marks a check whose operations on a ConnectX are always recorded, because no model shows them.
	recorded bool
	// needs returns the unmet precondition, or "". nil means none.
	needs func(*trial) string
	do    func(*trial)
}

// defaultLimit is the Limit of most checks.
const defaultLimit = 2 * time.Minute

// All returns the checks in the order of a run.
func All() []Check {
	var all []Check
	for _, group := range [][]Check{
		answerChecks, commandChecks, recordChecks, dataChecks, listChecks, orderChecks, queueChecks, doorbellChecks, completionChecks, errorChecks, stateChecks, memoryChecks, eventChecks, lifeChecks,
		datagramChecks, gidChecks, infiniBandChecks, transportChecks, portChecks, nodeChecks, hostChecks, connectionChecks, interopChecks, perfChecks, healthChecks, soakChecks(), groupChecks, silenceChecks, faultChecks,
	} {
		all = append(all, group...)
	}
	for i := range all {
		if all[i].Limit == 0 {
			all[i].Limit = defaultLimit
		}
	}
	return all
}

// Find returns the check with an ID.
func Find(id string) (Check, bool) {
	for _, c := range All() {
		if c.ID == id {
			return c, true
		}
	}
	return Check{}, false
}

// Run runs the check on a target and returns its result. It does not return before the check
// ends. The caller needs a watchdog.
func (c *Check) Run(ctx context.Context, target *Target) hwreport.Result {
	began := time.Now()
	t := &trial{ctx: ctx, target: target, status: hwreport.Pass}
	ended := make(chan struct{})
	go func() { // fatal ends this goroutine
		defer close(ended)
		t.run(c)
	}()
	<-ended
	return hwreport.Result{
		ID: c.ID, Title: c.Title, Status: t.status, Reason: t.reason, Seconds: time.Since(began).Seconds(),
		Evidence: t.evidence, Counters: t.counters,
	}
}

// trial is one run of a check.
type trial struct {
	ctx      context.Context
	target   *Target
	dev      *verbs.Device
	features verbs.Features
	attr     *verbs.DeviceAttr
	peer     *peer
	ends     []*end // of this process, except for the far ends

	status   hwreport.Status
	reason   string
	counters map[string]int64

	mu       sync.Mutex
	evidence []string
	cleanups []func()
}

func (t *trial) run(c *Check) {
	defer t.cleanUp()
	for name, value := range c.Env {
		t.changeEnv(name, value)
	}
	if c.bare {
		t.require(c)
		c.do(t)
		return
	}
	dev, err := t.target.Host.Open(t.target.Device)
	if missing, ok := errors.AsType[*verbs.NoProviderError](err); ok {
		t.end(hwreport.Skip, missing.Error())
	}
	t.opened(err)
	t.later(func() error { return dev.Close() })
	t.dev, t.features, t.attr = dev, dev.Features(), dev.Attr()
	if iwarp(dev) {
		if reason := needsManager(t); reason != "" {
			t.end(hwreport.Skip, reason)
		}
	}
	t.require(c)
	t.peer, err = t.target.connectPeer(t.ctx)
	t.must("connect to the far end", err)
	t.later(t.peer.close)
	before := t.portCounters()
	defer func() { t.counters = changes(before, t.portCounters()) }()
	operations := t.operations()
	defer func() { t.noteOperations(operations) }()
	if t.target.Record || c.recorded {
		t.record()
	}
	defer t.save()
	c.do(t)
	if !t.observed(operations) {
		t.end(hwreport.Unknown, "the check has observed nothing")
	}
	if n := t.skipped(); n > 0 {
		t.end(hwreport.Unknown, fmt.Sprintf("the device wrote %d %s, which were skipped", n, hwreport.UnexplainedCompletions))
	}
}

// require ends the check with SKIP if its precondition is not met.
func (t *trial) require(c *Check) {
	if c.needs != nil {
		if reason := c.needs(t); reason != "" {
			t.end(hwreport.Skip, reason)
		}
	}
}

// cleanUp closes the objects of the check.
func (t *trial) cleanUp() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		f()
	}
}

// operations returns the counts of the device's QPs and CQs in this process. This includes the far ends here.
func (t *trial) operations() verbs.DeviceStats {
	for _, s := range t.target.Host.Stats() {
		if s.Device == t.target.Device {
			return s
		}
	}
	return verbs.DeviceStats{}
}

// sums returns the number of sends, receives, successful completions and failed completions between two counts.
func sums(before, after *verbs.DeviceStats) (sends, recvs, good, failed uint64) {
	for i := range after.QP.Sends {
		sends += after.QP.Sends[i].Operations - before.QP.Sends[i].Operations
	}
	for i := range after.CQ.Completions {
		n := after.CQ.Completions[i] - before.CQ.Completions[i]
		if verbs.WCStatus(i) == verbs.WCSuccess {
			good += n
		} else {
			failed += n
		}
	}
	return sends, after.QP.Receives - before.QP.Receives, good, failed
}

// observed reports whether the check has evidence: notes, compared data or completions. A check without it has not used the
// device.
func (t *trial) observed(before verbs.DeviceStats) bool {
	after := t.operations()
	_, _, good, failed := sums(&before, &after)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.evidence) > 0 || good+failed > 0
}

// noteOperations adds the numbers of operations since before to the evidence.
func (t *trial) noteOperations(before verbs.DeviceStats) {
	after := t.operations()
	sends, recvs, good, failed := sums(&before, &after)
	if sends+recvs+good+failed > 0 {
		t.note("%d sends, %d receives, %d completions, %d of them failed or flushed", sends, recvs, good+failed, failed)
	}
}

// skipped returns the number of invalid completions of the CQs of all ends.
func (t *trial) skipped() uint64 {
	var far uint64
	t.call("Skipped", struct{}{}, &far)
	return skipped(slices.Values(t.ends)) + far
}

// skipped returns the number of invalid completions of the CQs of ends, which may share them.
func skipped(ends iter.Seq[*end]) (n uint64) {
	counted := map[*verbs.CQ]bool{nil: true}
	for e := range ends {
		for _, cq := range []*verbs.CQ{e.sendCQ, e.recvCQ} {
			if counted[cq] {
				continue
			}
			counted[cq] = true
			if dv, err := mlx5dv.FromCQ(cq); err == nil {
				n += dv.Skipped()
			}
		}
	}
	return n
}

// changeEnv sets an environment variable of this process until the end of the check.
func (t *trial) changeEnv(name, value string) {
	old, had := os.LookupEnv(name)
	t.must("set "+name, os.Setenv(name, value))
	t.later(func() error {
		if had {
			return os.Setenv(name, old)
		}
		return os.Unsetenv(name)
	})
}

// later closes an object at the end of the check. A failure to close it fails a check that passed, and is evidence
// of any other check.
func (t *trial) later(close func() error) {
	t.cleanups = append(t.cleanups, func() {
		err := close()
		switch {
		case err == nil:
		case t.status == hwreport.Pass:
			t.status, t.reason = hwreport.Fail, fmt.Sprintf("clean up: %v", err)
		default:
			t.note("clean up: %v", err)
		}
	})
}

// opened ends the check if the device was not opened, with SKIP if the user lacks the right.
func (t *trial) opened(err error) {
	if errors.Is(err, fs.ErrPermission) {
		t.skip("the user may not open the device: %v", err)
	}
	t.must("open the device", err)
}

// memoryHint is in the error of a registration that exceeds the user's limit (verbs.PD.RegMR), also if the far end reports it.
const memoryHint = "(RLIMIT_MEMLOCK is "

// end ends the check. Only the goroutine of the check may call it. A check that lacks locked memory is skipped.
func (t *trial) end(s hwreport.Status, reason string) {
	if s == hwreport.Fail && strings.Contains(reason, memoryHint) {
		s = hwreport.Skip
	}
	t.status, t.reason = s, reason
	runtime.Goexit()
}

// fail ends the check with FAIL.
func (t *trial) fail(format string, args ...any) {
	t.end(hwreport.Fail, fmt.Sprintf(format, args...))
}

// skip ends the check with SKIP.
func (t *trial) skip(format string, args ...any) {
	t.end(hwreport.Skip, fmt.Sprintf(format, args...))
}

// must ends the check with FAIL if err is not nil.
func (t *trial) must(what string, err error) {
	if err != nil {
		t.fail("%s: %v", what, err)
	}
}

// note adds a line to the evidence. Any goroutine may call it.
func (t *trial) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evidence = append(t.evidence, fmt.Sprintf(format, args...))
}

// knownFault reports whether the device has the driver, and then adds the title of its fault in
// docs/reference/driver-faults.md to the evidence. Checks accept the documented faults of drivers.
func (t *trial) knownFault(driver abi.DriverID, title string) bool {
	if t.dev.DriverID() != driver {
		return false
	}
	t.note("known fault of the driver: %s (docs/reference/driver-faults.md)", title)
	return true
}
