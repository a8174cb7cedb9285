// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestRemovalAnyTime removes the device of one side while many goroutines use both sides. Each of them must return,
// and both connections end.
func TestRemovalAnyTime(t *testing.T) {
	for round := range 12 {
		streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
			c, s := apart(t, k, listen(t, k, streamEnds.listen), streamEnds.dial)
			ctx := streamconntest.Deadline(t)
			var all sync.WaitGroup
			for _, x := range []*msg.Conn{c, s} {
				all.Go(func() { serveRandom(x) })
				all.Go(func() {
					for x.Send(ctx, 0, pattern(round, 300)) == nil {
					}
				})
				all.Go(func() {
					for m, err := x.Call(ctx, randomReverse, nil); err == nil; m, err = x.Call(ctx, randomReverse, nil) {
						m.Free()
					}
				})
				all.Go(func() {
					for {
						mem := msg.Memory{Bytes: make([]byte, 100_000)}
						m, err := x.Do(ctx, &msg.Request{Tag: randomLent, Read: mem, Write: mem})
						if err != nil {
							return
						}
						m.Free()
					}
				})
				all.Go(func() {
					for {
						r, err := x.Stream(ctx, &msg.Request{Tag: randomCount + 30*randomKinds, Parts: 4})
						if err != nil {
							return
						}
						err = takeAll(ctx, r, 30, 1)
						r.Close()
						if err != nil {
							return
						}
					}
				})
			}
			time.Sleep(time.Duration(round) * 500 * time.Microsecond)
			remove(t, k, round%2)
			all.Wait()
			for _, x := range []*msg.Conn{c, s} {
				select {
				case <-x.Done():
				case <-ctx.Done():
					t.Error("Done() is not closed after the removal")
				}
				closed(t, x)
			}
		})
	}
}
