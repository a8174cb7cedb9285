// SPDX-License-Identifier: Apache-2.0

// Package lograte counts events that a peer or a faulty device can cause at any rate, and
// limits how many of them are logged.
package lograte

import (
	"sync"
	"time"
)

// Interval is the least time between two log records of a Counter.
const Interval = time.Second

// Counter counts events of one kind. The zero Counter is ready for use. Its methods may be
// called concurrently.
type Counter struct {
	mu    sync.Mutex
	total uint64
	since uint64    // counted since the last record
	next  time.Time // when the next record may be written
}

// Add counts an event and reports whether it is to be logged. since is then the number of events
// since the last record, this one included.
func (c *Counter) Add() (since uint64, log bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.since++
	since = c.since
	if now.Before(c.next) {
		return since, false
	}
	c.since, c.next = 0, now.Add(Interval)
	return since, true
}

// Total returns the number of events.
func (c *Counter) Total() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
