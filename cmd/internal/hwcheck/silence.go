// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"os"
	"time"

	"purerdma/verbs"
)

// silenceChecks need a far end on another host that becomes silent.
var silenceChecks = []Check{
	{ID: "peer-silent", Title: "a peer whose link goes down, as if it had lost its power", Destructive: true, needs: needsPeer, do: checkSilentPeer},
}

func needsPeer(t *trial) string {
	switch {
	case t.target.Peer == "" && t.target.setLink == nil:
		return "needs a peer (rdmahw serve -destructive)"
	case iwarp(t.dev):
		return "TCP repeats for many minutes"
	}
	return ""
}

// silenceDelay is the time before the silence. The answer to the request must reach the check, possibly over the same interface.
const silenceDelay = 300 * time.Millisecond

// silenceTime is the time of the silence. Tests shorten it.
var silenceTime = 5 * time.Second

// Silence sets the network interface of the far end down after a delay, and up again later. It returns an error
// unless the far end permits that.
func (x *Ends) Silence(struct{}, *struct{}) error {
	set := x.s.target.setLink
	if set == nil {
		if !x.s.target.Destructive {
			return errors.New("the far end permits no faults (rdmahw serve -destructive)")
		}
		if os.Geteuid() != 0 {
			return errors.New("the far end does not run as root")
		}
		file, err := x.s.target.flagsFile()
		if err != nil {
			return err
		}
		set = func(up bool) error { return setUp(file, up) }
	}
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.silence != nil {
		return errors.New("the far end has been silent before")
	}
	x.s.silence = make(chan error, 1)
	go func() {
		time.Sleep(silenceDelay)
		down := set(false)
		select {
		case <-time.After(silenceTime):
		case <-x.s.ctx.Done(): // the check has ended
		}
		x.s.silence <- errors.Join(down, set(true))
	}()
	return nil
}

// Spoken waits until the network interface of the far end is up again and its port is active.
func (x *Ends) Spoken(struct{}, *struct{}) error {
	x.s.mu.Lock()
	silence := x.s.silence
	x.s.mu.Unlock()
	if silence == nil {
		return errors.New("the far end has not been silent")
	}
	err := <-silence
	silence <- nil // for the end of the service
	if err != nil {
		return err
	}
	for began := time.Now(); !x.s.target.usable(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > returnTime {
			return fmt.Errorf("the port of the far end is not active after %v", returnTime)
		}
	}
	return nil
}

// silentWrite is the length of each WRITE in bytes. With more than 64 packets outstanding, rxe may not count its retries
// (docs/reference/driver-faults.md).
const silentWrite = 32 << 10

func checkSilentPeer(t *trial) { t.leavesNothing(t.silentPeer) }

// silentPeer has requests under way while the far end becomes silent.
func (t *trial) silentPeer() {
	l := t.link(Config{AckTimeout: 10 * time.Millisecond, RetryCount: 2, Memory: 2 * silentWrite})
	if err := t.peer.client.Call("Ends.Silence", struct{}{}, &struct{}{}); err != nil {
		t.skip("%v", err)
	}
	began := time.Now()
	good, longest := 0, time.Duration(0)
	for {
		posted := time.Now()
		l.post(signaled(l.write(piece{0, silentWrite}, 0)), signaled(l.read(piece{silentWrite, 1024}, 0)))
		first := l.sends(2)
		longest = max(longest, time.Since(posted))
		if first[0].Err() == nil && first[1].Err() == nil {
			good += 2
			if time.Since(began) > silenceDelay+silenceTime {
				t.call("Spoken", struct{}{}, &struct{}{}) // it fails if the link did not go down
				t.fail("%d requests have completed while the link of the peer was down, the slowest after %v", good, longest.Round(time.Millisecond))
			}
			time.Sleep(time.Millisecond)
			continue
		}
		t.note("the far end set its network interface down: after %d successes and %v %v and %v", good, time.Since(began).Round(time.Millisecond), first[0].Status, first[1].Status)
		t.wantOrder(first)
		break
	}
	// The device reports no second error, and flushes later requests.
	l.post(signaled(l.write(piece{0, 8}, 0)))
	l.wantStatus("request after the error", l.sends(1)[0], verbs.WCWRFlushErr)
	t.call("Spoken", struct{}{}, &struct{}{})
	t.comesBack()
	l.shut()
}

// wantOrder ends the check unless the first failed request has exceeded its retries, and the requests behind it were flushed.
func (t *trial) wantOrder(wcs []verbs.WC) {
	failed := false
	for i := range wcs {
		want := verbs.WCSuccess
		switch {
		case failed || wcs[i].Status == verbs.WCWRFlushErr && t.losesCarrier():
			want, failed = verbs.WCWRFlushErr, true
		case wcs[i].Err() != nil:
			want, failed = verbs.WCRetryExcErr, true
		}
		if wcs[i].Status != want {
			t.fail("request %d to a silent peer: %v, want %v", i, wcs[i].Status, want)
		}
	}
}

// losesCarrier waits until the port of this end is not usable, and reports whether that happens. A virtual cable has no carrier at
// both ends when one of them is down. rxe then flushes all requests (docs/reference/driver-faults.md). Packets are
// refused before the driver gets the event.
func (t *trial) losesCarrier() bool {
	for began := time.Now(); t.target.usable(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > silenceTime/2 {
			return false
		}
	}
	return true
}
