// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"purerdma/internal/hwreport"
)

// soakChecks returns checks that run for a time that the user chooses. It is no variable, because they run other checks.
func soakChecks() []Check {
	return []Check{
		{ID: "soak", Soak: true, Title: "other checks again and again, without leaks (-soak)", needs: needsSoak, do: func(t *trial) { t.soak(soaked()) }},
	}
}

func needsSoak(t *trial) string {
	if t.target.Soak <= 0 {
		return "needs a time (-soak 30m)"
	}
	return ""
}

// soaked returns the checks of a round. Each takes a second or less on a card, and uses other parts of the library.
func soaked() []Check {
	var list []Check
	for _, id := range []string{
		"stream", "send-sizes", "atomics", "remote-errors", "flush", "peer-death", "events", "srq", "datagrams", "regions", "destroy", "window2", "connections", "streams", "calls",
	} {
		if c, ok := Find(id); ok {
			list = append(list, c)
		}
	}
	return list
}

// usage has the numbers of the objects that this process holds between two checks.
type usage struct {
	files, goroutines, qps, cqs int
	heap                        uint64
}

// settleTime bounds the time until the goroutines and the files of a closed check have ended. Tests shorten it.
var settleTime = 5 * time.Second

// Growths that are accepted. Runtime and library keep some files, goroutines and memory for later use. A leak of one file in a round
// exceeds them within minutes. A single fault gets a lower limit for files and goroutines.
const (
	moreFiles      = 32
	moreAfterFault = 8
	heapGrowth     = 64 << 20
)

// usage returns the use of resources after a collection.
func (t *trial) usage() (u usage, err error) {
	runtime.GC()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return u, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := t.operations()
	return usage{len(files), runtime.NumGoroutine(), s.QPs, s.CQs, m.HeapAlloc}, nil
}

// leaks returns an error if more resources are in use than before. It accepts a number of additional files and goroutines.
func (u usage) leaks(before usage, more int) error {
	var errs []error
	for _, r := range []struct {
		what           string
		now, was, more int
	}{
		{"files", u.files, before.files, more}, {"goroutines", u.goroutines, before.goroutines, more},
		{"QPs", u.qps, before.qps, 0}, {"CQs", u.cqs, before.cqs, 0},
	} {
		if r.now > r.was+r.more {
			errs = append(errs, fmt.Errorf("%d %s, %d before", r.now, r.what, r.was))
		}
	}
	if u.heap > before.heap+heapGrowth {
		errs = append(errs, fmt.Errorf("heap of %d bytes, %d before", u.heap, before.heap))
	}
	return errors.Join(errs...)
}

// settled returns the use of resources when there is no leak, or after settleTime with the leak.
func (t *trial) settled(before usage, more int) (usage, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		u, err := t.usage()
		if err != nil {
			return u, err
		}
		if err = u.leaks(before, more); err == nil || time.Since(began) > settleTime {
			return u, err
		}
	}
}

// soak runs checks in rounds until the time is over. The first round fills caches. After each later round the process must not
// hold much more than after the first.
func (t *trial) soak(checks []Check) {
	t.target.Effort = 0 // rounds are short
	began := time.Now()
	var first usage
	rounds, runs := 0, 0
	for ; rounds < 2 || time.Since(began) < t.target.Soak; rounds++ {
		for i := range checks {
			r := checks[i].Run(t.ctx, t.target)
			switch r.Status {
			case hwreport.Skip:
				if rounds == 0 {
					t.note("%s is skipped: %s", r.ID, r.Reason)
				}
				continue
			case hwreport.Pass:
				runs++
			default:
				t.end(r.Status, fmt.Sprintf("%s in round %d, after %v: %s", r.ID, rounds+1, time.Since(began).Round(time.Second), r.Reason))
			}
		}
		if rounds == 0 {
			u, err := t.usage()
			t.must("read the use of resources", err)
			first = u
			continue
		}
		u, err := t.settled(first, moreFiles)
		if err != nil {
			t.fail("after round %d, %v: %v", rounds+1, time.Since(began).Round(time.Second), err)
		}
		if rounds == 1 {
			t.note("after 2 rounds: %d files, %d goroutines, heap of %d bytes", u.files, u.goroutines, u.heap)
		}
	}
	t.note("%d rounds, %d checks passed in %v", rounds, runs, time.Since(began).Round(time.Second))
	if runs == 0 {
		t.skip("the device supports no check of a round")
	}
}
