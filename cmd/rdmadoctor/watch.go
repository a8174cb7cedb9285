// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"purerdma/rdmanl"
)

// state holds the devices, connections and counters of the host at one time.
type state struct {
	time    time.Time
	devices []deviceState
}

// deviceState holds the objects of one device. Lists that the kernel refused are in problems.
type deviceState struct {
	rdmanl.Device
	ports    []portState
	summary  rdmanl.Summary
	ids      []rdmanl.CMID
	qps      []rdmanl.QP
	problems []string
}

// portState is one port with its counters.
type portState struct {
	rdmanl.Port
	counters []rdmanl.HWCounter // empty if the driver has none
}

// readState reads the state from the kernel. A device that is removed during the call has problems.
func readState(c *rdmanl.Conn) (state, error) {
	s := state{time: time.Now()}
	devices, err := c.Devices()
	if err != nil {
		return s, err
	}
	summaries, err := c.Summaries()
	if err != nil {
		return s, err
	}
	for _, d := range devices {
		ds := deviceState{Device: d}
		for _, sum := range summaries {
			if sum.Device == d.Index {
				ds.summary = sum
			}
		}
		failed := func(err error) {
			if err != nil {
				ds.problems = append(ds.problems, err.Error())
			}
		}
		ports, err := c.Ports(d.Index)
		failed(err)
		for _, p := range ports {
			// The only error of an existing port is that its driver has no counters.
			counters, _ := c.HWCounters(d.Index, p.Number)
			ds.ports = append(ds.ports, portState{p, counters})
		}
		ds.ids, err = c.CMIDs(d.Index)
		failed(err)
		ds.qps, err = c.QPs(d.Index)
		failed(err)
		// The driver's own QPs are not in the summary.
		ds.qps = slices.DeleteFunc(ds.qps, func(q rdmanl.QP) bool { return q.Type == rdmanl.QPDriver && q.Kernel != "" })
		s.devices = append(s.devices, ds)
	}
	return s, nil
}

// watch prints the state in each interval until ctx ends. On a terminal it redraws the screen.
func watch(ctx context.Context, interval time.Duration, stdout io.Writer) error {
	c, err := rdmanl.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	read := func() (state, error) { return readState(c) }
	return watchStates(ctx, read, interval, newScreen(stdout))
}

// watchStates prints a table for each state that read returns.
func watchStates(ctx context.Context, read func() (state, error), interval time.Duration, out *screen) error {
	if err := out.open(); err != nil {
		return err
	}
	defer out.close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var before state
	for {
		now, err := read()
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%s  %d RDMA devices, every %v", now.time.Format(time.DateTime), len(now.devices), interval)
		if err := out.show(append([]string{title, ""}, table(now, before)...)); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
