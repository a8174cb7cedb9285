// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/internal/leak"
	"purerdma/provider"
)

// CQConfig configures a CQ.
type CQConfig struct {
	// Entries is the number of completions that must fit. The kernel may round it up. If more
	// completions come, the CQ overruns and loses completions. It should have room for all requests
	// of its QPs. After an overrun, Poll and Wait return the completions that fit and then
	// ErrOverrun. Device.AsyncEvents reports AsyncCQErr. 0 means 256.
	Entries int
	// Channel is the channel that the CQ shares with others. With nil the CQ has one of its own,
	// and so a file descriptor.
	Channel *CompChannel
	// NoEvents makes a CQ without a channel. It can only be polled.
	NoEvents bool
	// Vector chooses the interrupt, from 0, of a device that has several.
	Vector int
	// Unlocked promises that only one goroutine polls the CQ and resets and closes its QPs
	// (IBV_CREATE_CQ_ATTR_SINGLE_THREADED of ibv_create_cq_ex(3)). Providers that poll without
	// system calls then take no lock. The methods that wait also poll.
	Unlocked bool
	// Spin bounds how long Wait polls before it sleeps, as SetSpin does. 0 means 10 microseconds. A
	// negative value means that Wait does not poll.
	Spin time.Duration
}

// CQ is a completion queue (ibv_create_cq(3)). Its methods may be called
// concurrently.
type CQ struct {
	dev    *deviceContext
	p      provider.CQ
	ch     *CompChannel // nil with NoEvents
	ownsCh bool
	handle uint64 // user handle
	refs   refs
	leak   *leak.Entry
	done   chan struct{} // closed by Close
	closed atomic.Bool   // likewise

	waiters    atomic.Int32
	notify     chan struct{} // one token: look at the queue
	spin       spin
	hook       cdev.Hook // of the wait that reads the channel
	overrun    atomic.Bool
	empty      atomic.Uint64 // counts the polls that found nothing
	waits      atomic.Uint64 // counts the waits that found nothing in their first poll
	wakeups    atomic.Uint64 // counts the events of the CQ
	starvation cdev.StarvationProbe

	dispatch dispatcher

	armMu sync.Mutex
	armed bool  // an event for the next completion is requested and not yet read
	arms  int64 // its part of the channel's arms
}

// CreateCQ makes a completion queue. The caller closes it.
func (d *Device) CreateCQ(cfg CQConfig) (*CQ, error) { return d.createVendorCQ(cfg, nil) }

// createVendorCQ is CreateCQ with options of the device's driver.
func (d *Device) createVendorCQ(cfg CQConfig, options any) (*CQ, error) {
	c, err := d.createCQ(cfg, options)
	return c, d.opError("create CQ on", err)
}

func (d *Device) createCQ(cfg CQConfig, options any) (*CQ, error) {
	if cfg.Entries == 0 {
		cfg.Entries = 256
	}
	if err := d.checkEntries(cfg.Entries); err != nil {
		return nil, err
	}
	if err := d.checkVector(cfg.Vector); err != nil {
		return nil, err
	}
	ch, owns := cfg.Channel, false
	switch {
	case cfg.NoEvents && ch != nil:
		return nil, fmt.Errorf("a channel and NoEvents: %w", syscall.EINVAL)
	case ch != nil && ch.dev != d.deviceContext:
		return nil, fmt.Errorf("completion channel of another device: %w", syscall.EINVAL)
	case ch == nil && !cfg.NoEvents:
		var err error
		if ch, err = d.CreateCompChannel(); err != nil {
			return nil, err
		}
		owns = true
	}
	c, err := d.newCQ(cfg, options, ch)
	if err != nil {
		if owns {
			ch.Close()
		}
		return nil, err
	}
	c.ownsCh = owns
	return c, nil
}

