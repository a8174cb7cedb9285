// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"fmt"
	"strconv"
	"time"
)

// Head is the head of the table.
var Head = fmt.Sprintf("%-10s%-8s%-8s%-8s%-8s%8s %10s%13s\n", "name", "bytes", "xfers", "iters", "total", "time", "Gb/sec", "usec/xfer")

// Row returns the row of a test that took the given time. C computes it with numbers of 32 bits.
func (t Test) Row(took time.Duration) string {
	usec := float32(took.Microseconds())
	bytes := int64(t.Iterations) * int64(t.Count) * int64(t.Size) * 2
	return fmt.Sprintf("%-10s%-8s%-8s%-8s%-8s%8.2fs%10.2f%11.2f\n", t.Name, sizeText(int64(t.Size)), countText(int64(t.Count)),
		countText(int64(t.Iterations)), sizeText(bytes), float64(usec)/1000000, float64(bytes*8)/(1000*float64(usec)),
		usec/float32(t.Iterations)/float32(t.Count*2))
}

// sizeText returns a number of bytes with a binary unit, and one decimal if it is below 10.
func sizeText(n int64) string {
	unit, suffix := int64(1), ""
	switch {
	case n >= 1<<30:
		unit, suffix = 1<<30, "g"
	case n >= 1<<20:
		unit, suffix = 1<<20, "m"
	case n >= 1<<10:
		unit, suffix = 1<<10, "k"
	}
	if tenths := n % unit * 10 / unit; n/unit < 10 && tenths > 0 {
		return fmt.Sprintf("%d.%d%s", n/unit, tenths, suffix)
	}
	return strconv.FormatInt(n/unit, 10) + suffix
}

// countText returns a number with a decimal unit.
func countText(n int64) string {
	switch {
	case n >= 1e9:
		return strconv.FormatInt(n/1e9, 10) + "b"
	case n >= 1e6:
		return strconv.FormatInt(n/1e6, 10) + "m"
	case n >= 1e3:
		return strconv.FormatInt(n/1e3, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}
