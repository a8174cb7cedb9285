// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// completionChecks use options of CQs.
var completionChecks = []Check{
	{ID: "wide-completions", Title: "completions of 128 bytes, with and without padding", needs: needsConnectX, do: checkWide},
	{ID: "compressed", Title: "compressed completions", needs: needsConnectX, do: checkCompressed},
	{ID: "timestamps", Title: "timestamps of completions against the host's clock", needs: needsConnectX, do: checkTimestamps},
	{ID: "moderation", Title: "no lost wake-up with moderated events", needs: needsModeration, do: checkModeration},
	{ID: "overrun", Title: "a CQ that overruns", needs: needsOverrunEvent, do: checkOverrun},
}

func needsConnectX(t *trial) string {
	if _, err := mlx5dv.From(t.dev); err != nil {
		return "the device is no ConnectX"
	}
	return ""
}

// hasOption reports whether the device creates CQs with options, and notes if it does not.
func (t *trial) hasOption(what string, options mlx5dv.CQOptions) bool {
	cq, err := newCQ(t.dev, 64, options)
	if errors.Is(err, errors.ErrUnsupported) {
		t.note("%s: %v", what, err)
		return false
	}
	t.must("create a CQ with "+what, err)
	t.must("close a CQ", cq.Close())
	return true
}

func checkWide(t *trial) {
	used := 0
	for what, options := range map[string]mlx5dv.CQOptions{
		"completions of 128 bytes": {EntrySize: 128}, "padded completions": {EntrySize: 128, Padded: true},
	} {
		if !t.hasOption(what, options) {
			continue
		}
		used++
		for elements := 1; elements <= min(2, t.attr.MaxRecvSGE); elements++ {
			s := Stream{Count: 600, Min: 0, Span: 131, Elements: elements, Depth: 64, Reads: true}
			cfg := s.config()
			cfg.Completions = options
			t.link(cfg).stream(s, nil)
		}
		t.note("%s: data compared", what)
	}
	t.needsOne(used, "CQ with completions of 128 bytes")
}

// needsOne skips a check that has found nothing to use.
func (t *trial) needsOne(used int, what string) {
	if used == 0 {
		t.skip("there is no %s", what)
	}
}

func checkCompressed(t *trial) {
	used := 0
	for what, options := range map[string]mlx5dv.CQOptions{
		"compression with hash": {Compression: mlx5dv.CompressHash}, "compression with checksum": {Compression: mlx5dv.CompressChecksum},
		"compression with hash of 128 bytes": {Compression: mlx5dv.CompressHash, EntrySize: 128},
	} {
		if !t.hasOption(what, options) {
			continue
		}
		used++
		for _, size := range []int{1, 200} { // the device does not compress completions that have data
			s := Stream{Count: 1500, Min: size, Span: 100, Elements: 1, Depth: 64}
			cfg := s.config()
			cfg.Completions = options
			t.link(cfg).stream(s, nil)
		}
		t.note("%s: data compared", what)
	}
	t.needsOne(used, "CQ with compressed completions")
}

// stamp is the timestamp of a completion. The completion was made between two times of the host.
type stamp struct {
	device       uint64
	posted, seen time.Time
}

func checkTimestamps(t *trial) {
	used := 0
	for what, options := range map[string]mlx5dv.CQOptions{"free-running clock": {EntrySize: 64}, "wall clock": {RealTime: true}} {
		if !t.hasOption(what, options) {
			continue
		}
		tick := 1.0 // ns
		if !options.RealTime {
			if t.attr.CoreClock == 0 {
				t.note("%s: the kernel does not return its frequency", what)
				continue
			}
			tick = 1e6 / float64(t.attr.CoreClock)
		}
		used++
		stamps := t.stamps(options)
		rate, err := clockRate(stamps, tick)
		t.must(what, err)
		t.note("%s: %.5f of the host's", what, rate)
		if last := stamps[len(stamps)-1]; options.RealTime {
			t.note("%s: %v ahead of the host's", what, time.Unix(0, int64(last.device)).Sub(last.seen).Round(time.Microsecond))
		}
	}
	t.needsOne(used, "CQ with timestamps")
}

// stamps returns timestamps of completions over about a second.
func (t *trial) stamps(options mlx5dv.CQOptions) []stamp {
	l := t.link(Config{Completions: options})
	cq, err := mlx5dv.FromCQ(l.sendCQ)
	t.must("use the CQ", err)
	var list []stamp
	var cs [1]mlx5dv.Completion
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
		s := stamp{posted: time.Now()}
		l.post(signaled(l.write(piece{0, 8}, 0)))
		for n := 0; n == 0; {
			n, err = cq.PollExtended(cs[:])
			t.must("poll", err)
			if time.Since(s.posted) > patience {
				t.fail("no completion in %v%s", patience, l.kick())
			}
		}
		s.seen = time.Now()
		t.must("WRITE", cs[0].Err())
		s.device = cs[0].Timestamp
		list = append(list, s)
	}
	return list
}

