// SPDX-License-Identifier: Apache-2.0

package pool

import "math/bits"

// unit is the smallest piece of a slab in bytes, and the alignment of every Buf. It is the size of a
// cache line, so that two Bufs never share one.
const unit = 64

// unitsFor returns the number of units that hold n bytes, which must be more than 0.
func unitsFor(n int) int { return (n-1)/unit + 1 }

// classOf returns the size class for a number of units. The sizes of the classes are 1, 2, 3 and 4
// units, and then four sizes for each doubling: 5, 6, 7, 8, 10, 12, 14, 16, 20 units and so on. A
// Buf is therefore less than 25 % larger than requested, apart from the rounding to units.
func classOf(units int) int {
	if units <= 4 {
		return units - 1
	}
	shift := bits.Len(uint(units-1)) - 3
	return shift*4 + (units-1)>>shift
}

// classUnits returns the size of a class in units.
func classUnits(class int) int {
	if class < 4 {
		return class + 1
	}
	return (class%4 + 5) << (class/4 - 1)
}
