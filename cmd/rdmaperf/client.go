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

// What goes before the messages that count, on each QP: so many of them, of large
// ones so many bytes, and no more than those that count.
const (
	warmUp      = 100
	warmUpBytes = 16 << 20
)

// result is what a test of one size has found. Times are microseconds.
type result struct {
	Test     string  `json:"test"`
	Size     int     `json:"bytes"`
	Messages uint64  `json:"messages"`
	Seconds  float64 `json:"seconds"`
	// Rates, of bandwidth tests: MiB and millions of messages a second.
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

// client is the side that measures.
type client struct {
	*options
	way  clientWay
	end  *end
	hist histogram
}

// clientWay is how the client reaches the server, and connects its QPs.
type clientWay interface {
	control
	// memory says on which device and PD the QPs are.
	memory() (*verbs.Device, *verbs.PD)
	// agree lowers what a plan says of the path to what this side can do.
	agree(*plan) error
	// connect makes the n QPs of an end, and connects them. The server has said
	// which token names the client.
	connect(ctx context.Context, e *end, n int, token uint64) error
}

// measure connects and runs all sizes. Each result is told as it comes; begun is
// told what to watch meanwhile.
func measure(ctx context.Context, o *options, begun func(*end), report func(result) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := newClient(ctx, o)
	if err != nil {
		return err
	}
	defer c.close()
	// A server that leaves ends loops that poll.
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
	begun(c.end)
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

// leave tells the server that this is all, and waits until that has left, by which ctx
// ends: it is the server that disconnects, because its last answer may not have
// completed, though it is here, and would be flushed. So may what it is told now: a
// server that leaves has heard it.
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

// setUp makes the QPs and connects them.
func (c *client) setUp(ctx context.Context) (err error) {
	if err := c.way.agree(&c.plan); err != nil {
		return err
	}
	dev, pd := c.way.memory()
	if c.end, err = newEnd(c.plan, dev, pd, true); err != nil {
		return err
	}
	m, err := ask(ctx, c.way, message{Plan: &c.plan})
	if err != nil {
		return err
	}
	if m.Plan != nil { // only the path may differ
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
	_, err = ask(ctx, c.way, message{Memory: c.end.mr.Remote()})
	return err
}

// size measures one size.
func (c *client) size(ctx context.Context, size int) (result, error) {
	e := c.end
	for _, l := range e.lanes {
		clear(e.incomingBytes(l, size))
		fill(l.out[:size], seedWarm)
	}
	if _, err := ask(ctx, c.way, message{Size: size}); err != nil {
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
		return r, fmt.Errorf("%d messages were sent, and %d of %d bytes in all have come", sent, m.Messages, m.Bytes)
	}
	if e.Verify && (e.kind.opcode == verbs.OpRead || e.kind.echo) {
		err = e.verify(size, seedServer)
	}
	return r, err
}

// finish tells the server how many messages there are of a size, and returns its
// answer. A server that waits for messages gets the last ones after that.
func (c *client) finish(ctx context.Context, size int, sent uint64) (message, uint64, error) {
	if !c.kind.active() {
		m, err := ask(ctx, c.way, message{Sent: sent})
		return m, sent, err
	}
	sent += uint64(c.QPs)
	if _, err := ask(ctx, c.way, message{Sent: sent}); err != nil {
		return message{}, sent, err
	}
	if _, _, err := c.run(ctx, size, 1, 0); err != nil {
		return message{}, sent, err
	}
	m, err := c.way.receive(ctx)
	return m, sent, err
}

// run runs once.
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
