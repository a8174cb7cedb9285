// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"purerdma/verbs"
)

// Limits of the warm-up before the measured messages, on each QP. The warm-up sends at most as
// many messages as the measurement, and fewer if they are large.
const (
	warmUp      = 100
	warmUpBytes = 16 << 20
)

// result is the result of a test of one size. Times are in microseconds.
type result struct {
	Test     string  `json:"test"`
	Size     int     `json:"bytes"`
	Messages uint64  `json:"messages"`
	Seconds  float64 `json:"seconds"`
	// Rates of bandwidth tests, in MiB and millions of messages a second.
	Peak    float64  `json:"peak_mib,omitempty"`
	Average float64  `json:"average_mib,omitempty"`
	Rate    float64  `json:"mpps,omitempty"`
	Latency *latency `json:"latency_us,omitempty"`
}

// latency is the distribution of times, in microseconds.
type latency struct {
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Mean  float64 `json:"mean"`
	Stdev float64 `json:"stdev"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
}

// client is the measuring side.
type client struct {
	*options
	way  clientWay
	end  *end
	hist histogram
}

// clientWay reaches the server and connects the QPs.
type clientWay interface {
	control
	// memory returns the device and the PD of the QPs.
	memory() (*verbs.Device, *verbs.PD)
	// agree lowers the path options of a plan to the abilities of this side.
	agree(*plan) error
	// connect creates and connects the n QPs of an end. The token from the server identifies
	// this client.
	connect(ctx context.Context, e *end, n int, token uint64) error
}

// measure connects and runs all sizes. It passes each result to report as it arrives, and the
// end to started, for progress.
func measure(ctx context.Context, o *options, started func(*end), report func(result) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := newClient(ctx, o)
	if err != nil {
		return err
	}
	defer c.close()
	// If the server leaves, stop the loops that poll.
	watched := make(chan struct{})
	defer func() { cancel(nil); <-watched }()
	go func() {
		defer close(watched)
		select {
		case <-c.way.done():
			cancel(errors.New("the server has left"))
		case <-ctx.Done():
		}
	}()
	if err := c.setUp(ctx); err != nil {
		return err
	}
	started(c.end)
	if err := c.all(ctx, cancel, report); err != nil {
		return err
	}
	return c.leave(ctx)
}

// all measures all sizes. cancel ends ctx.
func (c *client) all(ctx context.Context, cancel context.CancelCauseFunc, report func(result) error) error {
	defer c.end.breakAtEnd(ctx)()
	defer c.end.watchLoss(ctx, cancel)()
	for _, size := range c.sizes {
		r, err := c.size(ctx, size)
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", c.Test, size, err)
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// leave announces the end to the server and waits until the server has disconnected, which ends
// ctx. The server disconnects first. Its last answer may have arrived without having completed
// on its side, and would be flushed. The client's announcement may be flushed likewise. If the
// server leaves, it has received the announcement.
func (c *client) leave(ctx context.Context) error {
	err := c.way.send(ctx, message{})
	select {
	case <-ctx.Done():
	case <-time.After(settleTime):
	}
	select {
	case <-c.way.done():
		return nil
	default:
		return err
	}
}

func (o *options) address() string { return net.JoinHostPort(o.server, strconv.Itoa(o.port)) }

// newClient reaches the server.
func newClient(ctx context.Context, o *options) (*client, error) {
	c := &client{options: o}
	var err error
	if o.CM {
		c.way, err = dialCM(ctx, o)
	} else {
		c.way, err = dialTCP(ctx, o)
	}
	return c, err
}

func (c *client) close() {
	if c.end != nil {
		c.end.close()
	}
	c.way.close()
}

// setUp creates the QPs and connects them.
func (c *client) setUp(ctx context.Context) (err error) {
	if err := c.way.agree(&c.plan); err != nil {
		return err
	}
	dev, pd := c.way.memory()
	if c.end, err = newEnd(c.plan, dev, pd, true); err != nil {
		return err
	}
	m, err := request(ctx, c.way, message{Plan: &c.plan})
	if err != nil {
		return err
	}
	if m.Plan != nil { // only the path options may differ
		c.MTU, c.RdAtomic = m.Plan.MTU, m.Plan.RdAtomic
		if err := c.way.agree(&c.plan); err != nil {
			return err
		}
	}
	if err := c.way.connect(ctx, c.end, c.QPs, m.Token); err != nil {
		return err
	}
	if err := c.end.use(m.Memory); err != nil {
		return err
	}
	_, err = request(ctx, c.way, message{Memory: c.end.mr.Remote()})
	return err
}

// size measures one size.
func (c *client) size(ctx context.Context, size int) (result, error) {
	e := c.end
	for _, l := range e.lanes {
		clear(e.incomingBytes(l, size))
		fill(l.out[:size], seedWarm)
	}
	if _, err := request(ctx, c.way, message{Size: size}); err != nil {
		return result{}, err
	}
	first := max(1, min(warmUp, warmUpBytes/size))
	if c.count > 0 {
		first = min(first, c.count)
	}
	warm, _, err := c.run(ctx, size, uint64(first), 0)
	if err != nil {
		return result{}, err
	}
	for _, l := range e.lanes {
		fill(l.out[:size], seedClient)
	}
	e.done.Store(0)
	sent, r, err := c.run(ctx, size, uint64(c.count), c.duration)
	if err != nil {
		return r, err
	}
	m, sent, err := c.finish(ctx, size, sent+warm)
	switch {
	case err != nil:
		return r, err
	case e.kind.Op == "send" && (m.Messages != sent || m.Bytes != sent*uint64(size)):
		return r, fmt.Errorf("%d messages were sent, but %d messages with %d bytes in total arrived", sent, m.Messages, m.Bytes)
	}
	if e.Verify && (e.kind.opcode == verbs.OpRead || e.kind.echo) {
		err = e.verify(size, seedServer)
	}
	return r, err
}

// finish sends the number of messages of a size to the server and returns the server's answer.
// A server that waits for messages gets the last ones after that.
func (c *client) finish(ctx context.Context, size int, sent uint64) (message, uint64, error) {
	if !c.kind.active() {
		m, err := request(ctx, c.way, message{Sent: sent})
		return m, sent, err
	}
	sent += uint64(c.QPs)
	if _, err := request(ctx, c.way, message{Sent: sent}); err != nil {
		return message{}, sent, err
	}
	if _, _, err := c.run(ctx, size, 1, 0); err != nil {
		return message{}, sent, err
	}
	m, err := c.way.receive(ctx)
	return m, sent, err
}

// run runs one measurement or warm-up.
func (c *client) run(ctx context.Context, size int, count uint64, limit time.Duration) (uint64, result, error) {
	r := result{Test: c.Test, Size: size}
	var took time.Duration
	var err error
	if c.kind.Latency {
		c.hist.reset()
		r.Messages, took, err = c.end.oneByOne(ctx, size, count, limit, &c.hist)
		r.Latency = c.hist.summary()
	} else {
		r.Messages, took, r.Peak, err = c.end.stream(ctx, size, count, limit)
		rate := float64(r.Messages) / max(took, 1).Seconds()
		mib := float64(size) / (1 << 20)
		r.Peak, r.Average, r.Rate = max(r.Peak, rate)*mib, rate*mib, rate/1e6
	}
	r.Seconds = took.Seconds()
	return r.Messages, r, err
}

// summary returns the distribution.
func (h *histogram) summary() *latency {
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return &latency{Min: us(h.min), Max: us(h.max), Mean: h.mean() / 1e3, Stdev: h.deviation() / 1e3,
		P50: us(h.percentile(50)), P90: us(h.percentile(90)), P99: us(h.percentile(99)), P999: us(h.percentile(99.9))}
}
