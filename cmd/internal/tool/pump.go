// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"

	"purerdma/cm"
)

// Pump fetches the events of a channel in its own goroutine and passes them to a function, one
// after the other.
type Pump struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// StartPump starts to fetch events. handle need not acknowledge them. failed receives the error
// that ended the Pump, unless Stop or ctx ended it.
//
// While the process is out of descriptors or memory, the Pump waits. It may then be impossible
// to accept a connect request, for which a listener gets a CONNECT_ERROR. Such a request was
// rejected. librdmacm rejects it without an event.
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

// Stop ends the Pump and waits for the running function.
func (p *Pump) Stop() {
	p.cancel()
	<-p.done
}