// clockTolerance is the difference of the rates of two clocks that is accepted.
const clockTolerance = 0.01

// clockRate returns the rate of the device's clock, as a multiple of the host's. The error is nil if the clock never
// goes back, and if the rate can be 1 within the tolerance, whenever the completions were made.
func clockRate(stamps []stamp, tick float64) (float64, error) {
	for i := 1; i < len(stamps); i++ {
		if stamps[i].device < stamps[i-1].device {
			return 0, fmt.Errorf("timestamp %d is %d after %d", i, stamps[i].device, stamps[i-1].device)
		}
	}
	first, last := stamps[0], stamps[len(stamps)-1]
	device := time.Duration(float64(last.device-first.device) * tick)
	least, most := last.posted.Sub(first.seen), last.seen.Sub(first.posted)
	slack := time.Duration(clockTolerance*float64(most)) + time.Duration(tick)
	if device < least-slack || device > most+slack {
		return 0, fmt.Errorf("%v passed on the device while %v to %v passed on the host", device, least, most)
	}
	return float64(device) / float64((least+most)/2), nil
}

func needsModeration(t *trial) string {
	if t.attr.MaxCQCount == 0 || t.attr.MaxCQPeriod == 0 {
		return "the device does not moderate events"
	}
	cq, err := newCQ(t.dev, 64, mlx5dv.CQOptions{})
	t.must("create a CQ", err)
	t.later(cq.Close)
	if err := cq.Moderate(1, 0); errors.Is(err, errors.ErrUnsupported) {
		return fmt.Sprintf("the device does not moderate events: %v", err)
	}
	return ""
}

func checkModeration(t *trial) {
	l := t.link(Config{})
	l.sendCQ.SetSpin(0)
	var wcs [16]verbs.WC
	for _, m := range []struct {
		count  int
		period time.Duration
	}{{1, 0}, {4, time.Millisecond}, {16, 4 * time.Millisecond}, {1000, time.Millisecond}, {0, 0}} {
		count, period := min(m.count, t.attr.MaxCQCount), min(m.period, t.attr.MaxCQPeriod)
		t.must("moderate", l.sendCQ.Moderate(count, period))
		before := l.sendCQ.Stats()
		total := 0
		for round := range 60 {
			n := 1 + round%16
			total += n
			for range n {
				l.post(signaled(l.write(piece{0, 8}, 0)))
			}
			for got := 0; got < n; {
				k, err := waitSome(t.ctx, l.sendCQ, wcs[:n-got])
				if err != nil {
					t.fail("moderation of %d completions or %v: after %d of %d completions: %v", count, period, got, n, err)
				}
				l.succeeded("WRITE", wcs[:k])
				got += k
			}
		}
		t.note("%d completions or %v: %d wake-ups for %d completions", count, period, l.sendCQ.Stats().Wakeups-before.Wakeups, total)
	}
}

// needsOverrunEvent excludes drivers without the event. bnxt_re drops it (docs/reference/driver-faults.md). An eRDMA adapter gets the
// consumer index only when the CQ is armed, so it cannot detect an overrun.
func needsOverrunEvent(t *trial) string {
	switch t.dev.DriverID() {
	case abi.RDMA_DRIVER_BNXT_RE:
		return "bnxt_re reports no overruns"
	case abi.RDMA_DRIVER_ERDMA:
		return "erdma reports no overruns"
	}
	return ""
}

func checkOverrun(t *trial) {
	l := t.link(Config{SendEntries: 3})
	events, err := l.dev.AsyncEvents()
	t.must("open asynchronous events", err)
	t.later(events.Close)
	posted := l.sendCQ.Entries() + 2
	if posted > l.cfg.Cap.SendWR {
		t.skip("the smallest CQ has %d entries, more than a send queue", l.sendCQ.Entries())
	}
	for range posted {
		l.post(signaled(l.write(piece{0, 8}, 0)))
	}
	t.wantEvent(events, "an overrun", func(e verbs.AsyncEvent) bool { return e.Type == verbs.AsyncCQErr && e.CQ == l.sendCQ })
	got := 0
	var wcs [1]verbs.WC
	for {
		n, err := waitSome(t.ctx, l.sendCQ, wcs[:])
		if errors.Is(err, verbs.ErrOverrun) {
			break
		}
		t.must("wait after an overrun", err)
		if got += n; got >= posted {
			t.fail("%d completions in a CQ of %d, want an overrun", got, l.sendCQ.Entries())
		}
	}
	t.note("%d of %d completions in a CQ of %d", got, posted, l.sendCQ.Entries())
}
