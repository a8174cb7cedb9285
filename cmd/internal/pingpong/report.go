// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"fmt"
	"math"
	"time"
)

// report prints the rates, and with -c verifies the data that the server has received.
func (n *node) report(took time.Duration) {
	usec := float64(took.Microseconds())
	iters := n.opt.iters
	bytes := int64(n.opt.size) * int64(iters) * 2
	n.u.Printf("%d bytes in %.2f seconds = %s Mbit/sec\n", bytes, usec/1e6, fixed(float64(bytes)*8/usec))
	n.u.Printf("%d iters in %.2f seconds = %s usec/iter\n", iters, usec/1e6, fixed(usec/float64(iters)))
	if n.opt.server == "" && n.opt.check {
		n.verify()
	}
}

// fixed formats like %.2f of printf(3), which formats NaN and infinities differently from Go.
func fixed(f float64) string {
	switch {
	case math.IsNaN(f):
		return "-nan"
	case math.IsInf(f, 1):
		return "inf"
	}
	return fmt.Sprintf("%.2f", f)
}
