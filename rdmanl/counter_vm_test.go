// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rdmanl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/rdmanl"
	"purerdma/verbs"
)

// compareCounters compares the counters and the settings of all ports with rdma(8). It returns the counters.
func compareCounters(t *testing.T, c *rdmanl.Conn) []object {
	t.Helper()
	devices, err := c.Devices()
	must(t, "Devices", err)
	var counters []object
	for _, l := range listings {
		if l.args != "statistic qp show" && l.args != "statistic qp mode" {
			continue
		}
		var ours, theirs []object
		await(t, func() error {
			before, err := l.list(c, devices)
			if err != nil {
				return err
			}
			theirs = rdma(t, l)
			for _, o := range theirs {
				// Newer releases of rdma(8) add this in the automatic mode, also on kernels without the setting.
				o["mode"] = strings.TrimSuffix(o["mode"], " optional-counters off")
				if o["mode"] == "" {
					delete(o, "mode")
				}
			}
			if ours, err = l.list(c, devices); err != nil {
				return err
			}
			if diff := difference(before, ours); diff != "" {
				return fmt.Errorf("the objects change: %s", diff)
			}
			return nil
		})
		checkSame(t, l, ours, theirs)
		if strings.HasSuffix(l.args, "show") {
			counters = ours
		}
	}
	return counters
}

// TestVMCounters binds a QP to a counter, and lets the kernel bind the QPs of a connection.
func TestVMCounters(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	find(t, "rdma")
	c := dial(t)
	d := device(t, c, hosts[0])
	dev, err := verbs.DefaultHost().Open(d.Name)
	must(t, "Open", err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	must(t, "AllocPD", err)
	defer pd.Close()
	q, err := pd.CreateQP(verbs.QPConfig{})
	must(t, "CreateQP", err)
	defer q.Close()
	const port = 1
	n, err := c.BindQP(d.Index, port, q.Num(), rdmanl.NewCounter)
	if vmtest.Driver() != "mlx5" {
		if err == nil {
			t.Errorf("BindQP(%d) = %d, want an error of a driver without counters of QPs", q.Num(), n)
		}
		return
	}
	must(t, "BindQP", err)
	list, err := c.Counters(d.Index, port)
	must(t, "Counters", err)
	if len(list) != 1 || list[0].Number != n || list[0].Mode != rdmanl.CounterManual || !slices.Equal(list[0].QPs, []uint32{q.Num()}) || len(list[0].Values) == 0 {
		t.Errorf("Counters() = %+v, want counter %d with QP %d and values", list, n, q.Num())
	}
	if s, err := c.CounterSettings(d.Index, port); err != nil || s.Mode != rdmanl.CounterManual {
		t.Errorf("CounterSettings() = %+v, %v, want the mode %v", s, err, rdmanl.CounterManual)
	}
	if got := compareCounters(t, c); len(got) != 1 || got[0]["lqpn"] != fmt.Sprint(q.Num()) {
		t.Errorf("counters = %v, want one with QP %d", got, q.Num())
	}
	must(t, "UnbindQP", c.UnbindQP(d.Index, port, q.Num(), n))
	if list, err := c.Counters(d.Index, port); err != nil || len(list) != 0 {
		t.Errorf("Counters() after UnbindQP = %+v, %v, want none", list, err)
	}

	must(t, "SetCounterAuto", c.SetCounterAuto(d.Index, port, rdmanl.CounterByQPType|rdmanl.CounterByPID, false))
	defer func() { must(t, "SetCounterAuto(0)", c.SetCounterAuto(d.Index, port, 0, false)) }()
	if s, err := c.CounterSettings(d.Index, port); err != nil || s.Mode != rdmanl.CounterAuto || s.Mask != rdmanl.CounterByQPType|rdmanl.CounterByPID {
		t.Errorf("CounterSettings() = %+v, %v, want the mode %v by type and process", s, err, rdmanl.CounterAuto)
	}
	connect(t, hosts)
	got := compareCounters(t, c)
	if len(got) != 1 || got[0]["qp-type"] != "RC" || got[0]["pid"] == "" || got[0]["lqpn"] == "" {
		t.Errorf("counters = %v, want one of the QPs of type RC of this process", got)
	}
}

// TestVMCounterStatus compares the counters of a port with their status, and refuses to turn a fixed counter on.
func TestVMCounterStatus(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	c := dial(t)
	d := device(t, c, hosts[0])
	values, err := c.HWCounters(d.Index, 1)
	status, err2 := c.HWCounterStatus(d.Index, 1)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("HWCounters() = %v, HWCounterStatus() = %v, want both or none", err, err2)
	}
	if err != nil {
		return // the driver has no counters
	}
	var enabled []string
	for _, s := range status {
		if s.Enabled {
			enabled = append(enabled, s.Name)
		}
	}
	var names []string
	for _, v := range values {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, enabled) || len(names) == 0 {
		t.Errorf("names of HWCounters() = %q, enabled in HWCounterStatus() = %q, want equal names", names, enabled)
	}
	if i := slices.IndexFunc(status, func(s rdmanl.HWCounterStatus) bool { return !s.Optional }); i >= 0 {
		if err := c.SetOptionalCounters(d.Index, 1, status[i].Index); err == nil {
			t.Errorf("SetOptionalCounters(%s) = nil, want an error for a counter that is not optional", status[i].Name)
		}
	}
}
