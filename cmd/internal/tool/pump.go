// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"

	"purerdma/cm"
)

// Pump fetches the events of a channel in a goroutine of its own and hands them to
// a function, one after the other.
type Pump struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// StartPump starts to fetch. handle need not acknowledge the events. failed gets
// the error that ends it, unless that was Stop or ctx. While the process is out of
// descriptors or memory the Pump waits: a connect request that could not be taken up for
// that reason, for which a listener gets a CONNECT_ERROR, was refused, as librdmacm
// refuses it without an event.
func StartPump(ctx context.Context, ch *cm.EventChannel, handle func(*cm.Event), failed func(error)) *Pump {
	ctx, cancel := context.WithCancel(ctx)
	p := &Pump{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		var wait Backoff
		for {
			ev, err := ch.Next(ctx)
			switch {
			case err == nil && ev.Type == cm.EventConnectError && ev.ID.State() == cm.StateListening:
				ev.Ack()
				err = ev.Err()
			case err == nil:
				wait.Reset()
				handle(ev)
				ev.Ack()
				continue
			}
			if !wait.Wait(ctx, err) {
				if ctx.Err() == nil {
					failed(err)
				}
				return
			}
		}
	}()
	return p
}

// Stop ends it, and waits for the function that is running.
func (p *Pump) Stop() {
	p.cancel()
	<-p.done
}
