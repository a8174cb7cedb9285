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

// CQConfig says how to make a CQ.
type CQConfig struct {
	// Entries is how many completions must fit; the kernel may round it up. If
	// more come than fit, the CQ is broken, and completions are lost: it should hold
	// all requests of its QPs. That it happened, Poll and Wait say by ErrOverrun when
	// they have given what did fit, and AsyncCQErr to who reads Device.AsyncEvents. 0
	// means 256.
	Entries int
	// Channel is the channel that the CQ shares with others. With nil the CQ
	// has one of its own, and so a file descriptor.
	Channel *CompChannel
	// NoEvents makes a CQ without a channel: it can only be polled.
	NoEvents bool
	// Vector chooses the interrupt, from 0, of a device that has several.
	Vector int
	// Unlocked says that one goroutine alone polls the CQ, and resets and closes its
	// QPs (IBV_CREATE_CQ_ATTR_SINGLE_THREADED of ibv_create_cq_ex(3)). A device that
	// is driven without system calls then polls without a lock. The methods that wait
	// poll, too.
	Unlocked bool
}

// CQ is a completion queue (ibv_create_cq(3)). Its methods may be called
// concurrently.
type CQ struct {
	dev    *shared
	p      provider.CQ
	ch     *CompChannel // nil with NoEvents
	ownsCh bool
	handle uint64 // user handle
	users  users
	leak   *leak.Entry
	done   chan struct{} // closed by Close
	closed atomic.Bool   // the same

	waiters atomic.Int32
	notify  chan struct{} // one token: look at the queue
	spin    spin
	hook    cdev.Hook // of the wait that reads the channel
	overrun atomic.Bool
	empty   atomic.Uint32 // counts the polls that found nothing
	lookout *cdev.Lookout

	dispatch dispatcher

	armMu sync.Mutex
	armed bool  // an event for the next completion was asked for and not yet read
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
	case ch != nil && ch.dev != d.shared:
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
		dev:    d.shared,
		ch:     ch,
		done:   make(chan struct{}),
		notify: make(chan struct{}, 1),

		lookout: cdev.NewLookout(),
	}
	c.spin.init()
	c.handle = d.objects.add(c)
	pcfg := &provider.CQConfig{Entries: cfg.Entries, UserHandle: c.handle, Vector: uint32(cfg.Vector), Unlocked: cfg.Unlocked, Vendor: options}
	if ch != nil {
		if err := ch.users.add(kindChannel); err != nil {
			d.objects.remove(c.handle)
			d.unref()
			return nil, err
		}
		pcfg.Channel = ch.ch
		pcfg.Wake = c.added
	}
	var err error
	if c.p, err = d.ctx.CreateCQ(pcfg); err != nil {
		return nil, errors.Join(d.queueError(err), c.forget(), d.unref())
	}
	c.leak = leak.Track("CQ", d.info.Name)
	d.objects.made(c.handle)
	return c, nil
}

// forget takes the CQ off its channel, and its events off the CQ.
func (c *CQ) forget() error {
	c.dev.objects.remove(c.handle)
	if c.ch == nil {
		return nil
	}
	c.armMu.Lock()
	c.ch.arms.Add(-c.arms)
	c.arms = 0
	c.armMu.Unlock()
	// With no arms nobody puts it there again.
	c.ch.mu.Lock()
	delete(c.ch.added, c)
	c.ch.mu.Unlock()
	return c.ch.users.drop(kindChannel)
}

// Device returns the device of the CQ, which need not be closed.
func (c *CQ) Device() *Device { return c.dev.self }

// Provider returns the provider's CQ, for packages of vendor extensions such as mlx5dv.
func (c *CQ) Provider() provider.CQ { return c.p }

// Channel returns the completion channel, nil for a CQ with NoEvents.
func (c *CQ) Channel() *CompChannel { return c.ch }

// Resize makes the queue one of at least that many entries; completions that are
// there stay (ibv_resize_cq(3)). Fewer than there are completions give an error
// that wraps EINVAL.
func (c *CQ) Resize(entries int) error {
	if err := c.dev.checkEntries(entries); err != nil {
		return c.dev.opError("resize CQ of", err)
	}
	return c.dev.opError("resize CQ of", c.dev.queueError(c.p.Resize(entries)))
}

// Moderate has the CQ give its events only after count completions, or period
// after the first of them (ibv_modify_cq(3)). Few devices can.
func (c *CQ) Moderate(count int, period time.Duration) error {
	us := period.Microseconds()
	if count < 0 || count > math.MaxUint16 || us < 0 || us > math.MaxUint16 {
		return c.dev.opError("moderate CQ of", fmt.Errorf("%d completions, %v: %w", count, period, syscall.EINVAL))
	}
	// The kernel gives the handle of a CQ that is closed to another one.
	return c.dev.opError("moderate CQ of", c.users.while(func() error {
		return c.dev.file.ModifyCQ(c.p.Handle(), abi.UverbsCQModeration{CQCount: uint16(count), CQPeriod: uint16(us)})
	}))
}

