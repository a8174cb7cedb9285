// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"fmt"
	"hash/crc32"

	"purerdma/test/connectx/prm"
)

// CommandError says why a firmware command was refused.
type CommandError struct {
	Status prm.Status
	// Syndrome tells refusals of one status apart. It is the same for the same
	// reason in all runs: the checksum of the text before numbers are put in.
	Syndrome uint32
	Text     string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s: %v, syndrome %#x", e.Text, e.Status, e.Syndrome)
}

// refuse returns a CommandError.
func refuse(status prm.Status, format string, args ...any) error {
	return &CommandError{Status: status, Syndrome: crc32.ChecksumIEEE([]byte(format)) & 0xffffff, Text: fmt.Sprintf(format, args...)}
}

// commandError is what the driver hears of an error.
func commandError(err error) *CommandError {
	var e *CommandError
	if !errors.As(err, &e) {
		e = &CommandError{Status: prm.StatusInternal, Text: err.Error()}
	}
	return e
}