func (d *Device) newCQ(cfg CQConfig, options any, ch *CompChannel) (*CQ, error) {
	if err := d.hold(); err != nil {
		return nil, err
	}
	c := &CQ{
		dev:    d.deviceContext,
		ch:     ch,
		done:   make(chan struct{}),
		notify: make(chan struct{}, 1),
	}
	c.spin.init(cfg.Spin)
	c.handle = d.objects.add(c)
	pcfg := cqConfigs.get()
	defer cqConfigs.put(pcfg)
	*pcfg = provider.CQConfig{Entries: cfg.Entries, UserHandle: c.handle, Vector: uint32(cfg.Vector), Unlocked: cfg.Unlocked, Vendor: options}
	if ch != nil {
		if err := ch.refs.add(kindChannel); err != nil {
			d.objects.remove(c.handle)
			d.unref()
			return nil, err
		}
		pcfg.Channel = ch.ch
		pcfg.Wake = c.wakeAfterAdd
	}
	var err error
	if c.p, err = d.ctx.CreateCQ(pcfg); err != nil {
		return nil, errors.Join(d.queueError(err), c.forget(), d.unref())
	}
	c.leak = leak.Track("CQ", d.info.Name)
	d.objects.made(c.handle)
	return c, nil
}

// forget removes the CQ from its channel, and its events from the CQ.
func (c *CQ) forget() error {
	if c.p != nil {
		c.dev.removeCounted(c.handle, c)
	} else {
		c.dev.objects.remove(c.handle)
	}
	if c.ch == nil {
		return nil
	}
	c.armMu.Lock()
	c.ch.arms.Add(-c.arms)
	c.arms = 0
	c.armMu.Unlock()
	// Without arms the CQ cannot be queued there again.
	c.ch.mu.Lock()
	delete(c.ch.added, c)
	c.ch.mu.Unlock()
	return c.ch.refs.drop(kindChannel)
}

// Device returns the device of the CQ, which need not be closed.
func (c *CQ) Device() *Device { return c.dev.self }

// Provider returns the provider's CQ, for packages of vendor extensions such as mlx5dv.
func (c *CQ) Provider() provider.CQ { return c.p }

// Channel returns the completion channel, nil for a CQ with NoEvents.
func (c *CQ) Channel() *CompChannel { return c.ch }

// Resize changes the capacity to at least the given number of entries and keeps the queued
// completions (ibv_resize_cq(3)). The error for fewer entries than there are completions wraps
// EINVAL.
func (c *CQ) Resize(entries int) error {
	if err := c.dev.checkEntries(entries); err != nil {
		return c.dev.opError("resize CQ of", err)
	}
	return c.dev.opError("resize CQ of", c.dev.queueError(c.p.Resize(entries)))
}

// Moderate delays the events of the CQ until count completions have come, or period after the first
// of them (ibv_modify_cq(3)). Few devices can.
func (c *CQ) Moderate(count int, period time.Duration) error {
	us := period.Microseconds()
	if count < 0 || count > math.MaxUint16 || us < 0 || us > math.MaxUint16 {
		return c.dev.opError("moderate CQ of", fmt.Errorf("%d completions, %v: %w", count, period, syscall.EINVAL))
	}
	// The kernel reuses the handle of a closed CQ.
	return c.dev.opError("moderate CQ of", c.refs.whileOpen(func() error {
		return c.dev.file.ModifyCQ(c.p.Handle(), abi.UverbsCQModeration{CQCount: uint16(count), CQPeriod: uint16(us)})
	}))
}

// Entries returns how many completions fit.
func (c *CQ) Entries() int { return c.p.Entries() }

// SetSpin bounds how long Wait polls before it sleeps. Within the bound, the time adapts to how
// long recent completions took. 0 disables polling. CQConfig.Spin has the default. A wait that polls
// occupies its processor until the scheduler preempts it, after about 10 ms.
func (c *CQ) SetSpin(max time.Duration) { c.spin.set(max) }

// exclusive is bridge.Verbs.Exclusive.
func (c *CQ) exclusive() bool {
	c.refs.mu.Lock()
	defer c.refs.mu.Unlock()
	return c.refs.count[kindSendQueue]+c.refs.count[kindRecvQueue] <= 1
}

// lookPeriod is the number of empty polls between two calls of the scheduler. Polls take some 10 ns
// each, so it is about a millisecond. The call then costs little, and no goroutine waits long for
// the processor.
const lookPeriod = 1 << 17

// Poll takes up to len(wcs) completions out of the queue, oldest first, and returns their number
// (ibv_poll_cq(3)). It never blocks and allocates nothing. It returns ErrOverrun if the CQ is empty
// because it lost completions.
//
// A loop of polls occupies its processor until the scheduler preempts it, after about 10 ms.
// Therefore Poll yields from time to time if other goroutines may be waiting for a processor. A
// loop that only reads memory should also call Poll from time to time.
func (c *CQ) Poll(wcs []WC) (int, error) {
	var n int
	var err error
	if c.dispatch.active.Load() != 0 {
		n, err = c.poll(wcs, nil)
	} else if n, err = c.p.Poll(wcs); n > 0 && c.dispatch.active.Load() != 0 {
		n = c.pass(wcs, n)
	}
	if n == 0 {
		if c.empty.Add(1)%lookPeriod == 0 {
			c.starvation.Check()
		}
		if c.overrun.Load() {
			n, err = c.pollAfterOverrun(wcs, nil)
		}
	}
	if err != nil {
		return n, c.dev.opError("poll CQ of", err)
	}
	return n, nil
}

