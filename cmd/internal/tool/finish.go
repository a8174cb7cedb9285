// SPDX-License-Identifier: Apache-2.0

package tool

// Finish prints how a run has ended and returns the exit status. free is called
// in between, as the C programs do.
func (u *UI) Finish(err error, free func()) int {
	u.Printf("test complete\n")
	free()
	status := Status(err)
	u.Printf("return status %d\n", status)
	if werr := u.Failure(); werr != nil && status == 0 {
		u.Fail(werr)
		status = StatusFailed
	}
	return status & 0xFF
}
