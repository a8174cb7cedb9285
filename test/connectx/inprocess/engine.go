// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// MakeUAR makes a page of registers.
func (d *device) MakeUAR(u *mlx5test.UAR) error {
	n, err := d.object(prm.OpAllocUAR)
	if err != nil {
		return err
	}
	u.ID = n
	d.hca.MapUAR(n, u.Mem)
	d.mu.Lock()
	d.uars[u] = n
	d.mu.Unlock()
	d.k.engine.use(d.k.devices)
	return nil
}

// UnmapUAR has the device look at a page no more.
func (d *device) UnmapUAR(u *mlx5test.UAR) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hca.UnmapUAR(d.uars[u])
}

// EndUAR ends a page of registers.
func (d *device) EndUAR(u *mlx5test.UAR) {
	d.mu.Lock()
	n := d.uars[u]
	delete(d.uars, u)
	d.mu.Unlock()
	d.k.engine.leave()
	d.end(prm.OpDeallocUAR, n)
}

// engine has the devices of a kernel do what they are told by registers, as long as
// there are pages of them. It is one goroutine for all devices: one for each could keep
// all processors busy that the scheduler may use, and this looks for files that have
// become ready, such as completion channels, only on a processor that has nothing to do,
// or every 10 milliseconds.
type engine struct {
	mu    sync.Mutex
	pages int
	runs  bool
}

// use counts a page.
func (e *engine) use(devices map[string]*device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages++
	if !e.runs {
		e.runs = true
		go e.run(slices.Collect(maps.Values(devices)))
	}
}

// leave no longer counts it.
func (e *engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages--
}

// over says whether there are no pages, and nobody is to run any more.
func (e *engine) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = e.pages > 0
	return !e.runs
}

// run looks at the registers and takes events.
func (e *engine) run(devices []*device) {
	const (
		spins = 100  // some tens of microseconds
		naps  = 5000 // some hundreds of milliseconds
	)
	for idle := 0; !e.over(); idle++ {
		for _, d := range devices {
			rung := d.hca.Poll()
			if d.takeEvents() || rung {
				idle = 0
			}
		}
		switch {
		case idle < spins:
			runtime.Gosched()
		case idle < naps:
			nap()
		default:
			time.Sleep(time.Millisecond)
		}
	}
}
