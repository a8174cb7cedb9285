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

// MakeUAR creates a page of registers.
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

// UnmapUAR makes the device ignore a page.
func (d *device) UnmapUAR(u *mlx5test.UAR) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hca.UnmapUAR(d.uars[u])
}

// EndUAR destroys a page of registers.
func (d *device) EndUAR(u *mlx5test.UAR) {
	d.mu.Lock()
	n := d.uars[u]
	delete(d.uars, u)
	d.mu.Unlock()
	d.k.engine.leave()
	d.end(prm.OpDeallocUAR, n)
}

// engine polls the registers of all devices of a kernel while register pages exist. It is one goroutine for all
// devices. With one goroutine for each device all processors could be busy. The scheduler checks for ready files,
// such as completion channels, only on an idle processor or every 10 milliseconds.
type engine struct {
	mu    sync.Mutex
	pages int
	runs  bool
}

// use counts a new page.
func (e *engine) use(devices map[string]*device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages++
	if !e.runs {
		e.runs = true
		go e.run(slices.Collect(maps.Values(devices)))
	}
}

// leave removes a page from the count.
func (e *engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages--
}

// over reports whether no pages exist, so that the engine must end.
func (e *engine) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = e.pages > 0
	return !e.runs
}

// run polls the registers and takes events.
func (e *engine) run(devices []*device) {
	const (
		spins = 100  // tens of microseconds
		naps  = 5000 // hundreds of milliseconds
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