// Entries returns how many completions fit.
func (c *CQ) Entries() int { return c.p.Entries() }

// SetSpin bounds for how long Wait polls before it sleeps; within the bound it
// adapts to how long completions have taken lately. 0 never polls. The default
// is 10 microseconds. Where waiters have all processors no other goroutine may run
// for as long.
func (c *CQ) SetSpin(max time.Duration) { c.spin.set(max) }

// exclusive is bridge.Verbs.Exclusive.
func (c *CQ) exclusive() bool {
	c.users.mu.Lock()
	defer c.users.mu.Unlock()
	return c.users.count[kindSendQueue]+c.users.count[kindRecvQueue] <= 1
}

// lookPeriod is how many polls that find nothing come between looks around: about a
// millisecond of them, some 10 ns each. So a look costs nothing beside them, and nobody
// waits long for it.
const lookPeriod = 1 << 17

// Poll takes up to len(wcs) completions out of the queue, oldest first, and
// returns how many (ibv_poll_cq(3)). It never blocks and allocates nothing. A CQ
// that is empty because it lost completions gives ErrOverrun.
//
// A loop of polls has its processor until the scheduler interrupts it, after 10 ms or so,
// if somebody waits for one: now and then Poll sees to it that the scheduler looks. A
// loop that looks at memory alone should poll, too, from time to time.
func (c *CQ) Poll(wcs []WC) (int, error) {
	n, err := c.p.Poll(wcs)
	if c.dispatch.active.Load() != 0 {
		n, err = c.dispatchPolled(wcs, n, err, nil)
	}
	if n == 0 {
		if c.empty.Add(1)%lookPeriod == 0 {
			c.lookout.Look()
		}
		if c.overrun.Load() {
			n, err = c.remains(wcs, nil)
		}
	}
	if err != nil {
		return n, c.dev.opError("poll CQ of", err)
	}
	return n, nil
}

// Arm asks for an event on the channel when the next completion comes, or with
// solicitedOnly the next one that a peer marked as solicited or that failed
// (ibv_req_notify_cq(3)). On siw, which would not give that one, every completion
// gives an event. Completions that are there already give none: poll again after
// arming. It is for users of CompChannel.Next; Wait arms by itself.
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

// countArm counts an arm, before the provider makes it: the event may be read before that
// returns. After an error the count is one too high, which costs a read(2). The caller
// holds armMu.
func (c *CQ) countArm() {
	c.arms++
	c.ch.arms.Add(1)
}

// added has those look who wait for completions: the provider has added some
// itself, for which no event comes.
func (c *CQ) added() {
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

// overran notes that the CQ has lost completions, and has all look who wait for
// them: one is woken, and each wakes another when he leaves.
func (c *CQ) overran() {
	c.overrun.Store(true)
	if c.ch != nil {
		c.added()
	}
}

// remains is Poll of a CQ that has overrun. It looks again: what fitted came before
// the event.
func (c *CQ) remains(wcs []WC, w *Waiter) (int, error) {
	n, err := c.poll(wcs, w)
	if n == 0 && err == nil {
		err = ErrOverrun
	}
	return n, err
}

// Close lets go of the CQ (ibv_destroy_cq(3)). Waits end with net.ErrClosed, and the CQ
// takes no more QPs. It is destroyed at once, and with it its own channel, or with the
// Close of the last QP or SRQ on it, which then returns the error of both. Close may be
// called more than once: after an error it tries again.
func (c *CQ) Close() error {
	if !c.closed.Swap(true) {
		close(c.done)
		if c.ch != nil {
			// Its reader may be a waiter of this CQ.
			c.ch.interrupt()
		}
	}
	err := c.users.close(c)
	return c.dev.opError("destroy CQ of", errors.Join(err, c.closeChannel()))
}

func (c *CQ) destroy() error { return c.dev.destroyed(c.p.Close()) }

func (c *CQ) release() error {
	c.hook.Close()
	c.leak.Done()
	return errors.Join(c.forget(), c.dev.unref())
}

// closeChannel closes the CQ's own channel after the CQ has gone.
func (c *CQ) closeChannel() error {
	if !c.ownsCh || !c.users.isEnded() {
		return nil
	}
	return c.ch.Close()
}

// add counts a user of the CQ.
func (c *CQ) add(k kind) error { return c.users.add(k) }

// drop counts a user of the CQ less. If that was the last one of a closed CQ, the CQ ends.
func (c *CQ) drop(k kind) error { return errors.Join(c.users.drop(k), c.closeChannel()) }

// retry destroys a closed CQ if drop has failed to do so.
func (c *CQ) retry() error { return errors.Join(c.users.retry(), c.closeChannel()) }
