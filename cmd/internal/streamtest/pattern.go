// SPDX-License-Identifier: Apache-2.0

package streamtest

import "fmt"

// Pattern is the data of option -T v. Each byte is one more than the byte before, also from one
// transfer to the next.
type Pattern struct {
	sent, received uint8
	total          int64 // verified bytes
}

// Fill fills b with the next bytes to send.
func (p *Pattern) Fill(b []byte) {
	for i := range b {
		b[i] = p.sent
		p.sent++
	}
}

// Verify compares b with the next bytes to receive.
func (p *Pattern) Verify(b []byte) error {
	for i := range b {
		if b[i] != p.received {
			p.received++
			return VerifyError(p.total)
		}
		p.received++
		p.total++
	}
	return nil
}

// VerifyError is the position of the first wrong byte.
type VerifyError int64

func (e VerifyError) Error() string { return fmt.Sprintf("data verification failed byte %d", int64(e)) }
