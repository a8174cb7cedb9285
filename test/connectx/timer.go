// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/pci"
)

// timer calls a function later with the fabric's lock held. The zero timer is not set.
type timer struct{ pci.Timer }

// start sets the timer and replaces the previous setting. The time is divided by the fabric's
// pace.
func (t *timer) start(f *Fabric, after time.Duration, run func()) {
	t.Start(f, time.Duration(float64(after)/f.pace), run)
}
