// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"runtime"
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
	defer d.mu.Unlock()
	d.uars[u] = n
	d.pages++
	if !d.runs {
		d.runs = true
		go d.run()
	}
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
	d.pages--
	d.mu.Unlock()
	d.end(prm.OpDeallocUAR, n)
}

// run looks at the registers and takes events, as long as there are pages.
func (d *device) run() {
	const spins = 20000 // some milliseconds: a sleep takes a millisecond, however short
	for idle := 0; ; idle++ {
		d.mu.Lock()
		if d.pages == 0 {
			d.runs = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		rung := d.hca.Poll()
		if d.takeEvents() || rung {
			idle = 0
		}
		if idle > spins {
			time.Sleep(50 * time.Microsecond)
		} else {
			runtime.Gosched()
		}
	}
}