// Arm requests an event on the channel for the next completion (ibv_req_notify_cq(3)). With
// solicitedOnly, that is the next completion that a peer marked as solicited or that failed. siw
// does not support solicitedOnly, so there every completion causes an event. Completions that are
// already queued cause none, so poll again after arming. Arm is for users of CompChannel.Next. Wait
// arms by itself.
func (c *CQ) Arm(solicitedOnly bool) error {
	if c.ch == nil {
		return c.dev.opError("arm CQ of", errNoEvents)
	}
	// opError may close the device, which waits for readers that arm the CQ.
	c.armMu.Lock()
	c.countArm()
	err := c.p.Arm(solicitedOnly)
	c.armed = c.armed || err == nil && !solicitedOnly
	c.armMu.Unlock()
	return c.dev.opError("arm CQ of", err)
}

var errNoEvents = errors.New("the CQ has no completion channel")

// countArm counts an arm before the provider makes it, because its event may be read before the
// provider returns. After an error the count is one too high, which costs a read(2). The caller
// holds armMu.
func (c *CQ) countArm() {
	c.arms++
	c.ch.arms.Add(1)
}

// wakeAfterAdd wakes the CQ's waiters after the provider has queued completions itself. The kernel sends
// no event for those.
func (c *CQ) wakeAfterAdd() {
	c.armMu.Lock()
	if c.arms > 0 {
		c.ch.mu.Lock()
		c.ch.added[c] = struct{}{}
		c.ch.mu.Unlock()
	}
	c.armMu.Unlock()
	c.wake()
	// The reader is a waiter of some CQ of the channel, or one of the channel.
	c.ch.interrupt()
}

// markOverrun records that the CQ has lost completions, and wakes all waiters. It wakes one of
// them, and each waiter wakes another when it leaves.
func (c *CQ) markOverrun() {
	c.overrun.Store(true)
	if c.ch != nil {
		c.wakeAfterAdd()
	}
}

// pollAfterOverrun is Poll of a CQ that has overrun. It polls again, because the completions that fit came
// before the event.
func (c *CQ) pollAfterOverrun(wcs []WC, l *leader) (int, error) {
	n, err := c.poll(wcs, l)
	if n == 0 && err == nil {
		err = ErrOverrun
	}
	return n, err
}

// Close releases the CQ (ibv_destroy_cq(3)). Waits end with net.ErrClosed, and the CQ takes no more
// QPs. The CQ and its own channel are destroyed at once, or with the Close of the last QP or SRQ on
// it, which then returns the error of both. Close may be called more than once. After an error it
// tries again.
func (c *CQ) Close() error {
	if !c.closed.Swap(true) {
		close(c.done)
		if c.ch != nil {
			c.ch.interruptReader()
		}
	}
	err := c.refs.close(c)
	return c.dev.opError("destroy CQ of", errors.Join(err, c.closeChannel()))
}

func (c *CQ) destroy() error { return c.dev.destroyed(c.p.Close()) }

func (c *CQ) release() error {
	c.hook.Close()
	c.leak.Done()
	return errors.Join(c.forget(), c.dev.unref())
}

// closeChannel closes the CQ's own channel after the CQ has been destroyed.
func (c *CQ) closeChannel() error {
	if !c.ownsCh || !c.refs.isEnded() {
		return nil
	}
	return c.ch.Close()
}

// add counts a user of the CQ.
func (c *CQ) add(k childKind) error { return c.refs.add(k) }

// drop counts a user of the CQ less. If that was the last one of a closed CQ, the CQ ends.
func (c *CQ) drop(k childKind) error {
	err := c.refs.drop(k)
	if c.ownsCh {
		err = errors.Join(err, c.closeChannel())
	}
	return err
}

// retry destroys a closed CQ if drop has failed to do so.
func (c *CQ) retry() error { return errors.Join(c.refs.retry(), c.closeChannel()) }
