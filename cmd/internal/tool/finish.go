// SPDX-License-Identifier: Apache-2.0

package tool

// Finish prints the result of a run and returns the exit status. It calls free between the two
// lines, as the C programs do.
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
