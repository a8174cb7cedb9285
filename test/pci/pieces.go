// SPDX-License-Identifier: Apache-2.0

package pci

// Length returns the number of bytes of the pieces.
func Length(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// Transfer copies pieces to pieces, up to the end of the shorter list. It changes dst.
func Transfer(dst, src [][]byte) {
	for _, s := range src {
		for len(s) > 0 {
			if len(dst) == 0 {
				return
			}
			n := copy(dst[0], s)
			s = s[n:]
			if dst[0] = dst[0][n:]; len(dst[0]) == 0 {
				dst = dst[1:]
			}
		}
	}
}
