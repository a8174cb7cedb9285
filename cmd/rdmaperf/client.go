// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"purerdma/cm"
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
	ctl  control
	end  *end
	hist histogram
}

// measure connects and runs all sizes. Each result is told as it comes; begun is
// told what to watch meanwhile.
func measure(ctx context.Context, o *options, begun func(*end), report func(result) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &client{options: o}
	d := &cm.Dialer{}
	if o.source != "" {
		addr, err := netip.ParseAddr(o.source)
		if err != nil {
			return fmt.Errorf("-B: %w", err)
		}
		d.LocalAddr = cm.AddrFrom(netip.AddrPortFrom(addr, 0))
	}
	if err := c.greet(ctx, d); err != nil {
		return err
	}
	defer c.ctl.close()
	// A server that leaves ends loops that poll.
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.ctl.conn.Done():
			cancel(errors.New("the server has left"))
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(nil); <-watched }()
	err = c.setUp(ctx, d)
	if c.end != nil {
		defer c.end.close()
	}
	if err != nil {
		return err
	}
	defer c.end.breakAtEnd(ctx)()
	begun(c.end)
	for _, size := range o.sizes {
		r, err := c.size(ctx, size)
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", o.Test, size, err)
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return c.ctl.send(ctx, message{})
}

func (o *options) address() string { return net.JoinHostPort(o.server, strconv.Itoa(o.port)) }

// greet makes the connection of control.
func (c *client) greet(ctx context.Context, d *cm.Dialer) error {
	r, err := d.Resolve(ctx, "tcp", c.address())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := c.ctl.prepare(r); err != nil {
		return err
	}
	param := cm.DefaultConnParam()
	param.PrivateData = []byte(magic + "\x00")
	if c.ctl.conn, err = r.Connect(ctx, nil, &param); err != nil {
		c.ctl.close()
	}
	return err
}

// setUp makes the QPs and connects them.
func (c *client) setUp(ctx context.Context, d *cm.Dialer) (err error) {
	conn := c.ctl.conn
	if c.end, err = newEnd(c.plan, conn.Device(), conn.PD(), true); err != nil {
		return err
	}
	m, err := c.ctl.ask(ctx, message{Plan: &c.plan})
	if err != nil {
		return err
	}
	param := cm.DefaultConnParam()
	param.PrivateData = binary.BigEndian.AppendUint64([]byte(magic), m.Token)
	for i := range c.QPs {
		if err := c.connect(ctx, d, &param); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
		l := c.end.lanes[i]
		l.remote, l.rkey = m.Addr+uint64(c.incoming(i)), m.RKey
		if c.kind.opcode == verbs.OpRead {
			l.remote = m.Addr + uint64(c.outgoing(i))
		}
	}
	_, err = c.ctl.ask(ctx, message{Addr: c.end.mr.Addr(), RKey: c.end.mr.RKey()})
	return err
}

func (c *client) connect(ctx context.Context, d *cm.Dialer, param *cm.ConnParam) error {
	r, err := d.Resolve(ctx, "tcp", c.address())
	if err != nil {
		return err
	}
	defer r.Close()
	l, err := c.end.newLane(r)
	if err != nil {
		return err
	}
	l.conn, err = r.Connect(ctx, l.qp, param)
	return err
}

// size measures one size.
func (c *client) size(ctx context.Context, size int) (result, error) {
	e := c.end
	for _, l := range e.lanes {
		clear(e.incomingBytes(l, size))
		fill(l.out[:size], seedWarm)
	}
	if _, err := c.ctl.ask(ctx, message{Size: size}); err != nil {
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
		m, err := c.ctl.ask(ctx, message{Sent: sent})
		return m, sent, err
	}
	sent += uint64(c.QPs)
	if _, err := c.ctl.ask(ctx, message{Sent: sent}); err != nil {
		return message{}, sent, err
	}
	if _, _, err := c.run(ctx, size, 1, 0); err != nil {
		return message{}, sent, err
	}
	m, err := c.ctl.receive(ctx)
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
