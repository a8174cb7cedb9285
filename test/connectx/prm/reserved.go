// SPDX-License-Identifier: Apache-2.0

package prm

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"
)

// known contains the bits that the fields of each table cover.
var known sync.Map // of the table's pointer to []uint32

// Reserved checks the struct b for set bits that no field of its table covers. It returns a
// description of the first dword with such bits, or "". table is a pointer to one of the tables
// of this package. An [Area] covers itself.
func Reserved(table any, b []byte) string {
	m, ok := known.Load(table)
	if !ok {
		m, _ = known.LoadOrStore(table, covered(table))
	}
	for i, mask := range m.([]uint32) {
		if 4*i+4 > len(b) {
			break
		}
		if bad := binary.BigEndian.Uint32(b[4*i:]) &^ mask; bad != 0 {
			return fmt.Sprintf("reserved bits %#08x at %#x", bad, 4*i)
		}
	}
	return ""
}

// covered returns the bits of each dword that the fields of a table cover, up to the last
// covered dword.
func covered(table any) []uint32 {
	var masks []uint32
	cover := func(off int, mask uint32) {
		for len(masks) <= off/4 {
			masks = append(masks, 0)
		}
		masks[off/4] |= mask
	}
	v := reflect.ValueOf(table).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i).Interface().(type) {
		case Field:
			if f.width == 64 {
				cover(int(f.off), ^uint32(0))
				cover(int(f.off)+4, ^uint32(0))
				continue
			}
			cover(int(f.off), (uint32(1)<<f.width-1)<<f.lsb)
		case Area:
			for off := int(f.off) &^ 3; off < int(f.off+f.n); off += 4 {
				cover(off, ^uint32(0))
			}
		}
	}
	return masks
}
